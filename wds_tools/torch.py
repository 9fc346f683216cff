"""The `pt` and `pth` rows of the codec table: tensors as `torch.save` writes them. Imported by name on first use.

Read with `weights_only=True`: tensors and plain containers of them, no code. Written from the same, so that whatever is
written can be read back. A tensor that shows a part of a larger storage is copied first, since torch writes the whole
storage: one row of a batch would otherwise cost the whole batch.
"""

from __future__ import annotations

import io
from typing import Any

import torch

from wds_tools.errors import FieldError, FieldRefusedError
from wds_tools.sample import BytesLike

__all__ = ["decode_pt", "encode_pt"]

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def decode_pt(data: BytesLike) -> Any:
    """The tensor, or the containers of tensors, on the CPU.

    Raises:
        FieldError: damaged data, or anything that would need code to be run.
    """
    try:
        return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:
        words = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FieldError(f"torch data does not load without running code from it: {words}") from error


def encode_pt(value: object) -> bytes:
    """Write a tensor, or dicts, lists and tuples of tensors, numbers and text.

    Raises:
        FieldRefusedError: anything else.
    """
    target = io.BytesIO()
    torch.save(_compact(value), target)
    return target.getvalue()


def _compact(value: object) -> object:
    if isinstance(value, torch.Tensor):
        tensor = value.detach().cpu()
        whole = tensor.layout != torch.strided or tensor.untyped_storage().nbytes() == tensor.nbytes
        return tensor if whole else tensor.clone()
    if type(value) is dict:
        return {_compact(key): _compact(entry) for key, entry in value.items()}
    if type(value) in {list, tuple}:
        return type(value)(_compact(entry) for entry in value)  # type: ignore[call-arg, attr-defined]
    if type(value) in _PLAIN:
        return value
    raise FieldRefusedError(
        f"tensors and plain containers of them are expected, not {type(value).__name__}",
        cure="Use json, npy or msgpack.",
    )
