from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as arrays_of

from wds_tools.errors import FieldError, FieldRefusedError
from wds_tools.fields import arrays
from wds_tools.fields.arrays import Array

BASE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
ODD = {
    "strided": BASE[:, ::2, ::-1],
    "fortran": np.asfortranarray(BASE),
    "transposed": BASE.T,
    "big endian": BASE.astype(">f4"),
    "no dimension": np.array(3.5),
    "empty": np.zeros((0, 3)),
    "bool": BASE > 3,
    "half": BASE.astype(np.float16),
    "complex": BASE.astype(np.complex64),
    "text": np.array(["a", "bcd"]),
    "dates": np.array(["2020-01-01"], "datetime64[D]"),
    "records": np.array([(1, 2.0)], [("a", "i4"), ("b", ">f8")]),
}


def _same(one: Array, other: Array) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and np.array_equal(one, other)


@pytest.mark.parametrize("name", ODD)
def test_arrays_of_any_layout_come_back(name: str) -> None:
    data = arrays.encode_npy(ODD[name])
    assert _same(arrays.decode_npy(data), ODD[name])
    assert _same(np.load(io.BytesIO(data), allow_pickle=False), ODD[name])
    assert _same(arrays.decode_npz(arrays.encode_npz({"x": ODD[name]}))["x"], ODD[name])


@given(arrays_of.arrays(arrays_of.scalar_dtypes(), arrays_of.array_shapes(min_dims=0, min_side=0)))
def test_every_array_comes_back(array: Array) -> None:
    decoded = arrays.decode_npy(arrays.encode_npy(array))
    assert decoded.dtype == array.dtype
    assert decoded.shape == array.shape
    assert decoded.tobytes() == array.tobytes()


def test_what_numpy_writes_is_read() -> None:
    for version in ((1, 0), (2, 0), (3, 0)):
        target = io.BytesIO()
        np.lib.format.write_array(target, BASE, version)
        assert _same(arrays.decode_npy(memoryview(target.getvalue())), BASE)
    target = io.BytesIO()
    np.savez_compressed(target, BASE, named=BASE.T)
    decoded = arrays.decode_npz(target.getvalue())
    assert sorted(decoded) == ["arr_0", "named"]
    assert _same(decoded["named"], BASE.T)


def test_a_decoded_array_owns_its_memory_and_a_view_does_not() -> None:
    data = bytearray(arrays.encode_npy(BASE))
    owned, view = arrays.decode_npy(data), arrays.view_npy(data)
    data[-4:] = np.float32(-1).tobytes()
    assert owned[-1, -1, -1] == 23
    assert view[-1, -1, -1] == -1
    assert owned.flags.writeable
    assert not arrays.view_npy(bytes(data)).flags.writeable


def test_a_view_at_an_odd_address() -> None:
    data = memoryview(b"x" + arrays.encode_npy(BASE))[1:]
    assert _same(arrays.view_npy(data), BASE)


def _npy(text: str, body: bytes = b"") -> bytes:
    head = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + body


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nothing like it",
        arrays.encode_npy(BASE)[:20],
        arrays.encode_npy(BASE)[:-1],
        arrays.encode_npy(BASE) + b"x",
        _npy("{'descr': '<f4', 'fortran_order': False, 'shape': (10**9, 10**9)}"),
        _npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 1000000000)}"),
        _npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4)}"),
        _npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, -4)}", bytes(16)),
        _npy("__import__('os').system('true')"),
        _npy("((((" * 20),
        _npy("{'descr': 'nonsense', 'fortran_order': False, 'shape': (1,)}", bytes(8)),
    ],
)
def test_damaged_npy_is_an_error(data: bytes) -> None:
    with pytest.raises(FieldError, match="npy"):
        arrays.decode_npy(data)


def test_arrays_of_objects_are_neither_read_nor_written() -> None:
    objects = np.array([{"a": 1}, None])
    target = io.BytesIO()
    np.save(target, objects, allow_pickle=True)
    with pytest.raises(FieldError, match="Python objects"):
        arrays.decode_npy(target.getvalue())
    target = io.BytesIO()
    np.savez(target, x=objects)
    with pytest.raises(FieldError, match="Python objects"):
        arrays.decode_npz(target.getvalue())
    for encode in (arrays.encode_npy, arrays.encode_npz):
        with pytest.raises(FieldRefusedError, match="Python objects"):
            encode(objects)


@pytest.mark.parametrize("value", [[1, 2], "text", 3, {"a": [1]}, np.ma.masked_array([1, 2], [True, False])])
def test_what_is_no_array_is_not_written(value: Any) -> None:
    with pytest.raises(FieldRefusedError, match="array"):
        arrays.encode_npy(value)
    with pytest.raises(FieldRefusedError, match="array"):
        arrays.encode_npz(value)


def test_scalars_of_numpy_and_single_arrays_in_npz() -> None:
    assert _same(arrays.decode_npy(arrays.encode_npy(np.float32(2.5))), np.array(2.5, np.float32))
    assert list(arrays.decode_npz(arrays.encode_npz(BASE))) == ["arr_0"]
    assert arrays.encode_npz({"a": BASE}) == arrays.encode_npz({"a": BASE.copy()})


def test_damaged_and_bottomless_npz_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = arrays.encode_npz({"a": BASE})
    for data in (b"", whole[: len(whole) // 2], whole.replace(b"NUMPY", b"NUMPX"), b"PK\x03\x04" + bytes(60)):
        with pytest.raises(FieldError):
            arrays.decode_npz(data)
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", bytes(2_000_000))
    monkeypatch.setattr(arrays, "MAX_UNPACKED", 1_000_000)
    with pytest.raises(FieldError, match="2,000,000 bytes"):
        arrays.decode_npz(target.getvalue())


@pytest.mark.parametrize("name", ["strided", "fortran", "transposed", "no dimension", "empty", "bool", "half"])
def test_safetensors_come_back(name: str) -> None:
    assert _same(arrays.decode_safetensors(arrays.encode_safetensors({"x": ODD[name]}))["x"], ODD[name])


def test_safetensors_of_the_other_byte_order_keep_their_values() -> None:
    decoded = arrays.decode_safetensors(arrays.encode_safetensors({"x": BASE.astype(">f4")}))["x"]
    assert np.array_equal(decoded, BASE)
    with pytest.raises(FieldRefusedError, match="dict of name to array"):
        arrays.encode_safetensors(BASE)
