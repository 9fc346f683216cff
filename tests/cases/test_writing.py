"""Troubles with writers (B26, B38, B59): killed ones, values that do not come back, shards without samples."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import loaders
from loaders import ShardLoader
from shardwriter import ShardWriter, pack
from tests.builders import picture, write_shard
from tests.cases import inputs_writing as inputs
from wds_tools.codec import decode_field
from wds_tools.dataset import open_dataset
from wds_tools.errors import FieldRefusedError, TargetError, TruncatedShardError
from wds_tools.urls import expand

# B26


def whole_keys(folder: Path) -> list[str]:
    """The keys in what lies under final names, read by Python's tarfile."""
    keys = []
    for path in sorted(folder.glob("*.tar")):
        with tarfile.open(path) as archive:
            keys += [name.partition(".")[0] for name in archive.getnames() if name.endswith(".cls")]
        assert path.stat().st_size % 512 == 0
        assert path.read_bytes().endswith(bytes(1024))
    return keys


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_b26_a_killed_writer_leaves_whole_shards_under_final_names(tmp_path: Path, how: signal.Signals) -> None:
    # https://github.com/rom1504/img2dataset/issues/164
    command = [sys.executable, "-c", inputs.KILLED, str(tmp_path / "s-%03d.tar")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "now\n"
        writer.send_signal(how)
        writer.wait(60)
    keys = whole_keys(tmp_path)
    assert keys == [f"{n:05d}" for n in range(len(keys))]
    assert len(keys) in {12, 16}  # whole shards of four; the fourth may have been on its way to the disk
    assert expand(str(tmp_path)) == [str(path) for path in sorted(tmp_path.glob("s-*.tar"))]
    assert len(open_dataset(tmp_path)) == len(keys)
    with pytest.raises(TargetError), ShardWriter(tmp_path / "s-%03d.tar"):
        pass
    with ShardWriter(tmp_path / "s-%03d.tar", overwrite=True) as anew:
        anew.write({"__key__": "a", "cls": 1})
    assert sorted(os.listdir(tmp_path)) == ["dataset.json", "dataset.offsets.npy", "s-000.tar"]


def test_b26_an_exception_in_the_block_publishes_no_half_shard(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), ShardWriter(tmp_path / "s-%03d.tar", max_samples=2) as writer:
        for number in range(5):
            writer.write({"__key__": str(number), "cls": number})
        raise ZeroDivisionError
    assert sorted(os.listdir(tmp_path)) == ["s-000.tar", "s-001.tar"]
    assert whole_keys(tmp_path) == ["0", "1", "2", "3"]


PACK = """
import sys
from shardwriter import pack
def stop(done):
    if done and not stop.said:
        stop.said = True
        print("now", flush=True)
        sys.stdin.read()
stop.said = False
pack(sys.argv[1], sys.argv[2], max_samples=5, jobs=2, progress=stop)
"""


def test_b26_packing_goes_on_after_a_kill_with_the_same_bytes(tmp_path: Path) -> None:
    for number in range(40):
        path = tmp_path / "in" / f"c{number % 2}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number))
    pack(tmp_path / "in", tmp_path / "whole", max_samples=5)
    command = [sys.executable, "-c", PACK, str(tmp_path / "in"), str(tmp_path / "killed")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as packing:
        assert packing.stdout is not None
        assert packing.stdout.readline() == "now\n"
        packing.kill()
    pack(tmp_path / "in", tmp_path / "killed", max_samples=5)
    shards = sorted(path.name for path in (tmp_path / "whole").glob("*.tar"))
    assert len(shards) == 8
    for name in shards:
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert sorted(os.listdir(tmp_path / "killed")) == sorted(os.listdir(tmp_path / "whole"))


# B38


def same(found: Any, given: Any) -> bool:
    if isinstance(given, np.ndarray):
        return found.dtype == given.dtype and np.array_equal(found, given) and found.shape == given.shape
    if isinstance(given, dict) and any(isinstance(value, np.ndarray) for value in given.values()):
        return all(same(found[name], value) for name, value in given.items())
    return bool(found == (bytes(given) if isinstance(given, bytearray | memoryview) else given))


@pytest.mark.parametrize("name", inputs.returned())
def test_b38_values_come_back_as_they_were(tmp_path: Path, name: str) -> None:
    # https://github.com/webdataset/webdataset/issues/320
    field, value = inputs.returned()[name]
    with ShardWriter(tmp_path / "s-%03d.tar") as writer:
        writer.write({"__key__": "k", field: value})
    (sample,) = loaders.samples(tmp_path / "s-000.tar")
    data = sample[field]
    if field != "png":
        assert same(decode_field(field, data), value)
        return
    (tmp_path / "back.png").write_bytes(data)
    with Image.open(tmp_path / "back.png") as image:
        assert image.mode == (value.mode if isinstance(value, Image.Image) else "I;16")
        assert np.array_equal(np.asarray(image), np.asarray(value))


@pytest.mark.parametrize("name", inputs.refused())
def test_b38_what_would_not_come_back_is_refused_by_key_field_and_type(tmp_path: Path, name: str) -> None:
    field, value, words = inputs.refused()[name]
    with ShardWriter(tmp_path / "s-%03d.tar") as writer:
        with pytest.raises(FieldRefusedError) as caught:
            writer.write({"__key__": "k", "id": 7, field: value})
        writer.write({"__key__": "k", "id": 8})  # nothing of the refused sample is there, not even its key
    assert isinstance(caught.value, TypeError)
    assert caught.value.key == "k"
    assert f"key k, field {field}" in str(caught.value)
    assert words in str(caught.value)
    (sample,) = loaders.samples(tmp_path / "s-000.tar")
    assert bytes(sample["id"]) == b"8"


def test_b38_one_array_without_a_name_gets_the_one_that_numpy_gives_it(tmp_path: Path) -> None:
    with ShardWriter(tmp_path / "s-%03d.tar") as writer:
        writer.write({"__key__": "k", "npz": np.arange(3)})
    with loaders.open(tmp_path / "s-000.tar") as dataset:
        assert {name: array.tolist() for name, array in dataset[0]["npz"].items()} == {"arr_0": [0, 1, 2]}


# B59


def test_b59_nothing_is_made_before_the_first_sample(tmp_path: Path) -> None:
    # https://github.com/webdataset/webdataset/issues/376
    with ShardWriter(tmp_path / "out" / "s-%03d.tar") as writer:
        writer.sync()
        writer.sync()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("limits", "counts"),
    [
        ({"max_samples": 1}, [1] * 6),
        ({"max_samples": 3}, [3, 3]),  # and no empty one behind
        ({"max_samples": 4}, [4, 2]),
        ({"max_samples": None, "max_bytes": 1000}, [1] * 6),  # less than a single sample
        ({"max_samples": None, "max_bytes": 10_000}, [3, 3]),
        ({"max_samples": None, "max_bytes": None}, [6]),
    ],
)
def test_b59_shards_end_in_time_and_are_told_of_in_order(
    tmp_path: Path, limits: dict[str, Any], counts: list[int]
) -> None:
    told: list[str] = []
    with ShardWriter(tmp_path / "s-%03d.tar", on_shard=lambda path: told.append(path.name), **limits) as writer:
        for number in range(6):
            writer.write({"__key__": str(number), "bin": bytes(2000)})
    assert told == [f"s-{number:03d}.tar" for number in range(len(counts))] == sorted(told)
    assert [record.samples for record in writer.records] == counts
    if limits.get("max_bytes") == 10_000:
        assert max(path.stat().st_size for path in tmp_path.glob("*.tar")) <= 10_000


def test_b59_breaks_by_hand_leave_no_empty_shards(tmp_path: Path) -> None:
    with ShardWriter(tmp_path / "s-%03d.tar") as writer:
        for number in range(2):
            writer.sync()
            writer.write({"__key__": str(number), "cls": number})
            writer.sync()
            writer.sync()
    assert [record.samples for record in writer.records] == [1, 1]


def empty_shards(folder: Path) -> dict[str, Path]:
    """Archives that hold no sample."""
    for name, content in {"1024 zeros": bytes(1024), "10240 zeros": bytes(10240)}.items():
        (folder / f"{name}.tar").write_bytes(content)
    with tarfile.open(folder / "a folder.tar", "w") as archive:
        info = tarfile.TarInfo("only/")
        info.type = tarfile.DIRTYPE
        archive.addfile(info)
    return {path.stem: path for path in folder.glob("*.tar")}


def test_b59_shards_without_samples_are_read_as_such(tmp_path: Path) -> None:
    empty = empty_shards(tmp_path)
    assert len(empty) == 3
    for path in empty.values():
        assert list(loaders.samples(path)) == []
        with loaders.open(path) as dataset:
            assert len(dataset) == 0
    write_shard(tmp_path / "sound.tar", [(str(n), {"cls": b"%d" % n}) for n in range(4)])
    with ShardLoader(str(tmp_path), batch_size=4, fields=("cls",)) as loader:
        ((labels,),) = loader
    assert sorted(labels.tolist()) == [0, 1, 2, 3]


def test_b59_a_file_of_no_bytes_is_an_error_by_name_and_the_others_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.tar").touch()
    write_shard(tmp_path / "b.tar", [("0", {"cls": b"0"})])
    with pytest.raises(TruncatedShardError, match="0 bytes") as by_index:
        open_dataset(tmp_path)
    with pytest.raises(TruncatedShardError, match="0 bytes") as in_order:
        list(loaders.samples(str(tmp_path)))
    assert by_index.value.url == in_order.value.url == str(tmp_path / "a.tar")
    with loaders.samples(str(tmp_path), on_error="skip") as samples:
        assert [sample["__key__"] for sample in samples] == ["0"]
        assert samples.skipped == {"TruncatedShardError": 1}
