import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from shardwriter.encode import Encoder
from wds_tools.codec import decode_field
from wds_tools.errors import FieldRefusedError, KeyRefusedError, UsageError
from wds_tools.sample import BytesLike
from wds_tools.shard import parse_sample


def read(pieces: list[BytesLike]) -> dict[str, object]:
    sample = parse_sample(memoryview(b"".join(pieces)), url="x.tar", offset=0)
    return {
        name: value if isinstance(value, str) else bytes(value) for name, value in sample.items() if name != "__url__"
    }


FIELDS = st.dictionaries(
    st.from_regex(r"[a-z0-9]{1,8}(\.bin)?", fullmatch=True), st.binary(max_size=2000), min_size=1, max_size=5
)
KEYS = st.from_regex(r"([a-z0-9.]{1,3}x/){0,3}[A-Za-z0-9_ é猫-]{1,150}", fullmatch=True)


@given(KEYS, FIELDS)
def test_bytes_come_back_as_they_were_in_the_order_given(key: str, fields: dict[str, bytes]) -> None:
    encoded = Encoder().encode({"__key__": key, **fields})
    assert read(encoded.pieces) == {"__key__": key, **fields}
    assert encoded.fields == tuple(fields)
    assert encoded.key == key
    assert encoded.size == sum(map(len, encoded.pieces))
    assert encoded.size % 512 == 0


def test_bytes_are_not_copied() -> None:
    data = b"x" * 10_000
    assert any(piece is data for piece in Encoder().encode({"__key__": "a", "jpg": data}).pieces)


@pytest.mark.parametrize("kind", [bytearray, memoryview, lambda data: memoryview(bytearray(data)).toreadonly()])
def test_what_may_change_later_is_copied(kind: type) -> None:
    data = bytearray(b"abc")
    encoded = Encoder().encode({"__key__": "a", "jpg": kind(data)})
    data[:] = b"xyz"
    assert read(encoded.pieces)["jpg"] == b"abc"


def test_values_are_encoded_by_the_name_of_their_field() -> None:
    sample = {"__key__": "a", "cls": np.int64(3), "txt": "é", "json": {"a": [1]}}
    assert read(Encoder().encode(sample).pieces) == {
        "__key__": "a",
        "cls": b"3",
        "txt": "é".encode(),
        "json": b'{"a":[1]}',
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cls", 3), ("cls", np.int64(-3)), ("cls", np.uint8(255)), ("id", 1 << 70),
        ("txt", ""), ("caption", "naïve 猫"),
        ("json", {"a": [1, None, True, 1.5], "ü": "é"}), ("jsonl", [{"a": 1}, {"a": 2}]),
        ("npy", np.arange(12).reshape(3, 4)[:, ::2]), ("npy", np.asfortranarray(np.eye(3))),
        ("npy", np.arange(3, dtype=">i4")), ("npy", np.array(1.5)), ("seg.npy", np.zeros((0, 3), np.uint8)),
    ],
)  # fmt: skip
def test_values_come_back_equal(field: str, value: object) -> None:
    found = decode_field(field, read(Encoder().encode({"__key__": "a", field: value}).pieces)[field])  # type: ignore[arg-type]
    if isinstance(value, np.ndarray):
        assert isinstance(found, np.ndarray)
        assert found.dtype == value.dtype
        np.testing.assert_array_equal(found, value)
    else:
        assert found == value


def test_numbers_of_numpy_in_json_and_arrays_in_npz_come_back() -> None:
    sample = {"__key__": "a", "json": {"a": np.float32(1.5), "b": np.int64(2)}, "npz": {"x": np.arange(3)}}
    found = read(Encoder().encode(sample).pieces)
    assert decode_field("json", found["json"]) == {"a": 1.5, "b": 2}  # type: ignore[arg-type]
    assert decode_field("npz", found["npz"])["x"].tolist() == [0, 1, 2]  # type: ignore[arg-type, index]


