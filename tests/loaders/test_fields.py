"""How fields are named: alternatives, options, columns."""

from __future__ import annotations

import ast

import pytest

from loaders.crops import Mask, RandomResizedCrop, Resize
from loaders.fields import DEFAULT_FIELDS, parse_fields
from wds_tools.codec import PICTURE_FIELDS, kind_of
from wds_tools.errors import MissingFieldError


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("jpg;jpeg;png", "jpg"),
        ("seg.png", "seg_png"),
        ("txt?", "txt"),
        ("class", "class_"),
        ("index", "index_"),
        ("count", "count_"),
        ("0 (clean).mp3", "f0__clean__mp3"),
        ("__key__", "key"),
        ("__url__", "url"),
        ("Left.JPG", "left_jpg"),
    ],
)
def test_columns_have_python_names(text: str, name: str) -> None:
    (spec,) = parse_fields((text,), None)
    assert spec.name == name


def test_the_default_takes_every_picture_that_is_packed() -> None:
    pictures, labels = parse_fields(DEFAULT_FIELDS, None)
    assert all(kind_of(field) == "picture" for field in pictures.alternatives)
    assert set(pictures.alternatives) == set(PICTURE_FIELDS)
    assert (pictures.name, labels.name) == ("jpg", "cls")


def test_the_first_alternative_that_is_there_is_found() -> None:
    (spec,) = parse_fields(("jpg;png",), None)
    assert spec.find({"__key__": "a", "png": b"", "jpg": b""}) == "jpg"
    assert spec.find({"__key__": "a", "png": b""}) == "png"


def test_a_missing_field_is_an_error_unless_optional() -> None:
    required, optional = parse_fields(("txt", "json?"), None)
    assert optional.find({"__key__": "a"}) is None
    with pytest.raises(MissingFieldError, match=r"no field 'txt', only cls.*key a.*txt\?"):
        required.find({"__key__": "a", "cls": b""})


def test_the_cure_is_the_argument_for_what_is_there() -> None:
    (spec,) = parse_fields(("txt",), None)
    for sample, argument in (
        ({"json": b"", "cls": b"", "png": b""}, 'fields=("png", "cls", "json")'),
        ({"cls": b""}, 'fields=("cls",)'),
    ):
        with pytest.raises(MissingFieldError) as caught:
            spec.find({"__key__": "a", **sample})
        assert f"such as {argument}, alternatives" in str(caught.value)
        assert parse_fields(ast.literal_eval(argument.removeprefix("fields=")), None)
    with pytest.raises(MissingFieldError, match=r'none at all.*optional as "txt\?"'):
        spec.find({"__key__": "a"})


def test_image_applies_to_every_picture_or_by_field() -> None:
    crop = RandomResizedCrop(8)
    specs = parse_fields(("a.jpg", "cls", "b.png"), crop)
    assert [spec.image for spec in specs] == [crop, None, crop]
    specs = parse_fields(("jpg;png", "seg.png", "thumb.jpg"), {"png": crop, "seg.png": Mask()})
    assert [spec.image for spec in specs] == [crop, Mask(), None]
    (spec,) = parse_fields(("JPG",), {"jpg": Resize(4)})
    assert spec.image == Resize(4)


def test_who_has_no_labels_is_told_where_they_come_from() -> None:
    with pytest.raises(MissingFieldError, match=r"class folders.*docs/inputs\.md.*fields=\(\"jpg\",\).*cls\?"):
        parse_fields(("jpg", "cls"), None)[1].find({"__key__": "a", "jpg": b""})
