"""Troubles with labels and metadata (B45 to B56): samples that differ, text in other encodings, code in data."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import loaders
from loaders import ShardLoader
from shardwriter import ShardWriter
from tests.builders import picture, write_shard
from tests.cases import inputs_fields as inputs
from wds_tools.codec import decode_field
from wds_tools.errors import BatchError, FieldError, FieldRefusedError, MissingFieldError, ShardstreamError


def shard(folder: Path, rows: Mapping[str, Mapping[str, bytes]]) -> Path:
    return write_shard(folder / "f.tar", rows.items())


def batches(path: Path, **options: Any) -> list[Any]:
    with ShardLoader(path, **{"batch_size": 3, "shuffle": False, "threads": 1, **options}) as loader:
        return list(loader)


# B45


def test_b45_raw_samples_have_what_is_there(tmp_path: Path) -> None:
    # https://github.com/huggingface/datasets/issues/7055
    rows = inputs.uneven()
    read = {s["__key__"]: sorted(set(s) - {"__key__", "__url__"}) for s in loaders.samples(shard(tmp_path, rows))}
    assert read == {key: sorted(fields) for key, fields in rows.items()}


def test_b45_a_missing_field_is_an_error_by_key_a_none_or_a_skipped_sample(tmp_path: Path) -> None:
    path = shard(tmp_path, inputs.uneven())
    with pytest.raises(MissingFieldError) as caught:
        batches(path, fields=("1.jpg", "json"))
    assert caught.value.key == "2"
    assert "no field 'json', only 1.jpg" in str(caught.value)
    assert '"txt?"' in str(caught.value)  # how to say that it may be missing
    first, _ = batches(path, fields=("__key__", "json?", "npy?"))
    assert [value is None for value in first[1]] == [False, False, True]
    assert first[2] == [None, None, None]
    kept = batches(path, fields=("__key__", "json"), on_error="skip", tail="exact")
    assert [key for batch in kept for key in batch[0]] == ["0", "1", "3", "4", "5"]


def test_b45_arrays_that_do_not_fit_together_are_named(tmp_path: Path) -> None:
    rows = {str(n): {"npy": inputs.npy(np.zeros((3, 2 + (n == 2)), np.float32))} for n in range(3)}
    with pytest.raises(BatchError) as caught:
        batches(shard(tmp_path, rows), fields=("npy",))
    for words in ("(3, 2)", "(3, 3)", "npy", "collate"):
        assert words in str(caught.value)
    assert "2" in str(caught.value)


# B50


@pytest.mark.parametrize("name", inputs.texts())
def test_b50_text_is_utf8_and_what_is_not_is_named_by_its_looks(tmp_path: Path, name: str) -> None:
    # https://github.com/rom1504/img2dataset/issues/46
    data, expected = inputs.texts()[name]
    path = shard(tmp_path, {"k": {"txt": data}})
    if not name.startswith("!"):
        (batch,) = batches(path, batch_size=1, fields=("txt",))
        assert batch.txt == [expected]
        return
    with pytest.raises(FieldError) as caught:
        batches(path, batch_size=1, fields=("txt",))
    assert (caught.value.key, caught.value.field, caught.value.url) == ("k", "txt", str(path))
    assert expected in str(caught.value)
    assert "Convert the text to UTF-8" in str(caught.value)


def test_b50_other_encodings_are_read_by_a_function_of_the_users(tmp_path: Path) -> None:
    path = shard(tmp_path, {"k": {"caption.bin": b"caf\xe9"}})

    def decoded(sample: dict[str, Any]) -> dict[str, Any]:
        return {"caption": sample["caption_bin"].decode("latin-1")}

    (batch,) = batches(path, batch_size=1, fields=("caption.bin",), transform=decoded)
    assert batch.caption == ["café"]


@pytest.mark.parametrize("name", inputs.jsons())
def test_b50_json_is_an_object_or_an_error_of_its_sample(tmp_path: Path, name: str) -> None:
    data, expected = inputs.jsons()[name]
    path = shard(tmp_path, {"k": {"json": data}})
    if name.startswith("!"):
        with pytest.raises(FieldError) as caught:
            batches(path, batch_size=1, fields=("json",))
        assert (caught.value.key, caught.value.field) == ("k", "json")
    else:
        with loaders.open(path) as dataset:
            assert repr(dataset[0]["json"]) == repr(expected)  # NaN is not equal to itself


def test_b50_a_number_beyond_64_bits_is_named_in_a_short_message(tmp_path: Path) -> None:
    path = shard(tmp_path, {"k": {"json": inputs.jsons()["a number of 401 digits"][0]}})
    with pytest.raises(BatchError, match="the number of 1,329 bits does not fit into 64 bits") as caught:
        batches(path, batch_size=1, fields=("json",))
    assert (caught.value.key, caught.value.field) == ("k", "json")
    assert len(str(caught.value)) < 250


def test_b50_a_caption_that_is_no_text_is_refused_before_anything_of_its_sample_is_written(tmp_path: Path) -> None:
    with ShardWriter(tmp_path / "w-%03d.tar") as writer:
        for value in (None, float("nan")):
            with pytest.raises(FieldRefusedError, match=r"key k, field txt"):
                writer.write({"__key__": "k", "cls": 1, "txt": value})
        with pytest.raises(FieldRefusedError, match="json"):
            writer.write({"__key__": "k", "json": {"caption": float("nan")}})
        writer.write({"__key__": "k", "txt": ""})
    with loaders.open(tmp_path / "w-000.tar") as dataset:
        assert (len(dataset), dataset[0]["txt"]) == (1, "")


# B56


@pytest.mark.parametrize("field", [*inputs.CODE, "jpg.pkl", "pkl.gz"])
def test_b56_nothing_runs_whatever_reads_it(tmp_path: Path, field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # https://github.com/webdataset/webdataset/issues/490
    monkeypatch.chdir(tmp_path)
    path = shard(tmp_path, {"0": {field: inputs.code(field)}})
    with loaders.open(path) as dataset, pytest.raises(ShardstreamError):
        dataset[0][field]
    with pytest.raises(FieldError) as caught:
        batches(path, batch_size=1, fields=(field,))
    assert (caught.value.key, caught.value.field) == ("0", field)
    for collate in (None, list):
        with pytest.raises(ShardstreamError):
            batches(path, batch_size=1, fields=(field,), collate=collate)
    assert not (tmp_path / inputs.TOUCHED).exists()


def test_b56_the_input_is_dangerous_and_may_be_read_by_who_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = inputs.code("pkl")
    with pytest.raises(FieldError, match="allow_pickle=True"):
        decode_field("pkl", data)
    assert decode_field("pkl", pickle.dumps({"a": 1}), allow_pickle=True) == {"a": 1}
    decode_field("pkl", data, allow_pickle=True)
    assert (tmp_path / inputs.TOUCHED).exists()


def test_b56_tensors_and_arrays_without_code_are_read(tmp_path: Path) -> None:
    tensor = io.BytesIO()
    torch.save({"x": torch.arange(3)}, tensor)
    arrays = io.BytesIO()
    np.savez(arrays, a=np.arange(3))
    assert zipfile.is_zipfile(arrays)
    path = shard(tmp_path, {"0": {"pth": tensor.getvalue(), "npz": arrays.getvalue(), "jpg": picture(0)}})
    with loaders.open(path) as dataset:
        assert dataset[0]["pth"]["x"].tolist() == [0, 1, 2]
        assert dataset[0]["npz"]["a"].tolist() == [0, 1, 2]


def test_b56_pickles_are_not_written_either(tmp_path: Path) -> None:
    with ShardWriter(tmp_path / "w-%03d.tar") as writer:
        for field in ("pkl", "pyd", "pickle"):
            with pytest.raises(FieldRefusedError, match="may run anything"):
                writer.write({"__key__": "k", field: {"a": 1}})
        with pytest.raises(FieldRefusedError, match="object"):
            writer.write({"__key__": "k", "npy": np.array([{}, None], dtype=object)})
        writer.write({"__key__": "k", "json": json.loads("{}")})