REFUSED = {
    ("jpg", "RGBA"), ("jpg", "LA"), ("jpg", "I;16"), ("jpg", "CMYK"),
    ("png", "CMYK"), ("webp", "I;16"), ("webp", "CMYK"),
}  # fmt: skip
"""What a format would have to change: transparency, depth, inks."""


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "LA", "P", "I;16", "1", "CMYK"])
@pytest.mark.parametrize("field", ["jpg", "png", "webp"])
def test_pictures_of_every_mode_are_written_or_refused_by_name(field: str, mode: str) -> None:
    value = Image.linear_gradient("L").convert("I" if mode == "I;16" else "RGB").convert(mode)
    if (field, mode) in REFUSED:
        with pytest.raises(FieldRefusedError) as caught:
            Encoder().encode({"__key__": "a", field: value})
        assert (caught.value.key, caught.value.field) == ("a", field)
    else:
        found = read(Encoder().encode({"__key__": "a", field: value}).pieces)[field]
        assert decode_field(field, found).shape == (256, 256, 3)  # type: ignore[arg-type, attr-defined]


def test_quality_reaches_the_encoder() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    sizes = [Encoder(quality=quality).encode({"__key__": "a", "jpg": pixels}).size for quality in (30, 95)]
    assert sizes[0] < sizes[1] / 2


def test_special_names_of_samples_that_were_read_are_left_out() -> None:
    sample = {"__key__": "a", "__url__": "x.tar", "__index__": 3, "__shard__": "s", "__shardindex__": 1, "cls": b"3"}
    assert read(Encoder().encode(sample).pieces) == {"__key__": "a", "cls": b"3"}


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        ({"cls": 1}, "no __key__"),
        ({"__key__": 3, "cls": 1}, "__key__ is a int"),
        ({"__key__": b"a", "cls": 1}, "__key__ is a bytes"),
        ({"__key__": None, "cls": 1}, "__key__ is a NoneType"),
        ({"__key__": "", "cls": 1}, "empty"),
        ({"__key__": "a.b", "cls": 1}, "dot in its base name"),
        ({"__key__": "a/b.c", "cls": 1}, "dot in its base name"),
        ({"__key__": "/a", "cls": 1}, "absolute"),
        ({"__key__": "../a", "cls": 1}, r"'\.\.'"),
        ({"__key__": "a/", "cls": 1}, "ends with a slash"),
        ({"__key__": "a\nb", "cls": 1}, "control character"),
        ({"__key__": "a\0b", "cls": 1}, "control character"),
        ({"__key__": "\udce9", "cls": 1}, "surrogates"),
        ({"__key__": "k" * 2000, "cls": 1}, "longer than"),
    ],
)
def test_keys_that_readers_would_split_or_place_elsewhere_are_refused(sample: dict[str, object], words: str) -> None:
    with pytest.raises(KeyRefusedError, match=words):
        Encoder().encode(sample)


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("", "empty"),
        ("JPG", "upper-case"),
        ("a/b", "slash"),
        (".jpg", "dot"),
        ("jpg.", "dot"),
        ("__meta__", "__"),
        (3, "type int"),
    ],
)
def test_field_names_that_would_not_come_back_are_refused_with_the_key(field: object, words: str) -> None:
    encoder = Encoder()
    for _ in range(2):
        with pytest.raises(FieldRefusedError, match=words) as caught:
            encoder.encode({"__key__": "a/b", field: b"x"})  # type: ignore[dict-item]
        assert caught.value.key == "a/b"


@pytest.mark.parametrize("sample", [None, b"bytes", ("a", b"x"), [("__key__", "a")]])
def test_what_is_no_dict_is_refused(sample: object) -> None:
    with pytest.raises(UsageError, match="a sample is a dict"):
        Encoder().encode(sample)  # type: ignore[arg-type]


