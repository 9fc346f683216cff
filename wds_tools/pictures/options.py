"""What a picture shall become: the options that every decoder of this package takes, whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from wds_tools.errors import UsageError

__all__ = ["Icc", "Pictures"]

Icc: TypeAlias = Literal["ignore", "srgb"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Pictures:
    """How picture bytes become RGB pixels.

    Attributes:
        background: red, green and blue (0..255) under pixels that are transparent; white, as a page has.
        orient: turn the picture as its EXIF orientation says. With `False` the pixels stay as they are stored. Boxes
            and sizes count in the picture as it is then seen.
        icc: "ignore" hands out the stored numbers, as almost every loader does; "srgb" converts from the embedded
            profile. A profile that cannot be used is ignored and counted in `Decoder.notes`.
        max_pixels: pictures with more pixels (width times height in the header) are refused before anything is
            allocated. 178,956,970 is Pillow's own limit: a gigabyte of RGB divided by the six bytes that a copy and a
            conversion need.
        huffman: decode the Huffman coding of baseline JPEGs by the kernel's own decoder, where it is there and has
            passed its self-test (`kernel.capability`). The pixels are the same, bit by bit; `False` is for finding out
            whether it is to blame for something.

    Raises:
        UsageError: an option outside its range.
    """

    background: tuple[int, int, int] = (255, 255, 255)
    orient: bool = True
    icc: Icc = "ignore"
    max_pixels: int = 178_956_970
    huffman: bool = True

    def __post_init__(self) -> None:
        background = tuple(self.background)
        if len(background) != 3 or not all(isinstance(level, int) and 0 <= level <= 255 for level in background):
            raise UsageError(
                f"background is three whole numbers from 0 to 255 (red, green, blue), not {self.background!r}"
            )
        object.__setattr__(self, "background", background)  # a list from a config file is as good
        if self.icc not in {"ignore", "srgb"}:
            raise UsageError(f'icc is "ignore" or "srgb", not {self.icc!r}')
        if isinstance(self.max_pixels, bool) or not isinstance(self.max_pixels, int) or self.max_pixels < 1:
            raise UsageError(f"max_pixels is a whole number of at least 1, not {self.max_pixels!r}")
