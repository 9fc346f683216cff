from collections.abc import Callable

import pytest

from shardwriter.check import Checker, failure_kind
from wds_tools.errors import KeyRefusedError, PictureError, UsageError
from wds_tools.pictures.options import Pictures

Picture = Callable[..., bytes]


def kind(checker: Checker, data: bytes) -> str:
    with pytest.raises(PictureError) as caught:
        checker.check({"__key__": "a", "jpg": data, "cls": 1})
    assert caught.value.field == "jpg"
    return failure_kind(caught.value)


@pytest.mark.parametrize("name", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"])
def test_good_pictures_pass(picture: Picture, name: str) -> None:
    for check in ("header", "decode"):
        Checker(check, Pictures()).check({"__key__": "a", "jpg": picture(kind=name), "seg.png": picture(kind="PNG")})


def test_each_fault_has_its_kind(picture: Picture) -> None:
    checker = Checker("header", Pictures(max_pixels=1000))
    assert kind(checker, b"") == "truncated"
    assert kind(checker, picture()[:-2]) == "truncated"
    assert kind(checker, picture(kind="PNG")[:-12]) == "truncated"
    assert kind(checker, b"<html>not found</html>") == "unsupported"
    assert kind(checker, picture(size=(40, 40))) == "too large"


def damaged(picture: Picture) -> bytes:
    """A PNG whose pixel data does not inflate, its ends in place."""
    data = bytearray(picture(kind="PNG"))
    at = data.index(b"IDAT") + 8
    data[at : at + 20] = bytes(20)
    return bytes(data)


def test_damage_in_the_middle_is_found_by_decoding_only(picture: Picture) -> None:
    Checker("header", Pictures()).check({"__key__": "a", "png": damaged(picture)})
    with pytest.raises(PictureError) as caught:
        Checker("decode", Pictures()).check({"__key__": "a", "png": damaged(picture)})
    assert failure_kind(caught.value) in {"damaged", "truncated"}


def test_pictures_of_another_format_than_their_name_are_counted(picture: Picture) -> None:
    checker = Checker("header", Pictures())
    for field, name in (("jpg", "JPEG"), ("jpeg", "JPEG"), ("tif", "TIFF"), ("seg.png", "PNG"), ("ppm", "PPM")):
        checker.check({"__key__": "a", field: picture(kind=name)})
    assert checker.misnamed == 0
    checker.check({"__key__": "a", "jpg": picture(kind="PNG"), "seg.png": picture()})
    assert checker.misnamed == 2


def test_other_fields_and_values_are_left_alone() -> None:
    Checker("decode", Pictures()).check(
        {"__key__": "a.jpg", "txt": b"no picture", "jpg": [1], "jpg.gz": b"compressed", "bin": b""}
    )


def test_an_unknown_check_is_refused() -> None:
    with pytest.raises(UsageError, match="'header', 'decode'"):
        Checker("all", Pictures())  # type: ignore[arg-type]


def test_errors_of_files_and_names_have_their_kinds() -> None:
    assert failure_kind(PermissionError(13, "denied")) == "unreadable"
    assert failure_kind(KeyRefusedError("no")) == "refused"
