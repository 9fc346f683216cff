"""One shard in the making: it becomes a whole file under its name, or nothing.

Bytes go to `.NAME.<random>.tmp` beside the target, so that no reader's glob (*.tar) ever sees them. Commit writes the
end of the archive, waits until the disk has it all (fsync), renames, and waits for the folder's entry too. After a
crash or a power cut a name that ends in .tar is therefore a whole shard.

Pieces (headers, data, padding) are gathered without copying, a MiB of them at a time, and go into the file by `writev`
in writes that end at multiples of 256 KiB, so that the kernel caches the file in pieces of that size and not in pages:
on ext4, 107 KB of a shard cost 25 microseconds of processor time to write so, and 29 with ends anywhere. Writes of a
MiB cost 22 where the kernel has pieces of a MiB at hand, and 200 where it has not (measured on a virtual machine that
gives free memory back to its host), so they are not made. A checksum of the whole file is computed from the same
pieces, so that it tells what was meant and not what the disk gives back.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from shardwriter.behind import Behind
from wds_tools.atomic import sync_folder, temporary_beside
from wds_tools.checksum import begin
from wds_tools.errors import TargetError, UnavailableError
from wds_tools.sample import BytesLike
from wds_tools.tar.write import END

__all__ = ["Sink", "translated"]

BATCH_BYTES = 1 << 20
BATCH_PIECES = 960
"""Below the 1,024 that the kernel takes in one writev."""
WRITE_BYTES = 1 << 18
"""Of one writev; see above."""


class Sink:
    """An open shard. `add` and then either `commit` or `discard`, each from one thread at a time.

    Args:
        path: the shard's final name; its folder exists.
        checksum: which kind to compute on the way ("xxh3", "sha256"), None for none.
        behind: does the writes while `add` goes on, and then raises what they raise later; None to write in `add`.

    Attributes:
        size: bytes of all members so far, headers and padding included, the end of the archive not.
    """

    def __init__(self, path: Path, checksum: str | None = None, behind: Behind | None = None) -> None:
        self.path = path
        self.size = 0
        self._kind = checksum
        self._digest = None if checksum is None else begin(checksum)
        self._pieces: list[BytesLike] = []
        self._written = 0
        self._behind = behind
        self._temporary = temporary_beside(path)
        with translated(path):
            # 0o666 and the umask, as any file that the user writes; mkstemp's 0o600 shuts out colleagues.
            self._file = open(self._temporary, "xb", buffering=0)  # noqa: SIM115, PTH123 - closed by commit or discard

    @property
    def checksum(self) -> str | None:
        """Such as "xxh3:...", of what was written so far: of the file, after commit. None where none was asked for."""
        return None if self._digest is None else f"{self._kind}:{self._digest.hexdigest()}"

    def add(self, pieces: Sequence[BytesLike], size: int) -> None:
        """Append pieces of `size` bytes in all. Nobody may change them any more: they may be written later."""
        self._pieces += pieces
        self.size += size
        behind = self.size % BATCH_BYTES
        if self.size - behind > self._written:
            self._flush(behind)
        elif len(self._pieces) >= BATCH_PIECES:
            self._flush()

    def commit(self) -> None:
        """End the archive and give it its name. On any error nothing is left.

        Raises:
            UnavailableError: the disk is full, or gone.
            TargetError: the name was taken in the meantime.
        """
        try:
            if self._behind is not None:
                self._behind.settle()
            self._write([*self._pieces, END], self._written)
            self._pieces = []
            with translated(self.path):
                os.fsync(self._file.fileno())
                self._file.close()
                _publish(self._temporary, self.path)
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Remove the half shard. Never raises; after commit, or twice, it does nothing."""
        self._pieces.clear()
        if self._behind is not None:
            self._behind.drop()  # before the descriptor goes, whose number another file may get
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            self._temporary.unlink()

    def _flush(self, keep: int = 0) -> None:
        """Write all but the last `keep` bytes."""
        pieces, self._pieces = self._pieces, _taken(self._pieces, keep)
        at, self._written = self._written, self.size - keep
        if self._behind is None:
            self._write(pieces, at)
        else:
            self._behind.add(partial(self._write, pieces, at))

    def _write(self, pieces: list[BytesLike], at: int) -> None:
        """Write pieces, which begin at this place in the file."""
        if self._digest is not None:
            for piece in pieces:  # for 107 KB 2 microseconds with xxh3, 60 with sha256; joined first, xxh3 takes 4
                self._digest.update(piece)
        left = deque(pieces)
        with translated(self.path):
            while left:
                part = _first(left, WRITE_BYTES - at % WRITE_BYTES)
                size = sum(map(len, part))
                written = os.writev(self._file.fileno(), part)
                at += written
                if written < size:  # the disk is nearly full
                    left.extendleft(reversed(_taken(part, size - written)))


def _first(pieces: deque[BytesLike], size: int) -> list[BytesLike]:
    """The first bytes, `size` of them where there are so many and in no too many pieces; they are taken away."""
    taken: list[BytesLike] = []
    while size and pieces and len(taken) < BATCH_PIECES:
        piece = pieces.popleft()
        if len(piece) > size:
            view = memoryview(piece)
            piece = view[:size]
            pieces.appendleft(view[size:])
        taken.append(piece)
        size -= len(piece)
    return taken


def _taken(pieces: list[BytesLike], size: int) -> list[BytesLike]:
    """The last `size` bytes, which are no longer among the pieces then."""
    taken: list[BytesLike] = []
    while size:
        piece = memoryview(pieces.pop())
        if len(piece) > size:
            pieces.append(piece[:-size])
            piece = piece[-size:]
        taken.append(piece)
        size -= len(piece)
    return taken[::-1]


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """What the operating system says about writing `path`, in our words and with a cure."""
    try:
        yield
    except OSError as error:
        if isinstance(error, UnavailableError | TargetError):
            raise
        raise UnavailableError(
            f"cannot be written: {error.strerror or error}", url=str(path), cure=_CURES.get(error.errno or 0)
        ) from error


_CURES = {
    errno.ENOSPC: "Free space on this disk, or write to another; nothing half was left behind.",
    errno.EDQUOT: "The quota of this disk is used up: free space, or write to another; nothing half was left behind.",
    errno.EFBIG: "The file grew beyond a limit (ulimit -f, or the file system's): raise it, or lower max_bytes.",
    errno.EACCES: "Choose a folder that you may write to.",
    errno.EROFS: "This disk is mounted read-only: choose another folder.",
}


def _publish(temporary: Path, path: Path) -> None:
    """Rename a file that the disk already has, and wait until the disk has the new name."""
    if os.path.lexists(path):
        raise TargetError(
            "the name was taken in the meantime", url=str(path), cure="Let one writer at a time work on these names."
        )
    temporary.rename(path)
    sync_folder(path.parent)
