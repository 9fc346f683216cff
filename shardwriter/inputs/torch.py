"""One .pt file that holds many samples: a list of tuples or dicts, a tuple or dict of tensors of one length.

    torch_file("train.pt", fields={"0": "png", "1": "cls"})            [(image, label), ...] or (images, labels)
    torch_file("train.pt", fields={"image": "npy", "label": "cls"})    [{"image": ..., "label": ...}, ...] or a dict

- The file is loaded with `weights_only`: tensors, numbers, text and containers of them. What needs a pickle is refused
  with the cure. Storages are mapped from the file where it is in torch's zip format, so that images do not take memory.
- `fields` says which position or name becomes which field; `?` behind the field: some samples lack it. Without it
  names that are fields already (cls, jpg, npy, ...) are taken, and pairs are an image and its label: `npy` and `cls`.
- Tensors become numpy arrays, then what the field holds (see `values`): a label's tensor its number, uint8 images
  pictures, anything `npy`.
- Keys are numbers, or hashes of the file's name and the number. Of several files the samples are one behind the other.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import torch

from shardwriter.inputs.base import BaseInput, path_shown
from shardwriter.inputs.records import Files, files_of
from shardwriter.inputs.values import NEEDS_CODE, Layout, check_layout, encoded
from shardwriter.keys import Keys, check_keys, key_of
from wds_tools.codec import kind_of
from wds_tools.errors import DataError, FieldError, MissingFieldError, ShardstreamError, UsageError, there_are
from wds_tools.names import check_field
from wds_tools.sample import KEY, Sample

__all__ = ["TorchFile", "torch_file"]


class TorchFile(BaseInput):
    """The samples inside of .pt files, as `torch_file` loaded them."""

    def __init__(
        self,
        paths: Sequence[str],
        tables: Sequence[_Table],
        fields: Mapping[str, str],
        *,
        keys: Keys,
        layout: Layout | None,
    ) -> None:
        self._paths = tuple(paths)
        self._tables = tuple(tables)
        self._ends = list(accumulate(map(len, tables)))
        self._fields = dict(fields)
        self._keys = check_keys(keys)
        self._layout = check_layout(layout)

    def __len__(self) -> int:
        return self._ends[-1]

    def name(self, index: int) -> str:
        number, place = self._place(index)
        return f"{self._paths[number]}[{place}]"

    def original(self, index: int) -> str:
        number, place = self._place(index)
        return f"{os.path.basename(self._paths[number])}[{place}]"  # noqa: PTH119 - text, not a Path

    def key(self, index: int) -> str:
        return key_of("hash" if self._keys == "hash" else "number", index, len(self), self.original(index), str)

    def sample(self, index: int) -> Sample:
        number, place = self._place(index)
        values = self._tables[number][place]
        sample: Sample = {KEY: self.key(index)}
        for name, text in self._fields.items():
            field = text.removesuffix("?")
            value = values.get(name)
            if value is None:
                if text.endswith("?"):
                    continue
                raise MissingFieldError(f"there is no {name!r}", field=field, cure=there_are(values))
            try:
                sample[field] = encoded(field, _plain(field, value), self._layout)
            except ShardstreamError as error:
                raise error.at(field=field) from error.__cause__
        return sample

    def fingerprint(self) -> Mapping[str, object]:
        status = [os.stat(path) for path in self._paths]  # noqa: PTH116 - text, not a Path
        return {
            "input": "torch",
            "files": [
                [os.path.abspath(path), each.st_size, each.st_mtime_ns]  # noqa: PTH100 - as above
                for path, each in zip(self._paths, status, strict=True)
            ],
            "samples": len(self),
            "fields": self._fields,
            "keys": self._keys,
            "layout": self._layout,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        """Loaded anew where it arrives: the tensors of a pickle would be copies of the files."""
        return _loaded, (self._paths, self._fields, self._keys, self._layout)

    def _place(self, index: int) -> tuple[int, int]:
        number = bisect_right(self._ends, index)
        return number, index - (self._ends[number - 1] if number else 0)


def torch_file(
    paths: Files,
    *,
    fields: Mapping[str, str] | None = None,
    keys: Keys = "path",
    layout: Layout | None = None,
    progress: Callable[[int], object] | None = None,
) -> TorchFile:
    """Load .pt files that hold many samples each; see the module for the rules.

    Args:
        paths: a file, a pattern, a folder, or a list of these.
        fields: positions ("0", "1") or names to fields.
        keys: "path" and "number" count the samples; "hash" hashes the file's name and the number.
        layout: where the channels of images lie: "chw", "hwc", or None, see `values`.
        progress: called with the number of samples of each file.

    Raises:
        UsageError: no such files, or fields that the samples do not have.
        DataError: a file that needs a pickle, or holds no samples.
    """
    files = files_of(paths, (".pt", ".pth"))
    tables = []
    for path in files:
        tables.append(_table(path, _load(path)))
        if progress is not None:
            progress(len(tables[-1]))
    chosen = _usual(tables[0][0], files[0]) if fields is None else fields
    for name, field in chosen.items():
        check_field(field.removesuffix("?"))
        if not field.endswith("?") and name not in tables[0][0]:
            raise UsageError(
                f"the samples of {path_shown(files[0])} have no {name!r}",
                cure=there_are(map(repr, tables[0][0])),
            )
    return TorchFile(files, tables, chosen, keys=keys, layout=layout)


def _loaded(paths: tuple[str, ...], fields: dict[str, str], keys: Keys, layout: Layout | None) -> TorchFile:
    return torch_file(paths, fields=fields, keys=keys, layout=layout)


class _Table:
    """Samples by number: as rows of a list, or as columns of one length."""

    def __init__(self, rows: Sequence[Any] | None, columns: Mapping[str, Any] | None) -> None:
        self._rows = rows
        self._columns = columns or {}
        self._length = len(next(iter(self._columns.values()))) if rows is None else len(rows)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> dict[str, Any]:
        if self._rows is None:
            return {name: column[index] for name, column in self._columns.items()}
        return _parts(self._rows[index])


def _parts(row: Any) -> dict[str, Any]:
    """The values of one sample by name or position."""
    if isinstance(row, Mapping):
        return {str(name): value for name, value in row.items()}
    values = row if isinstance(row, list | tuple) else [row]
    return {str(at): value for at, value in enumerate(values)}


def _load(path: str) -> Any:
    try:
        try:
            return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except RuntimeError as error:
            if "mmap" not in str(error):
                raise
            return torch.load(path, map_location="cpu", weights_only=True)  # before torch 1.6: no zip, no mapping
    except Exception as error:
        words = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(
            f"{path_shown(path)} does not load without running code from it: {words:.200}", cure=NEEDS_CODE
        ) from error


def _table(path: str, value: Any) -> _Table:
    if isinstance(value, Mapping):
        return _columns(path, {str(name): column for name, column in value.items()})
    if isinstance(value, tuple) and len(value) > 1 and _equal(value):
        return _columns(path, _parts(value))
    if isinstance(value, torch.Tensor) and value.ndim:
        return _columns(path, {"0": value})
    if isinstance(value, list | tuple) and value:
        return _Table(value, None)
    raise DataError(
        f"{path_shown(path)} holds a {type(value).__name__}, and no samples",
        cure="A list of tuples or dicts is expected, or tensors of one length.",
    )


def _equal(columns: Sequence[Any]) -> bool:
    """Whether these are columns: tensors or lists of one length."""
    whole = all(isinstance(each, list) or (isinstance(each, torch.Tensor) and each.ndim) for each in columns)
    return whole and len({len(each) for each in columns}) == 1


def _columns(path: str, columns: dict[str, Any]) -> _Table:
    if not columns or not _equal(list(columns.values())) or not len(next(iter(columns.values()))):
        kinds = ", ".join(f"{name}: {_words(column)}" for name, column in columns.items())
        raise DataError(
            f"{path_shown(path)} holds no columns of one length ({kinds:.200})",
            cure="A list of tuples or dicts is expected, or tensors that all have a row a sample.",
        )
    return _Table(None, columns)


def _words(value: Any) -> str:
    return f"{type(value).__name__} {tuple(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__


def _usual(row: Mapping[str, Any], path: str) -> dict[str, str]:
    """What the fields are where nobody says it."""
    if list(row) == ["0", "1"]:
        return {"0": "npy", "1": "cls"}
    if row and all(kind_of(name) != "bytes" for name in row):
        return {name: name for name in row}
    raise UsageError(
        f"which fields the samples of {path_shown(path)} have cannot be seen: {', '.join(map(repr, row))}",
        cure="Say it, as in fields={'image': 'npy', 'label': 'cls'} (--column image=npy --column label=cls).",
    )


def _plain(field: str, value: Any) -> Any:
    """A tensor as an array; for pt fields, and without tensors, the value as it is."""
    if not isinstance(value, torch.Tensor) or kind_of(field) == "pt":
        return value
    try:
        return value.detach().cpu().resolve_conj().resolve_neg().numpy()
    except (TypeError, RuntimeError) as error:
        raise FieldError(
            f"a tensor of {value.dtype}, {value.layout} has no numpy array: {error}",
            cure="Convert it first, with .float() or .to_dense(), or choose a field pt.",
        ) from error
