"""What is packed: TFRecord and RecordIO files, and manifests in CSV, JSON lines and Parquet."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from shardwriter.inputs.base import BaseInput
from shardwriter.inputs.crc32c import masked
from shardwriter.inputs.example import read_example
from shardwriter.inputs.manifest import manifest_file
from shardwriter.inputs.recordio import recordio_files
from shardwriter.inputs.tfrecord import tfrecord_files
from tests.builders import picture
from tests.fuzz.targets.offline import REMOTE, offline
from tests.fuzz.targets.target import Target
from wds_tools.errors import ShardstreamError

__all__ = ["TARGETS"]

_MOST = 50


def example(data: bytes, folder: Path) -> bool:
    """A tf.train.Example has features by name."""
    found = read_example(data)
    assert all(isinstance(name, str) for name in found)
    return True


def tfrecord(data: bytes, folder: Path) -> bool:
    """Each record is a sample or one of our errors."""
    path = folder / "a.tfrecord"
    path.write_bytes(data)
    return _each(lambda: tfrecord_files(path, fields={"image": "jpg?", "label": "cls?", "x": "json?"}, key="name"))


def recordio(data: bytes, folder: Path) -> bool:
    """Each record is a sample or one of our errors."""
    path = folder / "a.rec"
    path.write_bytes(data)
    return _each(lambda: recordio_files(path, ids="id"))


def table(ending: str) -> Callable[[bytes, Path], bool]:
    """Each row is a sample or one of our errors."""

    def run(data: bytes, folder: Path) -> bool:
        path = folder / f"table{ending}"
        path.write_bytes(data)
        columns = {"caption": "txt?", "box": "json?"}
        return _each(lambda: manifest_file(path, columns=columns, label="label", key="key", remote=REMOTE))

    return run


def _each(make: Callable[[], BaseInput]) -> bool:
    good = 0
    with offline(), make() as found:
        for index in range(min(len(found), _MOST)):
            assert isinstance(found.name(index), str)
            with suppress(ShardstreamError, OSError):  # OSError: of a file that a row names
                found.sample(index)
                good += 1
    return good > 0


def _message(number: int, data: bytes) -> bytes:
    assert len(data) < 1 << 14
    return bytes([number << 3 | 2, len(data) & 0x7F | 0x80, len(data) >> 7]) + data


def _feature(name: bytes, kind: int, values: bytes) -> bytes:
    return _message(1, _message(1, name) + _message(2, _message(kind, _message(1, values))))


def _examples() -> list[bytes]:
    picture_, label = _feature(b"image", 1, picture(0, width=8, height=8)), _feature(b"label", 3, b"\x07")
    name, floats = _feature(b"name", 1, b"a"), _feature(b"x", 2, struct.pack("<2f", 1.5, 2))
    return [_message(1, picture_ + label + name), _message(1, name + floats), _message(1, name + label)]


def _record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked(length)) + data + struct.pack("<I", masked(data))


def _tfrecords() -> list[bytes]:
    return [b"".join(map(_record, _examples()))]


def _with_crcs(data: bytes) -> bytes:
    """The same records with right checksums, as far as lengths lead."""
    done, place = bytearray(data), 0
    while place + 12 <= len(done):
        (length,) = struct.unpack_from("<Q", done, place)
        struct.pack_into("<I", done, place + 8, masked(done[place : place + 8]))
        end = place + 12 + length
        if end + 4 > len(done):
            break
        struct.pack_into("<I", done, end, masked(done[place + 12 : end]))
        place = end + 4
    return bytes(done)


def _recordios() -> list[bytes]:
    magic = b"\x0a\x23\xd7\xce"

    def part(kind: int, data: bytes) -> bytes:
        return magic + struct.pack("<I", kind << 29 | len(data)) + data + bytes(-len(data) % 4)

    def image(labels: list[float]) -> bytes:
        more = labels if len(labels) != 1 else []
        head = struct.pack("<IfQQ", len(more), labels[0], 7, 0) + struct.pack(f"<{len(more)}f", *more)
        return head + picture(0, width=8, height=8)

    two = image([1.0, 2.5])
    return [part(0, image([3.0])) + part(0, two), part(1, two[:40]) + part(2, b"") + part(3, two[40:])]


def _parquets() -> list[bytes]:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow import parquet

    rows = {
        "key": ["a", "b"],
        "label": [1, 2],
        "caption": ["x", None],
        "box": ["", "[1]"],
        "image": [{"bytes": picture(0, width=8, height=8), "path": "a.jpg"}, {"bytes": b"", "path": "no.jpg"}],
    }
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for codec in ("none", "snappy"):
            parquet.write_table(pa.table(rows), f"{folder}/t", compression=codec)
            found.append(Path(folder, "t").read_bytes())
    return found


_CSV = b'key,label,caption,box\na,1,"x, ""y""\r\nz",\nb,2,\xc3\xa9,"[1]"\n'
_JSON = b'{"key": "a", "label": "cat", "caption": "x", "box": [1, 2.5]}\n\n{"key": "b", "label": "dog"}\n'
TARGETS = (
    Target(name="example", run=example, seeds=_examples, times=300),
    Target(name="tfrecord", run=tfrecord, seeds=_tfrecords, mend=_with_crcs, times=300, beside=16 << 20),
    Target(name="recordio", run=recordio, seeds=_recordios, times=300, beside=16 << 20),
    Target(name="csv", run=table(".csv"), seeds=lambda: [_CSV, b"\xef\xbb\xbf" + _CSV], times=300),
    Target(name="jsonl", run=table(".jsonl"), seeds=lambda: [_JSON], times=300),
    Target(name="parquet", run=table(".parquet"), seeds=_parquets, times=300),
)
