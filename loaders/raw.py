"""Raw samples of shards, one after the other in the order of the shards: `loaders.samples`.

The simplest way to read, without index, threads or decoding: bytes as they lie in the shards, compressed shards too.
One shard is open at a time; a remote one is streamed, one request for all of it, which any server can answer.

`on_error="skip"` leaves out what is bad in content (DataError): a bad sample, and of a damaged shard all from the
damage on. Each is counted in `skipped`, and logged with at most one line a shard. What cannot be had
(UnavailableError) is always raised: skipping it would silently train on less.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Generator, Iterator
from typing import Self

from loaders.policy import OnError, policy_of
from wds_tools import addresses
from wds_tools.errors import DataError
from wds_tools.grouping import OnBad
from wds_tools.sample import RawSample
from wds_tools.shard import iter_samples
from wds_tools.sources.options import Remote
from wds_tools.sources.resolve import open_source, open_stream
from wds_tools.streamed import iter_streamed
from wds_tools.urls import Urls, expand

__all__ = ["Samples", "samples"]

_log = logging.getLogger(__name__)


def samples(urls: Urls, *, on_error: OnError = "raise", remote: Remote | None = None) -> Samples:
    """The raw samples of shards, in order.

    Args:
        urls: a string with braces, a glob, a folder, a `dataset.json`, a `Path`, or a list of these.
        on_error: "raise", or "skip" to leave out what is damaged, counted and logged.
        remote: how remote hosts are asked; None means the defaults.

    Returns:
        An iterator of dicts: `__key__` and `__url__` (str), and bytes-like values by field. Small values are bytes,
        others views that stay valid for as long as they are kept.

    Raises:
        NoShardsError: no shard matches (at once, not when the first sample is asked for).
        DataError: while iterating, on a damaged shard or sample, unless they are skipped.
        UnavailableError: while iterating, a shard that cannot be read.
    """
    return Samples(expand(urls, remote=remote), on_error=on_error, remote=remote)


class Samples(Iterator[RawSample]):
    """An iterator over the samples of shards. Ends what it opened when it is exhausted, closed, or an error passes.

    Attributes:
        skipped: how many samples or shards were left out, by the name of the error.
    """

    def __init__(self, urls: list[str], *, on_error: OnError = "raise", remote: Remote | None = None) -> None:
        skip = policy_of(on_error) == "skip"
        self.skipped: Counter[str] = Counter()
        self._running = _run(urls, self.skipped if skip else None, remote)

    def __iter__(self) -> Iterator[RawSample]:  # noqa: PYI034 - the generator itself: one call less for each sample
        return self._running

    def __next__(self) -> RawSample:
        return next(self._running)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the open shard, if any. Iteration then ends."""
        self._running.close()


def _run(urls: list[str], skipped: Counter[str] | None, remote: Remote | None) -> Generator[RawSample, None, None]:
    for url in urls:
        if skipped is None:
            yield from _shard(url, remote, None)
        else:
            yield from _lenient(url, remote, skipped)


def _shard(url: str, remote: Remote | None, on_bad: OnBad | None) -> Iterator[RawSample]:
    if addresses.is_remote(url):
        with open_stream(url, remote=remote) as stream:
            yield from iter_streamed(stream, remote=remote, on_bad=on_bad)
    else:
        with open_source(url) as source:
            yield from iter_samples(source, on_bad=on_bad)


def _lenient(url: str, remote: Remote | None, skipped: Counter[str]) -> Iterator[RawSample]:
    def count(error: DataError) -> None:
        skipped[type(error).__name__] += 1

    try:
        yield from _shard(url, remote, count)  # which logs how many there were, when it comes to the end
    except DataError as error:
        count(error)
        _log.warning("the rest of a shard is skipped: %s", error)
