"""The table of fields: each name is written and read, and nothing that anyone made runs."""

from __future__ import annotations

import contextlib
import gzip
import io
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wds_tools.pictures.made import saved, scene
from wds_tools.codec import decode_field, encode_field, kind_of
from wds_tools.errors import (
    FieldError,
    FieldRefusedError,
    PictureError,
    SampleError,
    TruncatedPictureError,
    UnsupportedPictureError,
    UsageError,
)

SCENE = scene(24, 16)
GREY = np.repeat(SCENE[:, :, :1], 3, axis=2)
ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)

ROWS: dict[str, tuple[str, Any]] = {
    **dict.fromkeys(["png", "bmp", "tif", "tiff", "ppm"], ("picture", SCENE)),
    **dict.fromkeys(["jpg", "jpeg", "webp", "avif"], ("picture", SCENE)),
    **dict.fromkeys(["gif", "pgm"], ("picture", GREY[:, :, 0])),
    **dict.fromkeys(["cls", "cls2", "class", "index", "inx", "id", "count"], ("int", 17)),
    **dict.fromkeys(["txt", "text", "transcript", "caption"], ("text", "größer\n")),
    **dict.fromkeys(["json", "jsn"], ("json", {"a": [1, None, "x"]})),
    "jsonl": ("jsonl", [1, {"a": 2}]),
    "npy": ("npy", ARRAY),
    "npz": ("npz", {"x": ARRAY}),
    **dict.fromkeys(["pt", "pth"], ("pt", torch.arange(3))),
    "safetensors": ("safetensors", {"x": ARRAY}),
    **dict.fromkeys(["mp", "msgpack", "msg"], ("msgpack", {"a": b"x", "b": [1]})),
    "cbor": ("cbor", {"a": b"x", "b": [1]}),
    **dict.fromkeys(["pkl", "pickle", "pyd"], ("pickle", {"a": {1, 2}})),
    **dict.fromkeys(["bin", "mp3", "exe", "tar"], ("bytes", b"\0\1")),
}
LOSSY = {"jpg", "jpeg", "webp", "avif"}


def _same(one: Any, other: Any, field: str) -> bool:
    if kind_of(field) == "picture":
        wanted = other if other.ndim == 3 else np.repeat(other[:, :, None], 3, axis=2)
        apart = np.abs(one.astype(int) - wanted)
        return bool(apart.mean() < 12 if field.removesuffix(".gz").rpartition(".")[2] in LOSSY else not apart.any())
    if isinstance(other, dict) and any(isinstance(value, np.ndarray) for value in other.values()):
        return list(one) == list(other) and all(np.array_equal(one[name], other[name]) for name in other)
    if isinstance(other, np.ndarray | torch.Tensor):
        return bool((one == other).all()) and one.dtype == other.dtype
    return bool(one == other) and type(one) is type(other)


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("pattern", ["{}", "left.{}", "a.b.{}", "{}.gz", "left.{}.gz"])
def test_each_row_is_written_and_read(name: str, pattern: str) -> None:
    kind, value = ROWS[name]
    field = pattern.format(name)
    assert kind_of(field) == kind
    if kind == "bytes" and field.endswith(".gz"):
        return
    data = encode_field(field, value, allow_pickle=True)
    assert isinstance(data, bytes)
    assert data.startswith(b"\x1f\x8b") == field.endswith(".gz")
    for given_as in (data, bytearray(data), memoryview(b"x" + data)[1:]):
        assert _same(decode_field(field, given_as, allow_pickle=True), value, field)


def test_the_last_part_decides_and_case_does_not() -> None:
    assert kind_of("JPG") == "picture"
    assert kind_of("seg.png") == "picture"
    assert kind_of("png.cls") == "int"
    assert kind_of("gz") == "bytes"
    assert kind_of("nii.gz") == "bytes"
    assert kind_of("") == "bytes"


def test_unknown_fields_are_bytes_unchanged_gzip_or_not() -> None:
    for field in ("bin", "nii.gz", "gz", "tar.gz"):
        assert decode_field(field, memoryview(b"\x1f\x8bwhatever")) == b"\x1f\x8bwhatever"


@pytest.mark.parametrize("field", ["jpg", "cls", "txt", "json", "npy", "pkl", "bin", "pt"])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_pass_unchanged_whatever_the_field(field: str, kind: type) -> None:
    assert encode_field(field, kind(b"anything")) == b"anything"


