"""Samples by a part of their key. An index knows places, not keys, so headers are walked once, at the first search.

One thread walks shard after shard and keeps the keys of each as one text with the place of each key in it: 4 bytes a
sample beside the text itself, 25 MB for a million of usual length, at about 700,000 samples a second. A search goes
through the texts of the shards that have been walked so far, and says how far that is. Case counts.

Walking the headers of a remote shard means fetching all of it, so of remote datasets one shard at a time is searched,
unless all of them together are small.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wds_tools.contents import keys
from wds_tools.dataset import Dataset
from wds_tools.errors import ShardstreamError, StaleIndexError, UsageError
from wds_tools.show.words import size
from wds_tools.streamed import open_pass

__all__ = ["Found", "KeyIndex"]

MOST_FOUND = 10_000
MOST_BYTES = 2 << 30
"""Of keys: some 80 million."""
REMOTE_BYTES = 256_000_000
"""Of remote shards that are fetched for a search without a word."""

_SEPARATOR = b"\0"
_log = logging.getLogger(__name__)


class Found(NamedTuple):
    """What a search has found so far.

    Attributes:
        numbers: of the samples, rising.
        walked: shards that were searched.
        of: shards that are to be searched.
        ended: whether no more shards will be walked.
        faults: shards whose keys could not be read.
        full: whether there were more than are given.
    """

    numbers: list[int]
    walked: int
    of: int
    ended: bool
    faults: int
    full: bool


class _Keys(NamedTuple):
    text: bytes  # a separator before each key and at the end
    begins: npt.NDArray[np.uint32]  # of the separators before the keys


class KeyIndex:
    """The keys of a dataset, walked in the background when the first search asks for them. To be closed."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._shards: dict[int, _Keys | None] = {}
        self._bytes = 0
        self._wanted: dict[int, None] = {}  # in the order of asking
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def search(self, text: str, *, shards: Iterable[int], wait_s: float = 0.0) -> Found:
        """Samples whose key holds the text, or begins with it after a "^".

        Args:
            text: what is looked for.
            shards: numbers of the shards to look in; those that have not been walked are from now on.
            wait_s: how long to wait for all of them to be walked.

        Raises:
            UsageError: nothing to look for, or more remote shards than are fetched for a search.
        """
        pattern = self._pattern(text)
        wanted = list(shards)
        self._check_remote(wanted)
        with self._changed:
            self._begin(wanted)
            self._changed.wait_for(lambda: not self._left(wanted), wait_s)
            walked = {shard: self._shards[shard] for shard in wanted if shard in self._shards}
            ended = not self._left(wanted)
        numbers: list[int] = []
        for shard, found in walked.items():
            first = int(self._dataset.starts[shard])
            for at in _matches(found, pattern) if found is not None else ():
                if len(numbers) == MOST_FOUND:
                    return Found(numbers, len(walked), len(wanted), ended, 0, full=True)
                numbers.append(first + at)
        faults = sum(found is None for found in walked.values())
        return Found(numbers, len(walked), len(wanted), ended, faults, full=False)

    def close(self) -> None:
        """End the thread, after the shard it is at. Twice does nothing."""
        with self._changed:
            self._closed = True
            thread = self._thread
        if thread is not None:
            thread.join()

    def _pattern(self, text: str) -> bytes:
        prefix, text = text.startswith("^"), text.removeprefix("^")
        if not text or "\0" in text:
            raise UsageError("nothing to search for", cure="Type a part of a key, or ^ and its beginning.")
        return _SEPARATOR * prefix + text.encode("utf-8", "surrogatepass")

    def _check_remote(self, wanted: list[int]) -> None:
        remote = self._dataset.remote_shards[wanted]
        nbytes = int(self._dataset.sizes[wanted][remote].sum())
        if nbytes > REMOTE_BYTES and len(wanted) > 1:
            raise UsageError(
                f"a search would fetch {size(nbytes)} of remote shards, since keys stand in no index",
                cure="Choose one shard to search in.",
            )

    def _left(self, wanted: list[int]) -> bool:
        return self._thread is not None and any(shard not in self._shards for shard in wanted)

    def _begin(self, wanted: list[int]) -> None:
        """Have these walked too; called with the lock held."""
        self._wanted.update((shard, None) for shard in wanted if shard not in self._shards)
        if self._wanted and self._thread is None and not self._closed and self._bytes < MOST_BYTES:
            self._thread = threading.Thread(target=self._walk, name="shardstream-keys", daemon=True)
            self._thread.start()

    def _walk(self) -> None:
        try:
            while (shard := self._next()) is not None:
                found = self._read(shard)
                with self._changed:
                    self._shards[shard] = found
                    self._bytes += 0 if found is None else len(found.text) + found.begins.nbytes
                    self._changed.notify_all()
        finally:
            with self._changed:  # whoever waits is told that nothing more comes, whatever ended it
                if self._thread is threading.current_thread():
                    self._thread = None
                self._changed.notify_all()

    def _next(self) -> int | None:
        with self._changed:
            if self._closed or not self._wanted or self._bytes >= MOST_BYTES:
                self._thread = None  # under the same lock: what is asked for from now on starts another
                return None
            shard = next(iter(self._wanted))
            del self._wanted[shard]
            return shard

    def _read(self, shard: int) -> _Keys | None:
        """None for a shard that cannot be read, or that the index is not of."""
        url, expected = self._dataset.urls[shard], int(self._dataset.counts[shard])
        try:
            with open_pass(url, remote=self._dataset.remote) as source:
                self._dataset.check_shard(shard, source)
                found = _packed(key.encode("utf-8", "surrogatepass") for key in keys(source))
            if len(found.begins) != expected:
                raise StaleIndexError(f"the index says {expected} samples, found {len(found.begins)}", url=url)
        except ShardstreamError as error:
            _log.warning("a shard is not searched: %s", error)
            return None
        return found


def _packed(encoded: Iterator[bytes]) -> _Keys:
    parts = [b"", *encoded]
    ends = np.cumsum([len(part) + 1 for part in parts], dtype=np.uint32)
    return _Keys(_SEPARATOR.join(parts) + _SEPARATOR, ends[:-1] - 1)


def _matches(found: _Keys, pattern: bytes) -> Iterator[int]:
    """The places of the keys that hold the pattern, each once."""
    at = found.text.find(pattern)
    while at >= 0:
        place = int(np.searchsorted(found.begins, at, side="right")) - 1
        yield place
        end = int(found.begins[place + 1]) if place + 1 < len(found.begins) else len(found.text) - 1
        at = found.text.find(pattern, end)
