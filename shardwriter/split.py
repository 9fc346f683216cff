"""Which dataset a sample belongs to: training, validation and so on, by a hash of its key.

The hash puts a key at a place in [0, 1), evenly and always the same. The splits that are named take the places from 0
on, in the order they are named in, each its share; the rest is the main dataset's. So a picture stays where it is when
others are added or removed, and when the last share is made larger it keeps what it had.

Keys that are numbers change when files are added, and so does the split: let keys be paths or hashes for it. What must
not be torn apart (the pictures of one patient) this cannot know: give those one manifest each, or pack them apart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b

from wds_tools.errors import UsageError

__all__ = ["Splits", "place"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_PERSON = b"shardstreamsplit"  # 16 bytes that no other hash of a key shares


class Splits:
    """The splits beside the main dataset. Validates; without any, all samples are the main dataset's.

    Args:
        main: the name of the main dataset.
        shares: name to share, 0 to 1, both ends left out; less than 1 together.

    Attributes:
        names: the splits in their order, and the main dataset last.

    Raises:
        UsageError: a name that is no folder's, one that comes twice, a share that cannot be.
    """

    def __init__(self, main: str, shares: Mapping[str, float] | None) -> None:
        shares = dict(shares or {})
        for name, share in shares.items():
            _check(name, share, main)
        if sum(shares.values()) >= 1:
            raise UsageError(
                f"split takes {sum(shares.values()):g} of all samples, which leaves none for {main!r}",
                cure="Shares are fractions, such as val=0.05.",
            )
        self.names = (*shares, main)
        self._ends: list[float] = []
        for share in shares.values():
            self._ends.append(share + (self._ends[-1] if self._ends else 0.0))

    def __bool__(self) -> bool:
        return len(self.names) > 1

    def of(self, key: str) -> int:
        """The place of the key's dataset in `names`."""
        where = place(key)
        return next((number for number, end in enumerate(self._ends) if where < end), len(self._ends))


def place(key: str) -> float:
    """Where the key lies in [0, 1): the first 53 bits of its BLAKE2b."""
    digest = blake2b(key.encode("utf-8", "surrogateescape"), digest_size=8, person=_PERSON).digest()
    return (int.from_bytes(digest, "big") >> 11) / (1 << 53)


def _check(name: str, share: float, main: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(f"split names {name!r}, expected the name of a folder, such as 'val'")
    if name == main:
        raise UsageError(
            f"split names {name!r}, as the dataset that gets the rest is called already", cure="Give it another name."
        )
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
        raise UsageError(f"split gives {name!r} a share of {share!r}, expected a fraction, such as 0.05")