def test_bytes_for_a_compressed_field_must_be_compressed() -> None:
    packed = gzip.compress(b"{}", mtime=0)
    assert encode_field("json.gz", packed) == packed
    with pytest.raises(FieldRefusedError, match=r"not gzip data.*json\.gz"):
        encode_field("json.gz", b"{}")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("cls", True, "bool"),
        ("cls", np.True_, "bool"),
        ("cls", 1.5, "float"),
        ("cls", None, "None"),
        ("txt", None, "None"),
        ("txt", 3, "int"),
        ("json", {"a": float("nan")}, "JSON"),
        ("npy", np.array([object()]), "objects"),
        ("npy", [1, 2], "list"),
        ("jpg", np.zeros((4, 4, 4), np.uint8), "RGBA"),
        ("jpg", np.zeros((4, 4, 3), np.float32), "float32"),
        ("bin", "text", "str"),
        ("noext", 3, "int"),
        ("pkl", {"a": 1}, "pickle"),
        ("pt", object(), "object"),
        ("mp", object(), "object"),
        ("cbor", {"a": object()}, "object"),
        ("safetensors", {"a": np.array(["text"])}, "safetensors"),
    ],
)
def test_a_refusal_names_the_field_and_what_was_wrong(field: str, value: object, words: str) -> None:
    with pytest.raises(FieldRefusedError, match=words) as caught:
        encode_field(field, value)
    assert isinstance(caught.value, TypeError)
    assert caught.value.field == field
    assert f"field {field}" in str(caught.value)


@pytest.mark.parametrize(
    ("field", "data", "error"),
    [
        ("cls", b"cat", FieldError),
        ("left.txt", b"\xff", FieldError),
        ("json", b"[" * 100_000, FieldError),
        ("npz", b"no zip", FieldError),
        ("pt", b"", FieldError),
        ("safetensors", b"\xff" * 40, FieldError),
        ("mp", b"\xc1", FieldError),
        ("mp", b"\x91" * 100_000, FieldError),
        ("cbor", b"\x81" * 100_000, FieldError),
        ("cbor", b"", FieldError),
        ("json.gz", b"{}", FieldError),
        ("jpg", b"", TruncatedPictureError),
        ("jpg", b"<html>", UnsupportedPictureError),
        ("seg.png.gz", gzip.compress(b"\x89PNG\r\n\x1a\n", mtime=0), PictureError),
    ],
)
def test_bytes_that_do_not_decode_name_their_field(field: str, data: bytes, error: type[SampleError]) -> None:
    with pytest.raises(error) as caught:
        decode_field(field, data)
    assert caught.value.field == field
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), error)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(set(ROWS) - {"pkl", "pickle", "pyd"})), st.binary(max_size=200))
def test_noise_gives_a_value_or_a_sample_error(field: str, noise: bytes) -> None:
    with contextlib.suppress(SampleError):
        decode_field(field, noise)


class _Payload:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_nothing_that_anyone_made_runs(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    payload = pickle.dumps(_Payload(trace))
    held = np.empty(1, object)
    held[0] = _Payload(trace)
    saves: dict[str, Any] = {"npy": np.save, "npz": np.savez}
    for field in ("pkl", "pickle", "pyd", "jpg.pkl", "pkl.gz", "pt", "pth", "npy", "npz"):
        target = io.BytesIO(payload)
        if field in saves:
            saves[field](target, held)
        elif field.startswith("pt"):
            torch.save(_Payload(trace), target)
        data = target.getvalue()
        with pytest.raises(FieldError):
            decode_field(field, gzip.compress(data) if field.endswith("gz") else data)
    assert not trace.exists()
    decode_field("pkl", payload, allow_pickle=True)
    assert trace.exists()


def test_quality_reaches_pictures_only() -> None:
    assert len(encode_field("jpg", SCENE, quality=30)) < len(encode_field("jpg", SCENE))
    assert encode_field("jpg", SCENE) == saved(SCENE, "JPEG", quality=95, subsampling="4:2:0")
    assert encode_field("cls", 3, quality=30) == b"3"
    with pytest.raises(UsageError, match="quality"):
        encode_field("jpg", SCENE, quality=0)


def test_importing_the_table_loads_no_decoder() -> None:
    code = "import sys, wds_tools.codec; print({'PIL', 'torch', 'simplejpeg', 'msgpack', 'cbor2'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