def test_bytes_of_a_gz_field_must_be_gzip_data() -> None:
    assert Encoder().encode({"__key__": "a", "txt.gz": gzip.compress(b"x")}).size
    with pytest.raises(FieldRefusedError, match="gzip"):
        Encoder().encode({"__key__": "a", "txt.gz": b"x"})


def test_a_sample_without_fields_is_refused() -> None:
    with pytest.raises(FieldRefusedError, match="without fields"):
        Encoder().encode({"__key__": "a", "__url__": "x.tar"})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cls", True), ("cls", np.bool_(True)), ("cls", 1.5), ("cls", None), ("cls", "three"),
        ("txt", None), ("txt", 3), ("jpg", None), ("jpg", "text"),
        ("json", {1, 2}), ("json", object()),
        ("npy", np.array([object()])), ("npy", "text"),
        ("bin", 3), ("unknown", {"a": 1}), ("pkl", {"a": 1}),
    ],
)  # fmt: skip
def test_values_that_their_field_cannot_hold_are_refused_with_key_and_field(field: str, value: object) -> None:
    with pytest.raises(TypeError) as caught:
        Encoder().encode({"__key__": "a/b", "good": b"x", field: value})
    assert isinstance(caught.value, FieldRefusedError)
    assert (caught.value.key, caught.value.field) == ("a/b", field)


def test_views_that_nobody_can_write_to_pass_without_a_copy() -> None:
    array = np.arange(100, dtype=np.uint8)
    array.flags.writeable = False
    for view in (array.data[10:60], memoryview(b"x" * 50)[3:]):
        assert Encoder().encode({"__key__": "a", "bin": view}).pieces[1] is view


def test_views_on_memory_that_others_write_to_are_copied() -> None:
    owned = np.zeros(9, np.uint8)
    shown = owned[:]
    shown.flags.writeable = False
    for view in (
        owned.data,
        shown.data,
        owned.data.toreadonly(),
        np.zeros((3, 3), np.uint8).data,
        memoryview(b"abcd")[::2],
    ):
        assert type(Encoder().encode({"__key__": "a", "bin": view}).pieces[1]) is bytes


def as_it_lies(key: str, fields: dict[str, bytes]) -> tuple[dict[str, object], memoryview]:
    """A sample as it is read from a shard, and its members there."""
    members = memoryview(b"".join(Encoder().encode({"__key__": key, **fields}).pieces))
    return dict(parse_sample(members, url="x.tar", offset=0)), members


@given(st.lists(st.tuples(KEYS, FIELDS), min_size=1, max_size=4))
def test_what_is_taken_as_it_lies_is_what_would_be_made(samples: list[tuple[str, dict[str, bytes]]]) -> None:
    encoder = Encoder()
    for key, fields in samples:
        sample, members = as_it_lies(key, fields)
        taken, made = encoder.taken(sample, members), Encoder().encode(sample)
        assert b"".join(taken.pieces) == b"".join(made.pieces)
        assert (taken.key, taken.fields, taken.size) == (made.key, made.fields, made.size)
        assert list(map(bytes, taken.values)) == list(map(bytes, made.values))
    assert encoder.taken(sample, members).pieces[0] is members


def test_names_are_checked_of_what_is_taken_as_it_lies_too() -> None:
    sample, members = as_it_lies("a", {"jpg": b"x", "txt.gz": gzip.compress(b"x")})
    encoder = Encoder()
    for _ in range(2):
        with pytest.raises(KeyRefusedError, match="folder"):
            encoder.taken(sample | {"__key__": "../a"}, members)
        with pytest.raises(FieldRefusedError, match="field name"):
            encoder.taken(sample | {"a\nb": b""}, members)
        with pytest.raises(FieldRefusedError, match="without fields"):
            encoder.taken({"__key__": "a"}, members)
        with pytest.raises(FieldRefusedError, match="gz"):
            encoder.taken(sample | {"txt.gz": b"no gzip data"}, members)
