"""What happens to a bad sample: raise, or skip it so that every rank skips alike.

Only the content of a sample is ever skipped (`SKIPPED`: fields, pictures, and the headers inside the sample). A shard
that cannot be reached is raised, whatever the policy: the samples in it are fine, and training on what is left would be
a silent change of the data.

The quarantine file lists what was skipped, one JSON object a line: {"sample", "url", "key", "field", "problem",
"instead", "fingerprint"}. Several ranks append to one file; given back as `exclude=` the listed samples are replaced
without being read.

Handlers of webdataset are taken in place of the two words, by their names and without importing it. They decide on any
exception of their pipeline; here, as said, on the content of samples alone.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, TypeAlias

from wds_tools.errors import DataError, GroupingError, HeaderError, SampleError, StateError, UsageError, public
from wds_tools.small import read_small

__all__ = [
    "MAX_FAILURES_IN_A_ROW",
    "SKIPPED",
    "SKIP_CURE",
    "OnError",
    "Policy",
    "Quarantine",
    "policy_of",
    "read_exclude",
]

Policy = Literal["raise", "skip"]
OnError: TypeAlias = Policy | Callable[[Exception], object]
"""What users give: a policy, or a handler of webdataset."""

MAX_FAILURES_IN_A_ROW = 100
SKIPPED = (SampleError, HeaderError, GroupingError)
SKIP_CURE = 'Mend or remove the sample, or pass on_error="skip" to replace bad samples.'

_MOST_BYTES = 1 << 30
"""Of a quarantine file: some three million lines."""

log = logging.getLogger(__name__)


# The first of each kind of error is logged as a warning whichever of the two it is: nothing is skipped without a word.
_HANDLERS: dict[str, Policy] = {
    "reraise_exception": "raise",
    "warn_and_continue": "skip",
    "ignore_and_continue": "skip",
}
_STOPPING = ("ignore_and_stop", "warn_and_stop")


def policy_of(on_error: OnError) -> Policy:
    """The policy that `on_error=` names: itself, or what a handler of webdataset comes to.

    Raises:
        UsageError: it is neither, or a handler that ends the epoch at the first fault.
    """
    if on_error == "raise" or on_error == "skip":  # noqa: PLR1714 - mypy narrows these, and not a membership
        return on_error
    name = getattr(on_error, "__qualname__", "")
    if getattr(on_error, "__module__", None) == "webdataset.handlers":
        if name in _HANDLERS:
            return _HANDLERS[name]
        if name in _STOPPING:
            raise UsageError(
                f"on_error is webdataset's {name}, which ends an epoch at the first bad sample: ranks would be uneven",
                cure='Pass "raise", or "skip" to replace bad samples by good ones.',
            )
    cure = (
        "Of webdataset's handlers reraise_exception, warn_and_continue and ignore_and_continue are taken; one of your "
        "own has no counterpart."
    )
    raise UsageError(f"on_error is {on_error!r}, expected 'raise' or 'skip'", cure=cure if callable(on_error) else None)


class Quarantine:
    """Counts bad samples, logs the first of each kind, and keeps the list. Safe for many threads.

    Raises:
        UsageError: the list cannot be written.
    """

    def __init__(self, path: Path | None, *, fingerprint: str) -> None:
        if path is not None:
            _check_writable(path)
        self._path = path
        self._fingerprint = fingerprint
        self._lock = threading.Lock()
        self._seen: set[int] = set()
        self.counts: Counter[str] = Counter()

    def add(self, sample: int, error: DataError, *, instead: str | None) -> None:
        """Note one bad sample and the key of the one that took its place, None where nothing did."""
        kind = type(error).__name__
        with self._lock:
            self.counts[kind] += 1
            if self.counts[kind] == 1:
                log.warning("skipped a sample (%s, further ones of this kind are only counted): %s", kind, error)
            if self._path is None or sample in self._seen:
                return
            self._seen.add(sample)
            line = {
                "sample": sample,
                "url": None if error.url is None else public(error.url),
                "key": error.key,
                "field": error.field,
                "problem": public(error.problem),
                "instead": instead,
                "fingerprint": self._fingerprint,
            }
            try:
                _append(self._path, json.dumps(line) + "\n")
            except OSError as failure:
                log.warning(
                    "the quarantine file %s takes no more lines (%s): further bad samples are only counted",
                    self._path,
                    failure.strerror,
                )
                self._path = None


def _check_writable(path: Path) -> None:
    """Raise UsageError where the list could not be written, before the first batch and not at the first bad sample."""
    try:
        _append(path, "")
    except OSError as error:
        raise UsageError(
            f"quarantine={str(path)!r} cannot be written: {error.strerror}",
            cure="Name a file in a folder that exists and that you may write to.",
        ) from error


def _append(path: Path, line: str) -> None:
    # One write of one line to a file opened for appending: lines of several ranks do not mix.
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        data = line.encode()
        if data and os.write(descriptor, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(descriptor)


def read_exclude(exclude: str | os.PathLike[str] | Iterable[int] | None, *, fingerprint: str) -> frozenset[int]:
    """The samples to leave out: indices as given, or those a quarantine file lists.

    Raises:
        UsageError: the file is no quarantine file.
        StateError: it was written for another dataset.
    """
    if exclude is None:
        return frozenset()
    if not isinstance(exclude, str | os.PathLike):
        return frozenset(int(sample) for sample in exclude)
    path = Path(exclude)
    try:
        rows = [json.loads(line) for line in read_small(path, most=_MOST_BYTES).splitlines() if line.strip()]
        pairs = [(int(row["sample"]), str(row["fingerprint"])) for row in rows]
    except UsageError:  # a ValueError too, and says it all
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"exclude={str(path)!r} is no quarantine file: {error}",
            cure="Pass the file that quarantine= wrote, or sample indices.",
        ) from error
    for sample, theirs in pairs:
        if theirs != fingerprint:
            raise StateError(
                f"exclude={str(path)!r} lists sample {sample} of another dataset (fingerprint {theirs}, this one has "
                f"{fingerprint})",
                cure="Delete the file and let on_error='skip' write a new one.",
            )
    return frozenset(sample for sample, _ in pairs)
