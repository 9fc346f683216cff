import gzip
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardwriter.inputs.crc32c import masked
from shardwriter.inputs.tfrecord import TFRecords, tfrecord_files
from tests.builders import picture
from wds_tools.codec import decode_field
from wds_tools.errors import DataError, FieldError, MissingFieldError, UsageError


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def message(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def example(**features: Any) -> bytes:
    """A tf.train.Example; `__` in names stands for a slash."""
    entries = b""
    for name, value in features.items():
        values = value if isinstance(value, list) else [value]
        if isinstance(values[0], bytes):
            feature = message(1, b"".join(message(1, each) for each in values))
        elif isinstance(values[0], float):
            feature = message(2, message(1, struct.pack(f"<{len(values)}f", *values)))
        else:
            feature = message(3, message(1, b"".join(map(varint, values))))
        entries += message(1, message(1, name.replace("__", "/").encode()) + message(2, feature))
    return message(1, entries)


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked(length)) + data + struct.pack("<I", masked(data))


def write(path: Path, *examples: bytes) -> Path:
    path.write_bytes(b"".join(map(record, examples)))
    return path


def imagenet(number: int) -> bytes:
    return example(
        image__encoded=picture(number),
        image__class__label=number,
        image__filename=b"n01/%d.JPEG" % number,
        image__height=36,
    )


def test_usual_files_are_packed_as_they_are(tmp_path: Path, packed: Callable[..., Any]) -> None:
    for shard in range(3):
        write(tmp_path / f"train-{shard:05d}-of-00003.tfrecord", *(imagenet(4 * shard + at) for at in range(4)))
    with tfrecord_files(tmp_path) as samples:
        done = packed(samples, shuffle=True)
    assert done.rows == {f"{n:08d}": {"jpg": picture(n), "cls": b"%d" % n} for n in range(12)}


def test_features_are_chosen_and_names_are_keys(tmp_path: Path) -> None:
    data = example(
        img=picture(1, form="PNG"),
        box=[0.5, 1.5],
        ids=[1, 2],
        text="größe".encode(),
        names=[b"a", b"b"],
        label=3,
        id=b"x/y.1.jpg",
    )
    fields = {
        "img": "jpg",
        "box": "box.npy",
        "ids": "ids.json",
        "text": "txt",
        "names": "json",
        "label": "cls",
        "no": "no.txt?",
    }
    with tfrecord_files(write(tmp_path / "a.tfrecord", data), fields=fields, key="id") as samples:
        sample = samples.sample(0)
    assert sample.pop("__key__") == "x/y_1"
    assert np.array_equal(decode_field("npy", sample.pop("box.npy")), np.array([0.5, 1.5], np.float32))  # type: ignore[arg-type]
    assert sample == {
        "png": picture(1, form="PNG"), "ids.json": b"[1,2]", "txt": "größe".encode(), "json": b'["a","b"]', "cls": b"3",
    }  # fmt: skip
    with tfrecord_files(write(tmp_path / "a.tfrecord", data), fields=fields, key="id", keys="hash") as samples:
        assert (samples.renamed, samples.original(0)) == (True, "x/y.1.jpg")


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"none": "txt"}, MissingFieldError, "no feature 'none'.*There are box, img, text"),
        ({"box": "cls"}, FieldError, "2 values of float32 do not go into cls"),
        ({"text": "jpg"}, FieldError, "a picture is expected"),
        ({"text": "cls"}, FieldError, "whole number"),
        ({"img": "txt"}, FieldError, "UTF-8"),
    ],
)
def test_features_that_do_not_fit_are_errors_of_the_sample(
    tmp_path: Path, fields: dict[str, str], error: type[Exception], words: str
) -> None:
    path = write(tmp_path / "a.tfrecord", example(img=picture(1), box=[0.5, 1.5], text=b"words"))
    with tfrecord_files(path, fields=fields) as samples, pytest.raises(error, match=words):
        samples.sample(0)


def test_features_that_cannot_be_guessed_are_listed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tfrecord", example(pic=picture(1), box=[0.5], n=3))
    with pytest.raises(UsageError, match=r"--column img=jpg.*box \(float32\), n \(int64\), pic \(bytes\)"):
        tfrecord_files(path)


def test_gzipped_files_are_unpacked_in_between(tmp_path: Path, packed: Callable[..., Any]) -> None:
    data = b"".join(record(imagenet(number)) for number in range(5))
    (tmp_path / "a.tfrecord.gz").write_bytes(gzip.compress(data[:2000]) + gzip.compress(data[2000:]))
    write(tmp_path / "b.tfrecord", imagenet(5))
    with tfrecord_files(tmp_path) as samples:
        assert len(packed(samples, shuffle=True).rows) == 6
        with pytest.raises(UsageError, match="another process"):
            pickle.dumps(samples)


def test_a_length_that_looks_like_gzip_is_a_length(tmp_path: Path) -> None:
    filler = 0x088B1F - len(example(image=picture(1), pad=bytes(0x080000))) + 0x080000
    data = example(image=picture(1), pad=bytes(filler))
    assert struct.pack("<Q", len(data))[:3] == b"\x1f\x8b\x08"
    with tfrecord_files(write(tmp_path / "a.tfrecord", data)) as samples:
        assert samples.sample(0)["jpg"] == picture(1)


def test_damage_in_the_data_is_an_error_of_the_sample(tmp_path: Path, packed: Callable[..., Any]) -> None:
    path = write(tmp_path / "a.tfrecord", *map(imagenet, range(3)))
    data = bytearray(path.read_bytes())
    place = len(record(imagenet(0))) + 100
    data[place] ^= 1
    path.write_bytes(data)
    with tfrecord_files(path) as samples:
        done = packed(samples)
    assert list(done.rows) == ["00000000", "00000002"]
    assert "checksum" in done.failures[0]


def test_damage_in_a_length_and_cut_files_are_errors_of_the_file(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.tfrecord", *map(imagenet, range(3))).read_bytes()
    second = len(record(imagenet(0)))
    damaged = bytearray(whole)
    damaged[second] ^= 1
    for name, data, words in [
        ("damaged", bytes(damaged), f"damaged record at byte {second:,}"),
        ("cut", whole[:-1], "cut off"),
        ("head", whole[: second + 5], "cut off"),
        ("text", b"this is no such file at all", "no TFRecord file"),
    ]:
        (tmp_path / f"{name}.tfrecord").write_bytes(data)
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(DataError, match=words):
            tfrecord_files(tmp_path / f"{name}.tfrecord")
        assert len(os.listdir("/proc/self/fd")) == before


def test_files_that_are_not_there_or_empty(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such files"):
        tfrecord_files(str(tmp_path / "*.tfrecord"))
    (tmp_path / "a.tfrecord").touch()
    with pytest.raises(UsageError, match="no records"):
        tfrecord_files(tmp_path / "a.tfrecord")


def test_pickles_and_tells_files_apart(tmp_path: Path) -> None:
    with tfrecord_files(write(tmp_path / "a.tfrecord", *map(imagenet, range(3)))) as samples:
        again: TFRecords = pickle.loads(pickle.dumps(samples))
        with again:
            assert again.sample(2) == samples.sample(2)
            assert again.fingerprint() == samples.fingerprint()
        assert samples.name(1).endswith(f"a.tfrecord[1], at byte {len(record(imagenet(0))) + 12:,}")
