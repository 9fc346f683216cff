"""Small inputs that announce or unpack to much: refused with a clear error, in little memory.

Pictures: tests/cases/test_pictures.py (b21) and below; tar headers: tests/wds_tools/tar/test_walk.py. They are decoded
in a process with a limit on its memory, so that what is not refused fails here and hurts nobody.
"""

from __future__ import annotations

import gzip
import io
import json
import struct
import subprocess
import sys
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import loaders
from tests.wds_tools.pictures.made import jpeg
from wds_tools.errors import ListingError, PictureError, ShardError
from wds_tools.fields.gzipped import MAX_UNPACKED
from wds_tools.index.listing import read_listing
from wds_tools.pictures.decode import BACKENDS, Backend, Decoder

ROOM = 256 << 20
"""Bytes beyond what the interpreter and its modules take."""

DECODE = """
import json, resource, sys
from pathlib import Path
from wds_tools.codec import decode_field
from wds_tools.errors import SampleError
room, modules, *files = sys.argv[1:]
for name in modules.split():
    __import__(name)
taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + int(room),) * 2)
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
for field, file in zip(files[::2], files[1::2]):
    try:
        decode_field(field, Path(file).read_bytes())
    except SampleError as error:
        print(json.dumps(str(error)), flush=True)
    else:
        print(json.dumps("decoded"), flush=True)
"""


def _all_said(folder: Path, fields: list[tuple[str, bytes]], room: int, modules: str) -> list[str]:
    files = []
    for number, (field, data) in enumerate(fields):
        (folder / str(number)).write_bytes(data)
        files += [field, str(folder / str(number))]
    command = [sys.executable, "-c", DECODE, str(room), modules, *files]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=250)
    said = [json.loads(line) for line in run.stdout.splitlines()]
    return said + [run.stderr[-500:]] * (len(fields) - len(said))  # of the one that ended it, and of those behind it


def _said(folder: Path, field: str, data: bytes, *, room: int = ROOM) -> str:
    (said,) = _all_said(folder, [(field, data)], room, "numpy")
    return said


def _npy(kind: str, shape: tuple[int, ...]) -> bytes:
    head = repr({"descr": kind, "fortran_order": False, "shape": shape}).encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head


def _zipped(content: bytes, name: str = "a.npy") -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return target.getvalue()


def _claiming(archive: bytes, size: int) -> bytes:
    """A zip whose directory states another size of its one file."""
    begin = archive.rindex(b"PK\x01\x02")
    return archive[: begin + 24] + struct.pack("<I", size) + archive[begin + 28 :]


def _safetensors(shape: list[int], end: int) -> bytes:
    head = json.dumps({"a": {"dtype": "F32", "shape": shape, "data_offsets": [0, end]}}).encode()
    return struct.pack("<Q", len(head)) + head


