from collections.abc import Callable

import pytest

from shardwriter.check import Checker, failure_kind
from wds_tools.errors import FieldError, KeyRefusedError, PictureError, UsageError
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
        checked = checker.check({"__key__": "a", field: picture(kind=name), "cls": b"1"})
        assert checked.misnamed == 0
        assert {name: facts.width for name, facts in checked.pictures.items()} == {field: 24}
    assert checker.check({"__key__": "a", "jpg": picture(kind="PNG"), "seg.png": picture()}).misnamed == 2


def test_other_fields_and_values_are_left_alone() -> None:
    Checker("decode", Pictures()).check(
        {"__key__": "a.jpg", "txt": b"no picture", "jpg": [1], "jpg.gz": b"compressed", "bin": b""}
    )


@pytest.mark.parametrize("data", [b"cat", b"1.5", b"", b"1 2"])
def test_labels_that_are_no_whole_numbers_are_refused(data: bytes) -> None:
    with pytest.raises(FieldError, match="a whole number is expected") as caught:
        Checker("header", Pictures()).check({"__key__": "a", "cls": data})
    assert caught.value.field == "cls"
    assert failure_kind(caught.value) == "bad field"


def test_labels_with_white_space_and_values_that_the_writer_encodes_pass() -> None:
    Checker("header", Pictures()).check({"__key__": "a", "cls": b" 7\n", "b.cls": 3, "cls.gz": b"x"})


def test_an_unknown_check_is_refused() -> None:
    with pytest.raises(UsageError, match="'header', 'decode'"):
        Checker("all", Pictures())  # type: ignore[arg-type]


def test_errors_of_files_and_names_have_their_kinds() -> None:
    assert failure_kind(PermissionError(13, "denied")) == "unreadable"
    assert failure_kind(KeyRefusedError("no")) == "refused"


def test_views_are_checked_as_bytes_are(picture: Picture) -> None:
    for check in ("header", "decode"):
        Checker(check, Pictures()).check({"__key__": "a", "jpg": memoryview(picture())})
    with pytest.raises(PictureError):
        Checker("header", Pictures()).check({"__key__": "a", "jpg": memoryview(picture()[:-2])})
    with pytest.raises(FieldError):
        Checker("header", Pictures()).check({"__key__": "a", "cls": memoryview(b"one")})
