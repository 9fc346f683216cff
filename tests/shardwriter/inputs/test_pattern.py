import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shardwriter.inputs.pattern import PatternFiles, pattern_files
from wds_tools.codec import decode_field
from wds_tools.errors import FieldError, FieldRefusedError, KeyRefusedError, MissingFieldError, UsageError

TRIPLE = {"a": "train_A_images_{}.pt", "b": "train_B_images_{}.pt", "cls": "train_labels_{}.pt"}


def save_triples(folder: Path, *ids: object) -> None:
    for number, name in enumerate(ids):
        torch.save(torch.full((3, 4, 5), number, dtype=torch.uint8), folder / f"train_A_images_{name}.pt")
        torch.save(torch.full((3, 4, 5), number + 100, dtype=torch.uint8), folder / f"train_B_images_{name}.pt")
        torch.save(torch.tensor(number), folder / f"train_labels_{name}.pt")


def npy(array: np.ndarray[Any, Any]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def test_triples_of_pt_files_become_samples_in_natural_order(tmp_path: Path, packed: Callable[..., Any]) -> None:
    save_triples(tmp_path, 1, 2, 10)
    samples = pattern_files(TRIPLE, root=tmp_path)
    assert samples.fields == ("a.pt", "b.pt", "cls")
    done = packed(samples)
    assert list(done.rows) == ["1", "2", "10"]
    assert done.rows["10"]["cls"] == b"2"
    assert done.rows["10"]["a.pt"] == (tmp_path / "train_A_images_10.pt").read_bytes()
    assert not done.failures


def test_tensors_can_become_arrays_and_pictures(tmp_path: Path) -> None:
    save_triples(tmp_path, "x")
    fields = {"a.npy": TRIPLE["a"], "png": TRIPLE["b"], "cls": TRIPLE["cls"]}
    sample = pattern_files(fields, root=tmp_path).sample(0)
    array = decode_field("npy", sample["a.npy"])
    assert (getattr(array, "shape", None), getattr(array, "dtype", None)) == ((3, 4, 5), np.uint8)
    shown = decode_field("png", sample["png"])
    assert np.array_equal(shown, np.full((4, 5, 3), 100))  # type: ignore[arg-type]
    last = pattern_files(fields, root=tmp_path, layout="chw").sample(0)
    assert decode_field("npy", last["a.npy"]).shape == (4, 5, 3)  # type: ignore[attr-defined]


def test_ids_may_be_folders(tmp_path: Path, fill: Callable[..., Path]) -> None:
    fill(tmp_path, {"s/01/x.npy": npy(np.arange(3)), "s/02/x.npy": npy(np.arange(4)), "s/03/other.npy": b""})
    samples = pattern_files({"x": f"{tmp_path}/s/{{}}/x.npy"})
    assert [samples.key(index) for index in range(len(samples))] == ["01", "02"]
    assert samples.sample(1)["x.npy"] == npy(np.arange(4))


def test_an_id_that_one_pattern_lacks_is_reported(tmp_path: Path, packed: Callable[..., Any]) -> None:
    save_triples(tmp_path, 1, 2, 3)
    (tmp_path / "train_A_images_1.pt").unlink()
    (tmp_path / "train_labels_3.pt").unlink()
    done = packed(pattern_files(TRIPLE, root=tmp_path))
    assert list(done.rows) == ["2"]
    first, second = done.failures
    assert f"there is no {tmp_path}/train_A_images_1.pt" in first
    assert f"there is no {tmp_path}/train_labels_3.pt" in second


def test_optional_fields_may_be_missing(tmp_path: Path) -> None:
    save_triples(tmp_path, 1, 2)
    (tmp_path / "train_labels_1.pt").unlink()
    samples = pattern_files({"a": TRIPLE["a"], "cls?": TRIPLE["cls"]}, root=tmp_path)
    assert [set(samples.sample(index)) for index in range(2)] == [{"__key__", "a.pt"}, {"__key__", "a.pt", "cls"}]
    with pytest.raises(UsageError, match="no field is required"):
        pattern_files({"cls?": TRIPLE["cls"]}, root=tmp_path)


class Module:
    """What users save by accident: an object of their own."""


def test_a_file_that_needs_code_or_was_cut_is_refused_with_its_cure(tmp_path: Path) -> None:
    torch.save({"image": Module()}, tmp_path / "a_1.pt")
    (tmp_path / "a_2.pt").write_bytes(b"not torch at all")
    torch.save(torch.zeros(3), tmp_path / "a_3.pt")
    (tmp_path / "a_3.pt").write_bytes((tmp_path / "a_3.pt").read_bytes()[:200])
    samples = pattern_files({"a": "a_{}.pt"}, root=tmp_path)
    code, cut = r"without running code.*weights_only=False", r"File is not a zip file.*It was cut off or damaged"
    for index, words in enumerate((code, code, cut)):
        with pytest.raises(FieldError, match=words) as caught:
            samples.sample(index)
        assert caught.value.url == f"{tmp_path}/a_{index + 1}.pt"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (torch.tensor(3.0), "whole number"),
        (torch.tensor([1, 2]), "whole number"),
        (torch.tensor([], dtype=torch.int64), "whole number"),
        (torch.tensor(1.0, dtype=torch.bfloat16), "BFloat16|bfloat16"),
        ({"label": 3}, "whole number"),
        (True, "whole number"),
    ],
)
def test_labels_that_are_no_whole_numbers_are_refused(tmp_path: Path, value: object, words: str) -> None:
    torch.save(value, tmp_path / "l_1.pt")
    with pytest.raises((FieldError, FieldRefusedError), match=words):
        pattern_files({"cls": "l_{}.pt"}, root=tmp_path).sample(0)


