"""What was scanned or imported once, kept in the user's cache directory: `$XDG_CACHE_HOME/shardstream/index`.

One file a shard, and one listing with mapped offsets for each large set of shards that was opened together, so that a
second start reads two files and all processes share the pages. Names are hashes over path, size and modification time
in nanoseconds, so nothing in there is ever rewritten while somebody maps it, and a changed shard is simply not found.
Files are written atomically; what is damaged is ignored and made again. A directory that cannot be written is no error:
the index is then made at each start, which is logged once.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from wds_tools.atomic import write_atomic
from wds_tools.errors import ShardstreamError
from wds_tools.index.listing import ShardRecord, write_listing
from wds_tools.index.offsets import OffsetArray, Offsets, map_offsets, write_offsets
from wds_tools.sample import BytesLike

__all__ = ["FileFacts", "IndexCache", "default_cache_dir"]

_log = logging.getLogger(__name__)
_MAGIC = b"shardstream-index-1\n"


class FileFacts(NamedTuple):
    """What makes a file the same file: absolute path, bytes, modification time in ns; of a url its version."""

    path: str
    size: int
    mtime_ns: int | str


def default_cache_dir() -> Path | None:
    """`$XDG_CACHE_HOME/shardstream`, else `~/.cache/shardstream`; None for a user without a home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if base.startswith("/"):  # the XDG rule: relative values are ignored
        return Path(base) / "shardstream"
    try:
        return Path.home() / ".cache" / "shardstream"
    except RuntimeError:
        return None


class IndexCache:
    """The index files under one cache directory.

    Args:
        root: the cache directory; `index/` is made in it when something is first kept. None keeps nothing.

    Safe for many threads: whichever finds that nothing can be kept ends it for all, so each looks at the folder once.
    """

    def __init__(self, root: Path | None) -> None:
        self._folder = None if root is None else root / "index"

    def load(self, facts: FileFacts) -> OffsetArray | None:
        """The offsets of one shard, uint64 (n + 1,), or None."""
        folder = self._folder
        if folder is None:
            return None
        try:
            data = self._shard_file(folder, facts).read_bytes()
        except OSError:
            return None
        head, row = data[: len(_head(facts, b""))], data[len(_head(facts, b"")) :]
        return np.frombuffer(row, dtype="<u8") if row and len(row) % 8 == 0 and head == _head(facts, row) else None

    def save(self, facts: FileFacts, offsets: OffsetArray) -> None:
        """Keep the offsets of one shard, if possible."""
        row = np.ascontiguousarray(offsets, dtype="<u8").tobytes()
        self._keep(
            lambda folder: write_atomic(self._shard_file(folder, facts), [_head(facts, row), row], durable=False)
        )

    def set_listing(self, facts: Sequence[FileFacts]) -> str | None:
        """Where the listing of a set of shards lies that was opened together before; None if it was not."""
        folder = self._folder
        path = None if folder is None else self._set_file(folder, facts)
        # os.access and not Path.is_file, which raises where the folder may not be searched (until Python 3.14).
        return str(path) if path is not None and os.access(path, os.R_OK) else None

    def save_set(self, facts: Sequence[FileFacts], rows: Sequence[OffsetArray]) -> bool:
        """Keep the offsets of a set of shards as a listing; whether that was possible."""
        records = [
            ShardRecord(url=fact.path, samples=len(row) - 1, bytes=fact.size, offsets=row)
            for fact, row in zip(facts, rows, strict=True)
        ]
        return self._keep(
            lambda folder: write_listing(self._set_file(folder, facts), records, name="cache", durable=False)
        )

    def joined(self, key: str, row: OffsetArray) -> Offsets | None:
        """`row` as a mapped array, kept under `key`, which names its content; None if it cannot be kept."""
        length, folder = len(row), self._folder
        if folder is None:
            return None
        path = folder / f"joined-{_hash(key)}.offsets.npy"
        try:
            return map_offsets(str(path), length=length)
        except ShardstreamError:
            pass
        if not self._keep(lambda _: write_offsets(path, [row], length=length, durable=False)):
            return None
        return map_offsets(str(path), length=length)

    @property
    def folder(self) -> Path | None:
        """Where files are kept; None where nothing can be."""
        return self._folder

    def keep(self, path: Path, pieces: Iterable[BytesLike]) -> int | None:
        """Keep a file under `folder`; how many bytes it has, None where nothing can be kept.

        Raises:
            ShardstreamError: what the pieces raise. A disk that fails is none of it: then nothing is kept.
        """
        raised: list[ShardstreamError] = []
        count = 0

        def counted() -> Iterator[BytesLike]:
            nonlocal count
            try:
                for piece in pieces:
                    count += len(piece)
                    yield piece
            except ShardstreamError as error:
                raised.append(error)
                raise

        kept = self._keep(lambda _: write_atomic(path, counted(), durable=False), quiet=raised)
        if raised:
            raise raised[0]
        return count if kept else None

    def _keep(self, write: Callable[[Path], object], *, quiet: Sequence[object] = ()) -> bool:
        folder = self._folder
        if folder is None:
            return False
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write(folder)
        except (OSError, ShardstreamError) as error:
            if quiet:  # it is not the folder's fault
                return False
            _log.warning("the index is not kept and will be made again at the next start: %s", error)
            self._folder = None
            return False
        return True

    @staticmethod
    def _shard_file(folder: Path, facts: FileFacts) -> Path:
        return folder / f"shard-{_hash(repr(facts))}.idx"

    @staticmethod
    def _set_file(folder: Path, facts: Sequence[FileFacts]) -> Path:
        return folder / f"set-{_hash(repr(list(facts)))}.json"


def _head(facts: FileFacts, row: bytes) -> bytes:
    """Says which shard it is and what the numbers must sum to, so that neither a clash nor a torn file is believed."""
    return _MAGIC + json.dumps([*facts, f"{zlib.crc32(row):08x}"]).encode("ascii") + b"\n"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