BOMBS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "npy of a petabyte": ("npy", lambda: _npy("<f4", (10**15,))),
    "npy of elements without bytes": ("npy", lambda: _npy("|V0", (10**15,))),
    "npy of texts without letters": ("npy", lambda: _npy("<U0", (10**15,))),
    "npy without a side": ("npy", lambda: _npy("<f4", (2**62, 2**62, 0))),
    "npy with a header of 16 MB": ("npy", lambda: b"\x93NUMPY\x02\x00" + struct.pack("<I", 1 << 24) + b" " * (1 << 24)),
    "npy with a nested header": ("npy", lambda: b"\x93NUMPY\x02\x00" + struct.pack("<I", 9000) + b"(" * 9000),
    "npz that says 2 GB": ("npz", lambda: _claiming(_zipped(bytes(100)), 2 << 30)),
    "npz that says less than it is": ("npz", lambda: _claiming(_zipped(bytes(100 << 20)), 100)),
    "msgpack of 4 billion values": ("msgpack", lambda: b"\xdd\xff\xff\xff\xff"),
    "msgpack of 4 GB": ("msgpack", lambda: b"\xc6\xff\xff\xff\xff"),
    "msgpack of 2 billion pairs": ("msgpack", lambda: b"\xdf\x7f\xff\xff\xff" + b"\xc0" * 100),
    "msgpack a million deep": ("msgpack", lambda: b"\x91" * 1_000_000 + b"\xc0"),
    "cbor of values without end": ("cbor", lambda: b"\x9b\x7f" + b"\xff" * 7),
    "cbor of a terabyte": ("cbor", lambda: b"\x5b\0\0\1" + b"\0" * 5),
    "cbor a million deep": ("cbor", lambda: b"\x81" * 1_000_000 + b"\xf6"),
    "cbor a million tags deep": ("cbor", lambda: b"\xc1" * 1_000_000 + b"\xf6"),
    "json ten million deep": ("json", lambda: b"[" * 10_000_000),
    "json a million objects deep": ("json", lambda: b'{"a":' * 1_000_000),
    "json number of 5 million digits": ("json", lambda: b"9" * 5_000_000),
    "jsonl a million deep": ("jsonl", lambda: b"[" * 1_000_000),
    "label of 10 million digits": ("cls", lambda: b"9" * 10_000_000),
    "safetensors with a header of exabytes": ("safetensors", lambda: struct.pack("<Q", 1 << 62) + b"{}"),
    "safetensors of terabytes": ("safetensors", lambda: _safetensors([1 << 40], 1 << 42)),
    "safetensors of nothing, very often": ("safetensors", lambda: _safetensors([1 << 62, 4], 0)),
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What was said of each bomb, decoded one after the other."""
    fields = [(field, make()) for field, make in BOMBS.values()]
    modules = "numpy zipfile msgpack cbor2 safetensors.numpy"
    return dict(zip(BOMBS, _all_said(tmp_path_factory.mktemp("bombs"), fields, ROOM, modules), strict=True))


@pytest.mark.parametrize("name", BOMBS)
def test_a_field_that_announces_much_is_refused_in_little_memory(name: str, said: dict[str, str]) -> None:
    assert f"(field {BOMBS[name][0]})" in said[name]


def test_gzip_is_unpacked_to_its_limit_only(tmp_path: Path) -> None:
    packed = gzip.compress(bytes(64 << 20)) * (MAX_UNPACKED // (64 << 20) + 1)
    assert len(packed) < 2 << 20
    assert "more than 1,073,741,824 bytes" in _said(tmp_path, "txt.gz", packed, room=2 * MAX_UNPACKED + ROOM)


def test_a_name_that_comes_often_in_an_npz_is_unpacked_as_often_as_it_is_counted(tmp_path: Path) -> None:
    # 3,000 entries of one name, of which all but the last say that they are empty: by name, each would be the last
    archive = _zipped(_npy("|u1", (10 << 20,)) + bytes(10 << 20))
    end = archive.rindex(b"PK\x05\x06")
    (begin,) = struct.unpack_from("<I", archive, end + 16)
    entry = archive[begin:end]
    many = (entry[:24] + bytes(4) + entry[28:]) * 3000 + entry
    closing = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 3001, 3001, len(many), begin, 0)
    assert "npz does not decode" in _said(tmp_path, "npz", archive[:begin] + many + closing)


class _Freely:
    def __reduce__(self) -> tuple[object, ...]:
        return bytearray, (8 << 30,)


def test_torch_data_take_no_more_than_they_may(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    again, freely = io.BytesIO(), []
    whole = io.BytesIO()
    torch.save(torch.zeros(1000, dtype=torch.uint8), whole)
    with zipfile.ZipFile(whole) as plain, zipfile.ZipFile(again, "w", zipfile.ZIP_DEFLATED) as packed:
        for entry in plain.infolist():
            packed.writestr(entry.filename, plain.read(entry))
    for options in ({}, {"_use_new_zipfile_serialization": False}):
        freely.append(io.BytesIO())
        torch.save({"a": _Freely()}, freely[-1], **options)
    datas = [again.getvalue(), _claiming(again.getvalue(), 2 << 30), *(each.getvalue() for each in freely)]
    said = _all_said(tmp_path, [("pt", data) for data in datas], ROOM, "torch")
    assert said[0] == "decoded"
    assert "more than the limit" in said[1]
    assert all("a bytearray" in each for each in said[2:])


def _sparse(kind: str) -> bytes:
    """A shard of one member of 5 GB, which is not there, compressed."""
    member = tarfile.TarInfo("a.bin")
    member.size = 5 << 30
    head = member.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20)
    if kind == "gzip":
        return gzip.compress(head)
    zstandard = pytest.importorskip("zstandard")
    window = {"window_log": 30} if kind == "zstd with a window of a gigabyte" else {}
    parameters = zstandard.ZstdCompressionParameters.from_level(3, write_content_size=0, **window)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return bytes(packer.compress(head) + packer.flush())


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("gzip", "at most 4294967296 are held"),
        ("zstd", "at most 4294967296 are held"),
        ("zstd with a window of a gigabyte", "too much memory"),
    ],
)
def test_a_compressed_shard_that_announces_much_is_refused_in_little_memory(
    kind: str, problem: str, tmp_path: Path
) -> None:
    (tmp_path / "s.tar").write_bytes(_sparse(kind))
    tracemalloc.start()
    try:
        with pytest.raises(ShardError, match=problem):
            list(loaders.samples(str(tmp_path / "s.tar")))
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_picture_of_endless_scans_is_refused_by_every_backend(backend: Backend) -> None:
    data = jpeg(16, 16, progressive=True)
    begin = data.index(b"\xff\xda")
    end = data.index(b"\xff", begin + 14)  # the first scan, of the mean levels
    decoder = Decoder(backend=backend)
    once = decoder.decode(data)
    assert np.array_equal(decoder.decode(data[:begin] + data[begin:end] * 3 + data[end:]), once)
    with pytest.raises(PictureError, match="scans"):
        decoder.decode(data[:begin] + data[begin:end] * 600 + data[end:])


@pytest.mark.parametrize(
    "data", [b"[" * 5_000_000, b'{"a":' * 1_000_000, b'{"wids_version": 1, "shardlist": ' + b"[" * 99_999]
)
def test_a_listing_nested_without_end_is_an_error(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "dataset.json").write_bytes(data)
    with pytest.raises(ListingError, match="not JSON"):
        read_listing(str(tmp_path / "dataset.json"))