def test_labels_of_one_element_are_numbers_whatever_their_shape(tmp_path: Path) -> None:
    torch.save(torch.tensor([[7]], dtype=torch.int32), tmp_path / "l_1.pt")
    torch.save(-2, tmp_path / "l_2.pt")
    (tmp_path / "n_1.npy").write_bytes(npy(np.array(5, np.uint8)))
    samples = pattern_files({"cls": "l_{}.pt"}, root=tmp_path)
    assert [samples.sample(index)["cls"] for index in range(2)] == [b"7", b"-2"]
    assert pattern_files({"cls": "n_{}.npy"}, root=tmp_path).sample(0)["cls"] == b"5"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"a": "train_A.pt"}, "must hold {} once"),
        ({"a": "{}_{}.pt"}, "must hold {} once"),
        ({"a": "nothing_{}.pt"}, "no file matches"),
        ({"a": "nowhere/{}.pt"}, "no folder"),
        ({"a": "train_A_images_{}.pt", "a.pt": "train_B_images_{}.pt"}, "same field"),
        ({"a": "train_A_images_{}.pt", "b": "train_B_{}.pt"}, "no id in common.*'1'.*'images_1'"),
    ],
)
def test_patterns_that_cannot_be_are_refused(tmp_path: Path, fields: dict[str, str], words: str) -> None:
    save_triples(tmp_path, 1)
    with pytest.raises(UsageError, match=words):
        pattern_files(fields, root=tmp_path)


def test_ids_with_dots_are_keys_unless_they_become_equal(tmp_path: Path, fill: Callable[..., Path]) -> None:
    fill(tmp_path, {"1.5.txt": b"", "1_5.txt": b"", "2.txt": b""})
    with pytest.raises(KeyRefusedError, match=r"1\.5\.txt and .*1_5\.txt"):
        pattern_files({"txt": "{}.txt"}, root=tmp_path)
    samples = pattern_files({"txt": "{}.txt"}, root=tmp_path, keys="number")
    assert (samples.renamed, samples.original(0), samples.key(2)) == (True, "1.5", "00000002")


@given(st.lists(st.from_regex(r"[a-c0-2]{1,3}", fullmatch=True), min_size=1, unique=True))
def test_every_id_comes_once_and_numbers_rise(names: list[str]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            (Path(folder) / f"{name}.txt").touch()
        samples = pattern_files({"txt": "{}.txt"}, root=folder)
        found = [samples.original(index) for index in range(len(samples))]
    assert sorted(found) == sorted(names)
    numbers = [int(name) for name in found if name.isdecimal()]
    assert numbers == sorted(numbers)


def test_pickles_and_has_a_fingerprint(tmp_path: Path) -> None:
    save_triples(tmp_path, 1, 2)
    samples = pattern_files(TRIPLE, root=tmp_path)
    again: PatternFiles = pickle.loads(pickle.dumps(samples))
    assert again.sample(1) == samples.sample(1)
    save_triples(tmp_path, 3)
    other = pattern_files(TRIPLE, root=tmp_path).fingerprint()
    assert {name for name in other if other[name] != samples.fingerprint()[name]} == {"samples", "names"}


def test_a_missing_file_is_an_error_of_the_sample(tmp_path: Path) -> None:
    save_triples(tmp_path, 1)
    samples = pattern_files(TRIPLE, root=tmp_path)
    (tmp_path / "train_B_images_1.pt").unlink()
    with pytest.raises(MissingFieldError, match=r"train_B_images_1\.pt"):
        samples.sample(0)
