import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwriter.inputs.recordio import RecordIO, find_records, recordio_files
from tests.builders import picture
from wds_tools.codec import decode_field
from wds_tools.errors import DataError, FieldError, SampleError, UsageError
from wds_tools.sources.local import LocalFile

MAGIC = struct.pack("<I", 0xCED7230A)


def part(kind: int, data: bytes) -> bytes:
    return MAGIC + struct.pack("<I", kind << 29 | len(data)) + data + bytes(-len(data) % 4)


def record(data: bytes) -> bytes:
    """A record, cut where the magic word lies at a multiple of four, as dmlc's writer cuts it."""
    cuts = [at for at in range(0, len(data) - 3, 4) if data[at : at + 4] == MAGIC]
    if not cuts:
        return part(0, data)
    begins, ends = [0, *(at + 4 for at in cuts)], [*cuts, len(data)]
    kinds = [1, *[2] * (len(cuts) - 1), 3]
    return b"".join(part(kind, data[begin:end]) for kind, begin, end in zip(kinds, begins, ends, strict=True))


def image(number: int, label: float | list[float], data: bytes | None = None) -> bytes:
    data = picture(number) if data is None else data
    if isinstance(label, list):
        return struct.pack(f"<IfQQ{len(label)}f", len(label), 0.0, number, 0, *label) + data
    return struct.pack("<IfQQ", 0, label, number, 0) + data


def write(path: Path, *records: bytes) -> Path:
    path.write_bytes(b"".join(map(record, records)))
    return path


def test_pictures_and_labels(tmp_path: Path, packed: Callable[..., Any]) -> None:
    write(tmp_path / "a.rec", *(image(number, float(number)) for number in range(5)))
    write(tmp_path / "b.rec", image(7, 1.0, picture(7, form="PNG")))
    with recordio_files(tmp_path) as samples:
        done = packed(samples, shuffle=True)
    assert done.rows == {
        **{f"{n:08d}": {"jpg": picture(n), "cls": b"%d" % n} for n in range(5)},
        "00000005": {"png": picture(7, form="PNG"), "cls": b"1"},
    }


def test_several_labels_are_an_array(tmp_path: Path) -> None:
    path = write(tmp_path / "a.rec", image(3, [1.0, 0.25, 7.0]), image(4, [2.0]), image(5, 0.5))
    with recordio_files(path, ids="id") as samples:
        sample = samples.sample(0)
        assert np.array_equal(decode_field("npy", sample["label.npy"]), np.array([1, 0.25, 7], np.float32))  # type: ignore[arg-type]
        assert (sample["id"], samples.sample(1)["cls"]) == (3, b"2")
        with pytest.raises(FieldError, match=r"\[0.5\] is no whole number.*label\.npy"):
            samples.sample(2)
    with recordio_files(path, label="label.json") as samples:
        assert [samples.sample(at)["label.json"] for at in range(3)] == [b"[1.0,0.25,7.0]", b"[2.0]", b"[0.5]"]


@given(
    st.lists(st.lists(st.sampled_from([MAGIC, b"abcd", b"x", b"\x0a\x23", b""]), max_size=6).map(b"".join), max_size=5)
)
def test_data_that_hold_the_magic_word_come_back_whole(datas: list[bytes]) -> None:
    import tempfile

    from shardwriter.inputs.recordio import _joined

    with tempfile.NamedTemporaryFile() as file:
        file.write(b"".join(map(record, datas)))
        file.flush()
        content = Path(file.name).read_bytes()
        with LocalFile(file.name).open() as source:
            found = [_joined(content[begin : begin + size]) for begin, size in find_records(source)]
    assert found == datas


def test_a_picture_that_holds_the_magic_word(tmp_path: Path) -> None:
    data = picture(1)
    head = struct.calcsize("<IfQQ")
    hold = data[:2] + b"\xff\xfe" + struct.pack(">H", 2 + 10) + b"\0\0" + MAGIC * 2 + data[2:]
    assert (head + hold.index(MAGIC)) % 4 == 0
    raw = record(image(1, 2.0, hold))
    assert raw.count(MAGIC) == 3
    (tmp_path / "a.rec").write_bytes(raw)
    with recordio_files(tmp_path / "a.rec") as samples:
        assert samples.sample(0)["jpg"] == hold


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"text that is no such file", "is no RecordIO file"),
        (b"\x0a\x23", "is no RecordIO file"),
        (record(image(1, 1.0))[:-8], "cut off in the record at byte 0"),
        (record(b"abcd") + b"\x0a\x23", "is cut off: no record begins at byte 12"),
        (record(b"abcd") + b"12345678", "is damaged: no record begins at byte 12"),
        (part(1, b"abcd"), "record at byte 0 has no end"),
        (part(3, b"abcd"), "part of kind 3 at byte 0"),
        (part(1, b"abcd") + part(0, b""), "part of kind 0 at byte 12"),
        (part(5, b"abcd"), "part of kind 5"),
    ],
)
def test_files_that_are_damaged(tmp_path: Path, data: bytes, words: str) -> None:
    (tmp_path / "a.rec").write_bytes(data)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(DataError, match=words):
        recordio_files(tmp_path / "a.rec")
    assert len(os.listdir("/proc/self/fd")) == before


def test_records_that_hold_no_picture_are_errors_of_the_sample(tmp_path: Path) -> None:
    nine = struct.pack("<IfQQ", 9, 0, 0, 0)
    with recordio_files(
        write(tmp_path / "a.rec", b"short", image(1, 1.0, b""), image(1, 1.0, b"words"), nine)
    ) as samples:
        for index, words in enumerate(["no header", "holds no picture", "a picture is expected", "has 9 labels"]):
            with pytest.raises(SampleError, match=words):
                samples.sample(index)


def test_an_idx_file_is_compared(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(tmp_path / "a.rec", image(1, 1.0), image(2, 2.0))
    (tmp_path / "a.idx").write_text("0\t0\n1\t100\n")
    recordio_files(path).close()
    assert not caplog.records
    (tmp_path / "a.idx").write_text("0\t0\n")
    recordio_files(path).close()
    assert "a.idx lists 1 records" in caplog.text


def test_fields_that_do_not_hold_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "a.rec", image(1, 1.0))
    for options in ({"label": "txt"}, {"ids": "json"}):
        with pytest.raises(UsageError, match="does not hold such numbers"):
            recordio_files(path, **options)  # type: ignore[arg-type]
    (tmp_path / "e.rec").touch()
    with pytest.raises(UsageError, match="no records"):
        recordio_files(tmp_path / "e.rec")


def test_pickles(tmp_path: Path) -> None:
    with recordio_files(write(tmp_path / "a.rec", image(1, 1.0), image(2, 2.0)), keys="hash") as samples:
        again: RecordIO = pickle.loads(pickle.dumps(samples))
        with again:
            assert again.sample(1) == samples.sample(1)
            assert again.fingerprint() == samples.fingerprint()
