"""What may still be put on the disk, and one line in the log where nothing may.

A cache that is full, a disk that is full or read-only, or a folder that cannot be locked is no error: what is there is
served, the rest comes from its origin as if there were no cache. Admission is then tried again after `RETRY_S`, since
another dataset may have ended or somebody may have made room; that costs one look at the ledger, or one write.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Sequence
from time import monotonic

from wds_tools.sources.cache.entry import Writer
from wds_tools.sources.cache.groups import make_room
from wds_tools.sources.cache.layout import State
from wds_tools.sources.cache.ledger import Balance, Ledger

__all__ = ["RETRY_S", "Admission"]

_log = logging.getLogger(__name__)
RETRY_S = 60.0
"""Seconds for which nothing is put on the disk after it could not be."""
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class Admission:
    """Decides for one process; shared by its threads.

    Args:
        ledger: the books of the folder.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._again_at = 0.0
        self._said: list[str] = []

    @property
    def open(self) -> bool:
        """Whether it is worth asking."""
        return monotonic() >= self._again_at

    def admit(self, writer: Writer, extents: Sequence[int]) -> int:
        """Book the space of as many of these locked extents as fit, from the first on; how many did.

        Raises:
            OSError: the disk.
        """
        with self.ledger.locked() as balance:
            if not writer.entry.is_there():
                return 0
            for number, extent in enumerate(extents):
                if writer.entry.record(extent).state is State.EMPTY:  # else it is paid
                    cost = writer.entry.layout.cost(extent)
                    if not self.fits(balance, cost):
                        return number
                    balance.book(cost)
                writer.begin(extent)
        return len(extents)

    def fits(self, balance: Balance, need: int) -> bool:
        """Whether `need` bytes may be booked, if need be after evicting what no dataset in use has; says if not."""
        if balance.fits(need):
            return True
        balance.refresh()
        if balance.fits(need) or make_room(balance, need):
            return True
        limit = self.ledger.limit
        what = "a twentieth of the disk is left free" if limit is None else f"the limit is {limit:,} bytes"
        self._pause(f"the cache {self.ledger.folder} is full ({what}): what it does not hold is streamed")
        return False

    def failed(self, error: OSError) -> None:
        """Note that the disk refused, and say so once."""
        what = "is full" if error.errno in _FULL else "cannot be written"
        what = "is not waited for" if isinstance(error, TimeoutError) else what
        reason = error.strerror or str(error)
        self._pause(f"the disk of the cache {self.ledger.folder} {what} ({reason}): what it does not hold is streamed")

    def _pause(self, message: str) -> None:
        self._again_at = monotonic() + RETRY_S
        if not self._said:
            self._said.append(message)
            _log.warning("%s", message)
