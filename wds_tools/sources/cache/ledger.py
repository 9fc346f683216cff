"""How many bytes of a cache are spoken for, over all processes: one number in one locked file.

Space is booked before it is used and a process may be killed at any point, so the number is never too small: it is
raised first, then the extent's record says BEGUN. Both happen under the ledger's lock, and so does everything that
makes or removes an entry; whoever holds it sees a folder in which nobody else is at work. So the number can be counted
again from the records at any time (`Balance.recount`). That is done when the ledger is new or damaged; when it was left
unsettled, by a process that was killed between booking and using; and before anything is refused or evicted, unless it
was done lately, as somebody may have tidied the folder by hand.

Counted are whole blocks: each extent that is BEGUN or PRESENT, and the records, header and block list of each entry.
"""

from __future__ import annotations

import contextlib
import os
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

from wds_tools.sources.cache import locks
from wds_tools.sources.cache.inspection import entries, inspect

__all__ = ["Balance", "Ledger"]

LEDGER = "ledger"
RECOUNT_S = 600.0
"""How long a count from the records is good for, before which nothing is refused on the ledger's word alone."""
_KEPT_FREE = 0.05
"""Of the disk, where there is no limit: a full disk harms others more than a miss harms us."""
_LEDGER = struct.Struct("<8sqdqI")  # magic, bytes booked, when they were counted, whether settled, crc32
_MAGIC = b"ledger-1"


class Ledger:
    """The ledger of one folder. Holds no descriptor between two uses, so it may be forked and pickled at will.

    Args:
        folder: where the entries lie; made when something is first booked.
        limit: bytes; None for as many as leave a twentieth of the disk free.
    """

    def __init__(self, folder: Path, limit: int | None) -> None:
        self.folder = folder
        self.limit = limit

    @contextlib.contextmanager
    def locked(self, *, wait: bool = True) -> Iterator[Balance]:
        """Hold the ledger alone.

        Raises:
            OSError: the folder cannot be written, or whoever holds it does not go on (or somebody holds it, and `wait`
                is False).
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / LEDGER
        while True:
            with locks.exclusive(path, create=True, wait=wait) as descriptor:
                if _is_at(descriptor, path):  # else somebody removed the folder while this one waited
                    balance = Balance(self, descriptor)
                    yield balance
                    balance.settle()  # not after an exception: the next holder counts
                    return


class Balance:
    """The bytes spoken for, while the ledger is held.

    Attributes:
        total: bytes booked so far.
    """

    def __init__(self, ledger: Ledger, descriptor: int) -> None:
        self.folder = ledger.folder
        self._limit = ledger.limit
        self._descriptor = descriptor
        self._booked_now = 0
        self._settled = True
        self._counted_at = 0.0
        self.total = 0
        data = os.pread(descriptor, _LEDGER.size, 0)
        if len(data) == _LEDGER.size:
            magic, self.total, self._counted_at, settled, check = _LEDGER.unpack(data)
            if magic == _MAGIC and settled and check == zlib.crc32(data[:-4]):
                return
        self.recount()

    def fits(self, need: int) -> bool:
        """Whether `need` more bytes may be booked."""
        if self._limit is not None:
            return self.total + need <= self._limit
        disk = os.statvfs(self.folder)
        free = disk.f_bavail * disk.f_frsize - self._booked_now  # which the disk does not know of yet
        return free - need >= disk.f_blocks * disk.f_frsize * _KEPT_FREE

    def book(self, count: int) -> None:
        """Add bytes, before they are used; give bytes back, where `count` is negative, after they are free."""
        self.total = max(0, self.total + count)
        self._booked_now += max(0, count)
        self._settled = False
        self._write()

    def settle(self) -> None:
        """Note that all that was booked is used as it was booked."""
        if not self._settled:
            self._settled = True
            self._write()

    def recount(self) -> None:
        """Count what is really there, and remove what nobody can use."""
        total = 0
        for path in entries(self.folder, tidy=True):
            found = inspect(path)
            if found is None:
                path.unlink()
            else:
                total += found.cost
        self.total, self._counted_at = total, time.time()
        self._write()

    def refresh(self) -> None:
        """Count again unless that was done lately."""
        if not 0 <= time.time() - self._counted_at < RECOUNT_S:
            self.recount()

    def _write(self) -> None:
        data = _LEDGER.pack(_MAGIC, self.total, self._counted_at, self._settled, 0)[:-4]
        os.pwrite(self._descriptor, data + struct.pack("<I", zlib.crc32(data)), 0)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
