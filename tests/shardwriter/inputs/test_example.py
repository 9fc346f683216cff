import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwriter.inputs.example import read_example
from wds_tools.errors import FieldError


def message(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, len(data)]) + data


# By hand from the encoding's specification: {"a": bytes [b"xy"], "b": int64 packed [1, -1, 300], "c": float [1.5]}.
BY_HAND = message(
    1,
    message(1, message(1, b"a") + message(2, message(1, message(1, b"xy"))))
    + message(1, message(1, b"b") + message(2, message(3, message(1, b"\x01" + b"\xff" * 9 + b"\x01" + b"\xac\x02"))))
    + message(1, message(1, b"c") + message(2, message(2, message(1, b"\x00\x00\xc0\x3f")))),
)


def plain(features: dict[str, Any]) -> dict[str, list[Any]]:
    return {name: list(values) for name, values in features.items()}


def test_a_message_made_by_hand() -> None:
    assert plain(read_example(BY_HAND)) == {"a": [b"xy"], "b": [1, -1, 300], "c": [1.5]}
    assert read_example(BY_HAND)["b"].dtype == np.int64  # type: ignore[union-attr]
    assert read_example(BY_HAND)["c"].dtype == np.float32  # type: ignore[union-attr]


def test_numbers_that_are_not_packed_and_fields_that_are_not_known() -> None:
    numbers = b"\x08\x05\x08\x07"  # field 1 as two varints
    floats = b"\x0d\x00\x00\x80\x3f\x0d\x00\x00\x00\x40"  # field 1 as two words of 4 bytes
    unknown = b"\x78\x01" + b"\x79" + bytes(8) + b"\x7d" + bytes(4) + message(9, b"what")
    data = message(
        1,
        message(1, unknown + message(1, b"n") + message(2, unknown + message(3, numbers)))
        + message(1, message(1, b"f") + message(2, message(2, floats))),
    )
    assert plain(read_example(unknown + data)) == {"n": [5, 7], "f": [1.0, 2.0]}


def test_an_empty_example_and_empty_features() -> None:
    assert read_example(b"") == {}
    assert plain(read_example(message(1, message(1, message(1, b"x"))))) == {"x": []}
    assert plain(read_example(message(1, message(1, message(1, b"x") + message(2, message(3, b"")))))) == {"x": []}


@pytest.mark.parametrize("end", range(1, len(BY_HAND)))
def test_a_message_that_is_cut_anywhere_is_an_error(end: int) -> None:
    with pytest.raises(FieldError):
        read_example(BY_HAND[:end])


@given(st.binary(max_size=60))
def test_any_bytes_are_an_example_or_an_error(data: bytes) -> None:
    with contextlib.suppress(FieldError):
        read_example(data)


@pytest.fixture(scope="module")
def example_class() -> Any:
    """tf.train.Example of the real protobuf package, from its published definition."""
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    descriptor_pool = pytest.importorskip("google.protobuf.descriptor_pool")
    message_factory = pytest.importorskip("google.protobuf.message_factory")
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="tensorflow", syntax="proto3")

    def add(name: str, *fields: tuple[str, int, int, int, str]) -> Any:
        kind = file.message_type.add(name=name)
        for label, number, repeated, sort, of in fields:
            kind.field.add(name=label, number=number, label=repeated, type=sort, **({"type_name": of} if of else {}))
        return kind

    many, one, of = field.LABEL_REPEATED, field.LABEL_OPTIONAL, field.TYPE_MESSAGE
    add("BytesList", ("value", 1, many, field.TYPE_BYTES, ""))
    add("FloatList", ("value", 1, many, field.TYPE_FLOAT, ""))
    add("Int64List", ("value", 1, many, field.TYPE_INT64, ""))
    feature = add(
        "Feature",
        ("bytes_list", 1, one, of, ".tensorflow.BytesList"),
        ("float_list", 2, one, of, ".tensorflow.FloatList"),
        ("int64_list", 3, one, of, ".tensorflow.Int64List"),
    )
    feature.oneof_decl.add(name="kind")
    for each in feature.field:
        each.oneof_index = 0
    features = add("Features", ("feature", 1, many, of, ".tensorflow.Features.FeatureEntry"))
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=one, type=field.TYPE_STRING)
    entry.field.add(name="value", number=2, label=one, type=of, type_name=".tensorflow.Feature")
    add("Example", ("features", 1, one, of, ".tensorflow.Features"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.Example"))


floats = st.floats(width=32, allow_nan=False)
whole = st.integers(-(2**63), 2**63 - 1)


@given(
    st.dictionaries(
        st.text(max_size=8), st.lists(st.binary(max_size=300)) | st.lists(floats) | st.lists(whole), max_size=5
    )
)
def test_what_protobuf_writes_is_read_as_it_was(example_class: Any, features: dict[str, list[Any]]) -> None:
    example = example_class()
    for name, values in features.items():
        feature = example.features.feature[name]
        kind = type(values[0]) if values else bytes
        target = {bytes: feature.bytes_list, float: feature.float_list, int: feature.int64_list}[kind]
        target.value.extend(values)
    assert plain(read_example(example.SerializeToString())) == features
