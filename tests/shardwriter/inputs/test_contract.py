"""What holds for every input, whatever it reads."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from shardwriter.inputs import (
    BaseInput,
    array_file,
    class_folders,
    flat_folder,
    from_iterable,
    manifest_file,
    open_shards,
    pattern_files,
    recordio_files,
    tfrecord_files,
)
from shardwriter.inputs.torch import torch_file
from shardwriter.keys import Keys
from tests.builders import picture, write_shard
from tests.shardwriter.inputs import test_recordio, test_tfrecord
from wds_tools.names import check_key

COUNT = 12
Make = Callable[[Path, Keys], BaseInput]


def _class_folders(root: Path, keys: Keys) -> BaseInput:
    for number in range(COUNT):
        path = root / "p" / "ab"[number % 2] / f"{number}.v1.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number))
    return class_folders(root / "p", keys=keys)


def _flat(root: Path, keys: Keys) -> BaseInput:
    (root / "f").mkdir(exist_ok=True)
    for number in range(COUNT):
        (root / f"f/{number}.jpg").write_bytes(picture(number))
        (root / f"f/{number}.txt").write_text(f"caption {number}")
    return flat_folder(root / "f", keys=keys)


def _csv(root: Path, keys: Keys) -> BaseInput:
    _flat(root, "path")
    rows = [f"f/{number}.jpg,{number % 3},words" for number in range(COUNT)]
    (root / "t.csv").write_text("\n".join(["image,label,caption", *rows]))
    return manifest_file(root / "t.csv", label="label", columns={"caption": "txt"}, keys=keys)


def _json(root: Path, keys: Keys) -> BaseInput:
    _flat(root, "path")
    rows = [{"image": f"f/{number}.jpg", "id": f"x/{number}.y", "meta": {"n": number}} for number in range(COUNT)]
    (root / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return manifest_file(root / "t.jsonl", key="id", columns={"meta": "json"}, keys=keys)


def _parquet(root: Path, keys: Keys) -> BaseInput:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    images = [{"bytes": picture(number), "path": f"{number}.jpg"} for number in range(COUNT)]
    parquet.write_table(arrow.table({"image": images, "label": list(range(COUNT))}), root / "t.parquet")
    return manifest_file(root / "t.parquet", label="label", keys=keys)


def _pattern(root: Path, keys: Keys) -> BaseInput:
    for number in range(COUNT):
        torch.save(torch.full((3, 4, 5), number, dtype=torch.uint8), root / f"a_{number}.pt")
        torch.save(torch.tensor(number), root / f"l_{number}.pt")
    return pattern_files({"png": "a_{}.pt", "cls": "l_{}.pt"}, root=root, keys=keys)


def _array(root: Path, keys: Keys) -> BaseInput:
    np.save(root / "x.npy", np.arange(COUNT * 60, dtype=np.uint8).reshape(COUNT, 4, 5, 3))
    np.save(root / "y.npy", np.arange(COUNT))
    return array_file(root / "x.npy", labels=root / "y.npy", keys=keys)


def _torch(root: Path, keys: Keys) -> BaseInput:
    torch.save([(torch.full((4, 5), number), number) for number in range(COUNT)], root / "many.pt")
    return torch_file(root / "many.pt", keys=keys)


def _shards(root: Path, keys: Keys) -> BaseInput:
    for shard in range(3):
        rows = [(f"s{shard}/{n}", {"jpg": picture(n), "cls": b"%d" % n}) for n in range(COUNT // 3)]
        write_shard(root / f"s-{shard}.tar", rows)
    return open_shards(str(root / "s-*.tar"), where="cls >= 0", keys=keys)


def _tfrecord(root: Path, keys: Keys) -> BaseInput:
    test_tfrecord.write(root / "t.tfrecord", *map(test_tfrecord.imagenet, range(COUNT)))
    return tfrecord_files(root / "t.tfrecord", key="image/filename", keys=keys)


def _recordio(root: Path, keys: Keys) -> BaseInput:
    test_recordio.write(root / "t.rec", *(test_recordio.image(number, float(number)) for number in range(COUNT)))
    return recordio_files(root / "t.rec", keys=keys)


def _rows() -> Iterator[dict[str, object]]:
    for number in range(COUNT):
        yield {"__key__": f"k/{number}", "cls": number, "txt": "words"}


def _generator(root: Path, keys: Keys) -> BaseInput:
    return from_iterable(_rows(), temporary=root, keys=keys)


def _list(root: Path, keys: Keys) -> BaseInput:
    return from_iterable(list(_rows()), keys=keys)


MAKERS = (
    _class_folders, _flat, _csv, _json, _parquet, _pattern, _array, _torch, _shards, _tfrecord, _recordio, _generator,
    _list,
)  # fmt: skip
every_input = pytest.mark.parametrize("make", MAKERS, ids=[make.__name__.strip("_") for make in MAKERS])
every_mode = pytest.mark.parametrize("keys", ["path", "number", "hash"])


@every_mode
@every_input
def test_keys_are_those_of_the_samples_and_differ(tmp_path: Path, make: Make, keys: Keys) -> None:
    with make(tmp_path, keys) as samples:
        assert len(samples) == COUNT
        found = [samples.key(index) for index in range(COUNT)]
        assert found == [samples.sample(index)["__key__"] for index in range(COUNT)]
        assert len(set(found)) == COUNT
        for key in found:
            check_key(key)


@every_mode
@every_input
def test_originals_and_names_tell_samples_apart(tmp_path: Path, make: Make, keys: Keys) -> None:
    with make(tmp_path, keys) as samples:
        assert len({samples.original(index) for index in range(COUNT)}) == COUNT
        assert len({samples.name(index) for index in range(COUNT)}) == COUNT


@every_input
def test_threads_get_what_one_thread_gets(tmp_path: Path, make: Make) -> None:
    places = [index % COUNT for index in range(20 * COUNT)]
    with make(tmp_path, "path") as samples, ThreadPoolExecutor(8) as pool:
        alone = [samples.sample(index) for index in range(COUNT)]
        assert list(pool.map(samples.sample, places)) == [alone[place] for place in places]


@every_input
def test_facts_and_fingerprints_are_json_and_the_same_again(tmp_path: Path, make: Make) -> None:
    with make(tmp_path, "path") as samples, make(tmp_path, "path") as again:
        said = json.dumps(samples.fingerprint())
        assert said == json.dumps(again.fingerprint())
        json.dumps(samples.facts())
    with make(tmp_path, "number") as other:
        assert json.dumps(other.fingerprint()) != said


@every_input
def test_closing_twice_does_nothing(tmp_path: Path, make: Make) -> None:
    samples = make(tmp_path, "path")
    samples.close()
    samples.close()


@pytest.mark.parametrize("make", [make for make in MAKERS if make not in {_parquet, _generator}])
def test_what_needs_no_temporary_file_can_go_to_another_process(tmp_path: Path, make: Make) -> None:
    with make(tmp_path, "path") as samples, pickle.loads(pickle.dumps(samples)) as again:
        assert [again.sample(index) for index in range(COUNT)] == [samples.sample(index) for index in range(COUNT)]
        assert again.fingerprint() == samples.fingerprint()


@pytest.mark.parametrize("make", [_parquet, _generator])
def test_what_lies_in_a_temporary_file_says_that_it_cannot(tmp_path: Path, make: Make) -> None:
    from wds_tools.errors import UsageError

    with make(tmp_path, "path") as samples, pytest.raises(UsageError, match="another process"):
        pickle.dumps(samples)
