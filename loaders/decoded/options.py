"""Where decoded pictures are kept, how many bytes of them, at which size: what `decoded_cache=` takes."""

from __future__ import annotations

import os
import re
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from loaders.arguments import whole
from wds_tools.errors import UsageError

__all__ = ["RAM", "DecodedCache", "decoded_cache_of"]

RAM = "ram"
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
_CURE = 'For example decoded_cache="ram:8GB", or decoded_cache="/local/disk/decoded:200GB".'
LEAST_BYTES = 1 << 20


@dataclass(frozen=True)
class DecodedCache:
    """Keep decoded pictures.

    Attributes:
        place: "ram", memory that the processes of this user on this machine share and that is given back when the last
            loader that uses it is closed; or a folder, which stays from run to run.
        bytes: of everything in the place together; a number, or text such as "8GB" and "512MiB". Pictures are added
            until that is reached, and then stay: an epoch is a permutation, so what was used least recently is what is
            needed next.
        size: what pictures are resized to before they are kept: the shorter side in pixels (smaller pictures stay as
            they are), or exactly (height, width). None means the shorter side that suits the crop: 256 for 224. Crops
            that take a small part of a picture are sharper from a larger one.
    """

    place: str | os.PathLike[str]
    bytes: int | str
    _: KW_ONLY
    size: int | tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.place, str | os.PathLike) or not os.fspath(self.place):
            raise UsageError(f'DecodedCache.place is {self.place!r}, expected "ram" or a folder', cure=_CURE)
        object.__setattr__(self, "bytes", _bytes(self.bytes))
        if self.size is not None:
            object.__setattr__(self, "size", _checked(self.size))

    @property
    def ram(self) -> bool:
        """Whether it is kept in memory."""
        return self.place == RAM

    @property
    def folder(self) -> Path:
        """The folder that was named."""
        return Path(self.place)

    @property
    def limit(self) -> int:
        """`bytes` as a number."""
        return int(self.bytes)

    def in_words(self) -> str:
        """The size as states and reports name it."""
        return "x".join(map(str, self.size)) if isinstance(self.size, tuple) else str(self.size)


def _bytes(value: Any) -> int:
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is not None:
        number, unit, binary = match.groups()
        value = round(float(number) * (1024 if binary else 1000) ** " kmgt".index(unit.lower() or " "))
    if not whole(value):
        raise UsageError(f"DecodedCache.bytes is {value!r}, expected a number of bytes", cure=_CURE)
    if value < LEAST_BYTES:
        raise UsageError(
            f"DecodedCache.bytes is {value:,}, expected at least {LEAST_BYTES:,}: a few pictures", cure=_CURE
        )
    return int(value)


def _checked(size: Any) -> int | tuple[int, int]:
    sides = size if isinstance(size, list | tuple) else (size,)
    if len(sides) not in {1, 2} or not all(map(whole, sides)) or min(sides) < 1:
        raise UsageError(
            f"DecodedCache.size is {size!r}, expected pixels of the shorter side, or (height, width)",
            cure="For example size=320.",
        )
    return (int(sides[0]), int(sides[1])) if isinstance(size, list | tuple) else int(size)


def decoded_cache_of(value: Any) -> DecodedCache | None:
    """What `decoded_cache=` was given as, as options: themselves, "PLACE:BYTES", or None.

    Raises:
        UsageError: it is neither.
    """
    if value is None or isinstance(value, DecodedCache):
        return value
    place, colon, count = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    if not colon or _SIZE.fullmatch(count.strip()) is None:
        raise UsageError(f"decoded_cache is {value!r}, expected PLACE:BYTES or a loaders.DecodedCache", cure=_CURE)
    return DecodedCache(place, count)
