from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from wds_tools.errors import FieldError, FieldRefusedError
from wds_tools.torch import decode_pt, encode_pt


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(12).reshape(3, 4),
        torch.arange(12).reshape(3, 4).T,
        torch.tensor(3.5),
        torch.zeros(0, 2),
        torch.ones(3, dtype=torch.bfloat16),
        torch.ones(2, dtype=torch.bool),
    ],
)
def test_tensors_come_back(tensor: torch.Tensor) -> None:
    decoded = decode_pt(memoryview(encode_pt(tensor)))
    assert decoded.dtype == tensor.dtype
    assert torch.equal(decoded, tensor)


def test_containers_of_tensors_come_back() -> None:
    value: dict[str, Any] = {"boxes": torch.ones(2, 4), "more": [torch.zeros(1), (1, 2.5, "text", None, True)]}
    decoded = decode_pt(encode_pt(value))
    assert torch.equal(decoded["boxes"], value["boxes"])
    assert decoded["more"][1] == value["more"][1]


def test_a_part_of_a_large_tensor_is_written_alone() -> None:
    row = torch.zeros(1000, 1000)[3]
    assert len(encode_pt(row)) < 10_000
    assert torch.equal(decode_pt(encode_pt(row)), row)


def test_gradients_are_left_behind() -> None:
    decoded = decode_pt(encode_pt(torch.ones(2, requires_grad=True)))
    assert not decoded.requires_grad


@pytest.mark.parametrize("value", [object(), {"a": {1, 2}}, torch.nn.Linear(1, 1), [lambda: 0]])
def test_what_would_need_code_is_not_written(value: Any) -> None:
    with pytest.raises(FieldRefusedError, match="plain containers"):
        encode_pt(value)


class _Payload:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path(self.path),)


def test_code_in_the_data_does_not_run(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    target = io.BytesIO()
    torch.save(_Payload(str(trace)), target)
    for data in (target.getvalue(), pickle.dumps(_Payload(str(trace))), b"", b"nothing"):
        with pytest.raises(FieldError, match="torch data"):
            decode_pt(data)
    assert not trace.exists()
