"""The folder that holds files of decoded pictures: who uses them, what may be removed, how many bytes are left.

All that makes, enlarges or removes a file happens under one lock, which the kernel gives back when its holder dies. A
file's length is what it was granted, and the lengths of all files together never exceed the limit. A file that is in
use is held by a shared lock, so what was left behind by a process that was killed can be told.

In memory (a folder of this user in /dev/shm) a file is removed with its last user: by that one, or, if it was killed,
by whoever comes next. Workers of a DataLoader may all end between two epochs, so each names its parent as an owner:
the file then stays for as long as that process lives. In a named folder files stay. Where room is needed, files that
nobody uses go, the one that was opened longest ago first.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from loaders.decoded.layout import BLOCK
from wds_tools.errors import UnavailableError
from wds_tools.sources.cache import locks

__all__ = ["SUFFIX", "Place", "shared_memory_folder"]

SUFFIX = ".pictures"
_OWNER = ".owner"
_NEW = ".new"
_LOCK = "lock"
_KEPT_FREE = 0.05
"""Of the disk or of /dev/shm: one that is full harms others more than a miss harms us."""
_SHM = Path("/dev/shm")  # nosec B108  # noqa: S108 - the kernel's shared memory file system, not a temporary folder


def shared_memory_folder() -> Path:
    """Where decoded pictures lie in memory.

    Raises:
        UnavailableError: this system has no such file system.
    """
    if not _SHM.is_dir():
        raise UnavailableError(
            f"there is no {_SHM} here to keep decoded pictures in memory",
            cure="Name a folder instead, on a disk or a tmpfs: decoded_cache=DecodedCache(FOLDER, BYTES).",
        )
    return _SHM / f"shardstream-decoded-{os.getuid()}"


class Place(NamedTuple):
    """A folder of decoded pictures.

    Attributes:
        folder: made when it is first locked.
        limit: bytes of all files together.
        ram: whether files end with their last user.
    """

    folder: Path
    limit: int
    ram: bool

    @contextlib.contextmanager
    def locked(self, *, wait: bool = True) -> Iterator[None]:
        """Hold the folder alone.

        Raises:
            OSError: it cannot be made or written; or somebody holds it, and `wait` is False.
            UnavailableError: it is in memory and belongs to somebody else.
        """
        path = self.folder / _LOCK
        while True:
            self._prepare()
            with contextlib.ExitStack() as stack:
                try:
                    descriptor = stack.enter_context(locks.exclusive(path, create=True, wait=wait))
                except FileNotFoundError:  # removed by the last user, who came in between
                    if path.is_symlink():  # to a place that is not there, and will not be
                        raise
                    continue
                if _is_at(descriptor, path):
                    yield
                    return

    def _prepare(self) -> None:
        if not self.ram:
            self.folder.mkdir(parents=True, exist_ok=True)
            return
        self.folder.mkdir(mode=0o700, exist_ok=True)
        facts = self.folder.lstat()
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o022:
            raise UnavailableError(
                f"{self.folder}, where decoded pictures are kept, may be written by others",
                cure="Remove it, or have it removed by whoever made it.",
            )

    def files(self) -> list[Path]:
        """All files, in any order."""
        return list(self.folder.glob(f"*{SUFFIX}"))

    def in_use(self, path: Path) -> bool:
        """Whether anybody has the file open, or owns it; owners that have ended are forgotten."""
        owned = False
        for marker in self.folder.glob(f"{path.stem}.*{_OWNER}"):
            if _lives(marker):
                owned = True
            else:
                marker.unlink(missing_ok=True)
        return owned or locks.is_shared(path)

    def tidy(self) -> None:
        """Remove what nobody uses: of files in memory all, else what a process left half made. Under the lock."""
        for path in self.folder.glob(f"*{SUFFIX}{_NEW}"):
            path.unlink()
        for path in self.files() if self.ram else ():
            if not self.in_use(path):
                path.unlink()

    def release(self) -> None:
        """A user has gone: of what is in memory nothing stays that nobody uses. Does not wait, and never raises."""
        if not self.ram or not self.folder.is_dir():
            return
        with contextlib.suppress(OSError), self.locked(wait=False):
            self.tidy()
            if not self.files():
                (self.folder / _LOCK).unlink()
                self.folder.rmdir()

    def own(self, path: Path, process: int) -> None:
        """Keep the file for as long as that process lives. Under the lock."""
        self.folder.joinpath(f"{path.stem}.{process}-{_begun(process)}{_OWNER}").touch()

    def disown(self, process: int) -> None:
        """That process needs nothing any more; with nobody else, files in memory go. Never raises."""
        if self.ram and self.folder.is_dir():
            with contextlib.suppress(OSError):
                for marker in self.folder.glob(f"*.{process}-*{_OWNER}"):
                    marker.unlink()
            self.release()

    def make(self, path: Path, begin: bytes, length: int) -> bool:
        """Make a file of that length which begins with these bytes; whether there was room. Under the lock.

        Raises:
            OSError: the disk.
        """
        new = path.with_name(path.name + _NEW)
        descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600 if self.ram else 0o666)
        try:
            made = self.grant(descriptor, need=length, want=length, beside=path) == length
            if made:
                os.pwrite(descriptor, begin, 0)
                new.rename(path)
            return made
        finally:
            os.close(descriptor)
            new.unlink(missing_ok=True)

    def grant(self, descriptor: int, *, need: int, want: int, beside: Path) -> int:
        """Lengthen a file by at least `need` bytes and at most `want`; by how many, 0 where there is no room.

        Args:
            descriptor: of the file, which is enlarged. Under the lock.
            need: bytes, a multiple of a block.
            want: bytes, a multiple of a block.
            beside: the file itself, which is not removed to make room.

        Raises:
            OSError: the disk is full after all, or refuses.
        """
        room = self._room()
        if room < need:
            self._evict(need, beside)
            room = self._room()
        granted = min(want, room // BLOCK * BLOCK)
        if granted < need:
            return 0
        os.posix_fallocate(descriptor, os.fstat(descriptor).st_size, granted)
        return granted

    def _room(self) -> int:
        disk = os.statvfs(self.folder)
        free = disk.f_bavail * disk.f_frsize - int(disk.f_blocks * disk.f_frsize * _KEPT_FREE)
        return min(self.limit - sum(path.stat().st_size for path in self.files()), free)

    def _evict(self, need: int, beside: Path) -> None:
        for path in sorted(self.files(), key=lambda path: path.stat().st_mtime):
            if path != beside and not self.in_use(path):
                path.unlink()
                if self._room() >= need:
                    return


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _begun(process: int) -> str:
    """When a process began, in ticks since the machine did: a number is given out again, a number and that are not."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return "gone"
    return text.rpartition(")")[2].split()[19]


def _lives(marker: Path) -> bool:
    process, _, begun = marker.name.removesuffix(_OWNER).rpartition(".")[2].partition("-")
    return process.isdecimal() and begun != "gone" and _begun(int(process)) == begun
