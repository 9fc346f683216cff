"""Every kind of field as people see it; nothing that is broken is hidden."""

import json

import numpy as np
import pytest

from tests.builders import picture
from wds_tools.codec import encode_field
from wds_tools.pictures.decode import Decoder
from wds_tools.show.values import Value, show_field, show_sample, show_value

DECODER = Decoder()


def shown(name: str, data: bytes) -> Value:
    return show_field(name, data, side=100, decoder=DECODER, classes=("cat", "dog"))


@pytest.mark.parametrize(
    ("name", "value", "summary"),
    [
        ("cls", 1, "1 (dog)"),
        ("cls", 7, "7"),
        ("txt", "a dog\non a lawn", "a dog on a lawn"),
        ("json", {"a": [1, 2]}, '{ "a": [ 1, 2 ] }'),
        ("jsonl", [1, "x"], '[ 1, "x" ]'),
        ("npy", np.arange(4, dtype=np.int16), "int16 (4,): [0, 1, 2, 3]"),
        ("npy", np.arange(100, dtype=np.float32), "float32 (100,), 0 to 99, mean 49.5"),
        ("npy", np.zeros((0, 3)), "float64 (0, 3)"),
        ("npz", {"x": np.eye(2)[0], "y": np.eye(1)}, "2 arrays: x: float64 (2,): [1.0, 0.0]; y: float64 (1, 1): [[1.0]]"),  # noqa: E501
        ("pt", np.arange(9, dtype=np.int64), "int64 (9,), 0 to 8, mean 4"),
        ("msgpack", {"n": 1}, '{ "n": 1 }'),
        ("json.gz", {"a": 1}, '{ "a": 1 }'),
    ],
)  # fmt: skip
def test_a_field_in_a_line(name: str, value: object, summary: str) -> None:
    if name == "pt":
        import torch

        value = torch.from_numpy(value)
    each = shown(name, encode_field(name, value))
    assert (each.summary, each.error, each.name) == (summary, "", name)


def test_the_whole_of_a_long_value_stands_in_its_text() -> None:
    record = {"caption": "x" * 300, "tags": ["a"]}
    each = shown("json", json.dumps(record).encode())
    assert each.summary.endswith(" ...")
    assert json.loads(each.text) == record


def test_a_text_without_end_is_cut_and_says_so() -> None:
    each = shown("txt", b"x" * 50_000)
    assert each.text == "x" * 20_000 + "\n... (30,000 more characters)"


def test_a_picture_with_its_thumbnail() -> None:
    each = shown("jpg", picture(1, width=200, height=150))
    assert (each.kind, each.summary, each.size) == ("picture", "jpeg 200 x 150, RGB", (200, 150))
    assert [(small.width, small.height) for small in each.thumbnails] == [(100, 75)]


def test_a_mask_names_its_values() -> None:
    each = shown("seg.png", encode_field("seg.png", np.eye(30, dtype=np.uint8) * 3))
    assert (each.kind, each.summary) == ("mask", "png 30 x 30, L, values 0, 3")


def test_an_array_of_pixels_has_a_thumbnail() -> None:
    each = shown("npy", encode_field("npy", np.zeros((40, 30, 3), np.uint8)))
    assert [(small.width, small.height) for small in each.thumbnails] == [(30, 40)]


@pytest.mark.parametrize(
    ("name", "data", "error"),
    [
        ("jpg", picture(1, width=200, height=150)[:-200], "cut off"),
        ("jpg", b"no picture", "no picture"),
        ("cls", b"owl", "a whole number is expected"),
        ("json", b"{", "JSON does not decode"),
        ("txt", b"\xff\xfe", "no UTF-8"),
        ("npy", b"\x93NUMPY", "no npy data"),
        ("jpg.gz", b"\x1f\x8bxx", "gzip data"),
        ("cls", b"", "a whole number is expected"),
    ],
)
def test_what_is_broken_says_why_and_how_it_begins(name: str, data: bytes, error: str) -> None:
    each = shown(name, data)
    assert error in each.error
    assert each.summary.startswith("jpeg 200") or "begins with" in each.summary


def test_a_pickle_is_not_opened() -> None:
    assert shown("meta.pkl", b"cos\nsystem\n(S'false'\ntR.").summary == "not opened: a pickle may run anything"


def test_bytes_of_no_known_kind_show_how_they_begin() -> None:
    assert shown("bin", b"\x00\x01").summary == r"b'\x00\x01'"
    assert shown("bin", b"").summary == "nothing"


def test_a_sample_without_what_is_no_field() -> None:
    raw = {"__key__": "a", "__url__": "u", "__index__": 3, "jpg": picture(1), "cls": b"0"}
    values = show_sample(raw, side=50, decoder=DECODER, classes=("cat",))
    assert [(name, each.summary) for name, each in values.items()] == [("jpg", "jpeg 48 x 36, RGB"), ("cls", "0 (cat)")]


@pytest.mark.parametrize("value", [None, True, 1.5, {1, 2}, object(), float("nan"), [object()]])
def test_any_decoded_value_has_words(value: object) -> None:
    assert show_value("x", value, side=50).summary


def test_what_refers_to_itself_is_shown_all_the_same() -> None:
    circle: list[object] = []
    circle.append(circle)
    assert show_value("x", circle, side=50).summary.endswith("[...]]]]]]]")
