"""Which profiles change what is seen."""

from __future__ import annotations

import struct

import pytest
from PIL import ImageCms

from wds_tools.pictures.icc import moves_colours

SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def _with(tag: bytes, place: int, content: bytes) -> bytes:
    """The sRGB profile with some bytes of one tag's data written over."""
    profile = bytearray(SRGB)
    (count,) = struct.unpack_from(">I", profile, 128)
    for entry in range(132, 132 + 12 * count, 12):
        if profile[entry : entry + 4] == tag:
            begin = struct.unpack_from(">I", profile, entry + 4)[0] + place
            profile[begin : begin + len(content)] = content
    return bytes(profile)


def test_srgb_moves_nothing_whatever_it_is_called() -> None:
    assert not moves_colours(SRGB, "RGB")
    renamed = _with(b"desc", 16, b"\0S\0o\0m\0e")
    assert renamed != SRGB
    assert not moves_colours(renamed, "RGB")


def test_another_gamma_or_other_primaries_move_colours() -> None:
    gamma = _with(b"rTRC", 12, struct.pack(">I", round(1.8 * 65536)))
    red = _with(b"rXYZ", 8, struct.pack(">iii", round(0.3 * 65536), round(0.3 * 65536), 0))
    assert moves_colours(gamma, "RGB")
    assert moves_colours(red, "RGB")


@pytest.mark.parametrize(
    ("profile", "mode"), [(b"", "RGB"), (b"no profile", "RGB"), (SRGB, "L"), (SRGB, "CMYK"), (SRGB[:200], "RGB")]
)
def test_what_cannot_be_used_moves_nothing(profile: bytes, mode: str) -> None:
    assert not moves_colours(profile, mode)
