from __future__ import annotations

import pytest

from wds_tools.errors import PictureError, TruncatedPictureError
from wds_tools.pictures.facts import read_facts
from wds_tools.pictures.jxl import read_size

HEADS = {  # how files begin that libjxl 0.11 wrote
    (1, 1): "ff0a001010143702080201007c02",
    (64, 40): "ff0a090e088a1b01080201008802",
    (300, 200): "ff0a314150dc0808020100780200",
    (512, 512): "ff0af81f10143702080201007802",
    (1000, 750): "ff0a6a1703417123080201007802",
    (9000, 31): "ff0af0004f460041712308020100",
    (256, 144): "ff0a634150dc080802010088024b",
    (640, 360): "ff0a385b10143702080201007802",
}
CONTAINER = b"\0\0\0\x0cJXL \r\n\x87\n\0\0\0\x14ftypjxl \0\0\0\0jxl "


@pytest.mark.parametrize("size", HEADS)
def test_sizes_that_libjxl_wrote(size: tuple[int, int]) -> None:
    data = bytes.fromhex(HEADS[size])
    assert read_size(data) == size
    facts = read_facts(data)
    assert (facts.format, facts.width, facts.height, facts.orientation) == ("jxl", *size, 1)
    assert read_size(CONTAINER + b"\0\0\0\x20jxlc" + data) == size
    assert read_size(CONTAINER + b"\0\0\0\x20jxlp\0\0\0\0" + data) == size
    assert read_size(CONTAINER + b"\0\0\0\x0aExifxx\0\0\0\x01jxlc\0\0\0\0\0\0\0\x30" + data) == size


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_on_its_side_counts_as_it_is_seen(orientation: int) -> None:
    #      small, 40 rows     no ratio, 64 columns        not plain, extra fields, orientation
    bits = 1 | (4 << 1) | (0 << 6) | (7 << 9) | (0 << 14) | (1 << 15) | ((orientation - 1) << 16)
    assert read_size(b"\xff\x0a" + bits.to_bytes(8, "little")) == ((40, 64) if orientation > 4 else (64, 40))


@pytest.mark.parametrize("data", [b"\xff\x0a", b"\xff\x0a\x00", CONTAINER[:20], CONTAINER])
def test_headers_cut_short_are_truncated(data: bytes) -> None:
    with pytest.raises(TruncatedPictureError):
        read_size(data)


def test_a_container_that_goes_nowhere_is_damaged() -> None:
    with pytest.raises(PictureError, match="damaged container"):
        read_size(CONTAINER + b"\0\0\0\x02free" + bytes(20))
