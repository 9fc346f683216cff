import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from shardwriter.inputs.torch import TorchFile, torch_file
from wds_tools.codec import decode_field
from wds_tools.errors import DataError, FieldError, MissingFieldError, UsageError


def images(count: int) -> torch.Tensor:
    return torch.arange(count * 3 * 4 * 5, dtype=torch.int64).remainder(251).to(torch.uint8).reshape(count, 3, 4, 5)


def save(path: Path, value: object, **options: Any) -> Path:
    torch.save(value, path, **options)
    return path


PAIRS = [(image, torch.tensor(number)) for number, image in enumerate(images(4))]
VALUES = {
    "list of tuples": PAIRS,
    "list of lists with numbers": [[image, number] for number, (image, _) in enumerate(PAIRS)],
    "tuple of tensors": (images(4), torch.arange(4)),
    "tuple of a tensor and a list": (images(4), [0, 1, 2, 3]),
    "tuple of tuples": tuple(PAIRS),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_pairs_become_arrays_and_labels(tmp_path: Path, value: object, packed: Callable[..., Any]) -> None:
    with torch_file(save(tmp_path / "a.pt", value)) as samples:
        done = packed(samples, shuffle=True)
    assert sorted(done.rows) == [f"{n:08d}" for n in range(4)]
    for number in range(4):
        row = done.rows[f"{number:08d}"]
        assert row["cls"] == b"%d" % number
        assert np.array_equal(decode_field("npy", row["npy"]), images(4)[number].numpy())  # type: ignore[arg-type]


def test_names_become_fields(tmp_path: Path) -> None:
    rows = [{"image": image, "label": number, "text": f"t{number}"} for number, image in enumerate(images(3))]
    del rows[1]["text"]
    fields = {"image": "png", "label": "cls", "text": "txt?"}
    samples = torch_file(save(tmp_path / "a.pt", rows), fields=fields)
    sample = samples.sample(2)
    shown = decode_field("png", sample["png"])
    assert np.array_equal(shown, images(3)[2].permute(1, 2, 0).numpy())  # type: ignore[arg-type]
    assert (sample["cls"], sample["txt"], "txt" in samples.sample(1)) == (b"2", b"t2", False)
    with pytest.raises(MissingFieldError, match="no 'text'"):
        torch_file(tmp_path / "a.pt", fields={"image": "png", "text": "txt"}).sample(1)


def test_columns_by_name_that_are_fields_need_no_words(tmp_path: Path) -> None:
    value = {"npy": images(3), "cls": torch.tensor([5, 6, 7])}
    samples = torch_file(save(tmp_path / "a.pt", value), layout="chw")
    assert [samples.sample(n)["cls"] for n in range(3)] == [b"5", b"6", b"7"]
    assert decode_field("npy", samples.sample(0)["npy"]).shape == (4, 5, 3)  # type: ignore[attr-defined]


def test_tensors_can_stay_tensors(tmp_path: Path) -> None:
    samples = torch_file(save(tmp_path / "a.pt", images(3)), fields={"0": "a.pt"})
    assert torch.equal(decode_field("pt", samples.sample(1)["a.pt"]), images(3)[1])  # type: ignore[arg-type]
    assert len(samples.sample(1)["a.pt"]) < 3000


def test_several_files_are_one_behind_the_other(tmp_path: Path) -> None:
    save(tmp_path / "a.pt", PAIRS[:3])
    save(tmp_path / "b.pt", PAIRS[3:], _use_new_zipfile_serialization=False)
    samples = torch_file(tmp_path)
    assert [samples.sample(n)["cls"] for n in range(4)] == [b"0", b"1", b"2", b"3"]
    assert samples.name(3) == f"{tmp_path}/b.pt[0]"
    again: TorchFile = pickle.loads(pickle.dumps(samples))
    assert again.sample(3) == samples.sample(3)
    assert again.fingerprint() == samples.fingerprint()


class Custom:
    """What users save by accident."""


def test_what_needs_code_is_refused_with_the_cure(tmp_path: Path) -> None:
    for value in ([(torch.zeros(2), Custom())], Custom()):
        with pytest.raises(DataError, match=r"without running code.*weights_only=False"):
            torch_file(save(tmp_path / "a.pt", value))
    (tmp_path / "a.pt").write_bytes(b"no torch")
    with pytest.raises(DataError, match="does not load"):
        torch_file(tmp_path / "a.pt")


@pytest.mark.parametrize(
    ("value", "options", "error", "words"),
    [
        (3, {}, DataError, "holds a int, and no samples"),
        ([], {}, DataError, "holds a list"),
        ({"a": images(2), "b": torch.zeros(3)}, {}, DataError, r"no columns of one length .*a: Tensor \(2, 3, 4, 5\)"),
        ({"state": {"w": images(1)}}, {}, DataError, "no columns"),
        ([(1, 2, 3)], {}, UsageError, r"cannot be seen: '0', '1', '2'.*--column image=npy"),
        (PAIRS, {"fields": {"2": "cls"}}, UsageError, "have no '2'.*There are '0', '1'"),
        (PAIRS, {"fields": {"0": "Npy"}}, UsageError, "upper-case"),
    ],
)
def test_what_holds_no_samples_is_said(
    tmp_path: Path, value: object, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        torch_file(save(tmp_path / "a.pt", value), **options)


@pytest.mark.parametrize(
    ("value", "field", "words"),
    [
        (torch.tensor(1.5), "cls", "whole number"),
        (torch.zeros(2, dtype=torch.bfloat16), "npy", r"bfloat16.*\.float\(\)"),
        (torch.zeros(2, 2).to_sparse(), "npy", r"\.to_dense\(\)"),
    ],
)
def test_tensors_that_do_not_fit_are_errors_of_the_sample(
    tmp_path: Path, value: torch.Tensor, field: str, words: str
) -> None:
    samples = torch_file(save(tmp_path / "a.pt", [[value]]), fields={"0": field})
    with pytest.raises(FieldError, match=words):
        samples.sample(0)
