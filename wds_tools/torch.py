"""The `pt` and `pth` rows of the codec table: tensors as `torch.save` writes them. Imported by name on first use.

Read with `weights_only=True`: tensors and plain containers of them, no code. Written from the same, so that whatever is
written can be read back. A tensor that shows a part of a larger storage is copied first, since torch writes the whole
storage: one row of a batch would otherwise cost the whole batch.

That still lets a kilobyte claim gigabytes: of a zip that unpacks to them, and of a bytearray whose length the data
state. Both are refused.
"""

from __future__ import annotations

import io
import re
import zipfile
from typing import Any

import torch

from wds_tools.errors import FieldError, FieldRefusedError
from wds_tools.fields.gzipped import MAX_UNPACKED
from wds_tools.sample import BytesLike

__all__ = ["decode_pt", "encode_pt"]

_BYTEARRAY = re.compile(rb"c(?:builtins|__builtin__)\nbytearray\n")
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def decode_pt(data: BytesLike) -> Any:
    """The tensor, or the containers of tensors, on the CPU.

    Raises:
        FieldError: damaged data, anything that would need code to be run, or more than 1 GiB from less.
    """
    _check_size(data)
    try:
        return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:
        words = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FieldError(f"torch data does not load without running code from it: {words}") from error


def _check_size(data: BytesLike) -> None:
    pickled = [data]
    if bytes(data[:2]) == b"PK":
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                entries = archive.infolist()
                size = sum(entry.file_size for entry in entries)
                if size > max(MAX_UNPACKED, len(data)):
                    raise FieldError(f"torch data that unpack to {size:,} bytes, more than the limit")
                pickled = [archive.read(entry) for entry in entries if entry.filename.endswith("data.pkl")]
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
            cure = "It was cut off or damaged: copy it again, or save it anew."
            raise FieldError(f"torch data do not load: {error}", cure=cure) from error
    if any(_BYTEARRAY.search(each) for each in pickled):
        words = "torch data with a bytearray, whose size they may state freely"
        raise FieldError(words, cure="Store a tensor of uint8.")


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
