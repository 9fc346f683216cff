"""What inputs share whose samples are records of some files: where each record lies, and which file it is in.

16 bytes a record are held: where its data begin, and how many there are. Compressed files are unpacked once, in order,
into a nameless temporary file.
"""

from __future__ import annotations

import glob
import os
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from shardwriter.inputs.base import path_shown
from shardwriter.inputs.opened import OpenFiles, read_view
from shardwriter.inputs.spool import Spool
from shardwriter.inputs.unpacked import SpooledFile, unpack
from wds_tools.errors import UsageError
from wds_tools.sources.base import Source
from wds_tools.sources.resolve import open_source
from wds_tools.tar.compressed import sniff

__all__ = ["Files", "Records", "files_of"]

_HEAD = 64

Files: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"


def files_of(paths: Files, suffixes: Sequence[str]) -> list[str]:
    """The files that a path, a pattern, a folder or a list of these means, sorted within each.

    Args:
        paths: what the user named.
        suffixes: what names of files in a folder must hold, such as ".tfrecord".

    Raises:
        UsageError: nothing matches.
    """
    found: list[str] = []
    for each in [paths] if isinstance(paths, str | os.PathLike) else paths:
        path = os.fspath(each)
        if Path(path).is_dir():
            names = sorted(entry.name for entry in os.scandir(path) if entry.is_file())
            more = [os.path.join(path, name) for name in names if any(end in name for end in suffixes)]  # noqa: PTH118
        elif Path(path).exists():
            more = [path]
        else:
            more = sorted(glob.glob(path)) if isinstance(each, str) else []  # noqa: PTH207 - text in, text out
        if not more:
            raise UsageError(f"no such files: {path_shown(path)}", cure="Check the path; a pattern needs quotes.")
        found += more
    return found


class Records:
    """The records of some files. Picklable where none of them is compressed.

    Args:
        paths: the files.
        find: gives offset and size of the data of each record of an open file.
        plain: whether a file with these first bytes is not compressed, whatever else they look like.
        temporary: on whose disk compressed files are unpacked.
        progress: called with the number of records of each file.
    """

    def __init__(
        self,
        paths: Sequence[str],
        find: Callable[[Source], Iterator[tuple[int, int]]],
        *,
        plain: Callable[[bytes], bool],
        temporary: str | os.PathLike[str] | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> None:
        self.paths = list(paths)
        self._spool: Spool | None = None
        self._unpacked: dict[int, SpooledFile | None] = {}
        self._files = OpenFiles(self.paths, opener=self._open)
        self._offsets = array("Q")
        self._sizes = array("Q")
        self._ends: list[int] = []
        self._bytes: list[int] = []
        try:
            for number in range(len(self.paths)):
                self._add(number, find, plain, temporary)
                if progress is not None:
                    progress(self._ends[-1] - (self._ends[-2] if number else 0))
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return len(self._offsets)

    def place(self, index: int) -> tuple[int, int]:
        """The number of the file, and the number of the record in it."""
        number = bisect_right(self._ends, index)
        return number, index - (self._ends[number - 1] if number else 0)

    def offset(self, index: int) -> int:
        """Where the data of a record begin in its (unpacked) file."""
        return self._offsets[index]

    def read(self, index: int, *, before: int = 0, behind: int = 0) -> bytes:
        """The data of a record, with some bytes before and behind them.

        Raises:
            UnavailableError, TruncatedShardError: the file cannot be read, or has changed.
        """
        offset, size = self._offsets[index] - before, self._sizes[index] + before + behind
        return bytes(self._files.read(bisect_right(self._ends, index), offset, size))

    def facts(self) -> list[object]:
        """For each file its path, its size and the number of its records: for fingerprints."""
        return [list(row) for row in zip(map(os.path.abspath, self.paths), self._bytes, self.counts(), strict=True)]

    def counts(self) -> list[int]:
        """The number of records of each file."""
        return [end - begin for begin, end in zip([0, *self._ends], self._ends, strict=False)]

    def close(self) -> None:
        """Close the files, and give the temporary file back. Twice does nothing."""
        self._files.close()
        if self._spool is not None:
            self._spool.close()

    def _add(
        self,
        number: int,
        find: Callable[[Source], Iterator[tuple[int, int]]],
        plain: Callable[[bytes], bool],
        temporary: str | os.PathLike[str] | None,
    ) -> None:
        with open_source(self.paths[number]) as source:
            self._bytes.append(source.size())
            head = bytes(read_view(source, 0, min(_HEAD, source.size())))
            unpacked = None
            if sniff(head) is not None and not plain(head):
                self._spool = self._spool or Spool(temporary)
                unpacked = self._unpacked[number] = unpack(source, self._spool)
            for offset, size in find(source if unpacked is None else unpacked):
                self._offsets.append(offset)
                self._sizes.append(size)
        self._ends.append(len(self._offsets))

    def _open(self, number: int) -> Source:
        return self._unpacked.get(number) or open_source(self.paths[number])
