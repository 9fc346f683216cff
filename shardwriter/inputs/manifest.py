"""A table with a row a sample: where its picture lies, its label, its caption. CSV, TSV, JSON lines or Parquet.

    manifest_file("train.csv", image="file", label="breed", columns={"caption": "txt", "mask": "seg.png"})

- The image column holds paths, relative to the table's folder (or `root`), or urls of any kind that is read. The field
  is the path's extension; where there is none, or a url hides it, what the bytes begin with.
- `columns` says which other columns become fields. Where the field's kind is text, a number or JSON, the column holds
  the value itself; else it holds a path or url too. `?` behind the field: it may be empty, and is left out then. The
  column `*` stands for all that are not named, as one JSON object.
- Labels are whole numbers, or names that are numbered in sorted order (`labels`, see `labels`); the field is `cls`.
- In JSON lines and Parquet, `meta.label` is the label in the object meta.
- The key is the image's path without extension, or the value of the `key` column, dots in its last part replaced; rows
  with equal keys are refused. `keys` gives numbers or hashes.
- A row that does not parse, whose file is missing, or whose label is missing or none, is reported and not packed.
"""

from __future__ import annotations

import logging
import os
import posixpath
from array import array
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from shardwriter.inputs.base import BaseInput, digest, path_shown
from shardwriter.inputs.cells import REST, Cells, Column, column_of, local_path, url_path
from shardwriter.inputs.labels import LabelKind, Labels
from shardwriter.inputs.parquet import ParquetRows
from shardwriter.inputs.rows import CsvRows, JsonRows, Row, Rows, folder_of, lookup
from shardwriter.keys import Keys, check_keys, fold, key_of, path_key, refuse_equal
from wds_tools.errors import DataError, FieldError, UsageError, public, shown, there_are
from wds_tools.sample import KEY, Sample
from wds_tools.sources.cache.names import object_key
from wds_tools.sources.options import Remote

__all__ = ["IMAGE_COLUMNS", "Manifest", "manifest_file"]

IMAGE_COLUMNS = ("image", "file_name", "filename", "filepath", "image_path", "file", "path", "img", "image_url", "url")
"""Names by which an image column is known where none is named."""

_LABEL_COLUMNS = frozenset({"label", "labels", "class", "cls", "target", "category"})

_log = logging.getLogger(__name__)


class Manifest(BaseInput):
    """The rows of a table, as `manifest_file` read it. Close it, or use it with `with`."""

    def __init__(
        self,
        rows: Rows,
        columns: Sequence[Column],
        *,
        path: Path,
        image: str | None,
        label: str | None,
        labels: Labels,
        key: str | None,
        keys: Keys,
        root: Path,
        remote: Remote | None,
    ) -> None:
        self._rows = rows
        self._columns = tuple(columns)
        self._path = path
        self._image = image
        self._label = label
        self._labels = labels
        self._key = key
        self._keys = check_keys(keys)
        self._root = str(root)
        self._cells = Cells(str(root), remote)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def renamed(self) -> bool:
        return self._keys != "path"

    def name(self, index: int) -> str:
        try:
            return f"{self._path} row {index + 1}: {public(self._original(index, self._rows[index]))}"
        except DataError:
            return f"{self._path} row {index + 1}"

    def original(self, index: int) -> str:
        return self._original(index, self._rows[index])

    def key(self, index: int) -> str:
        return self.key_of_row(index, self._rows[index]) if self._keys != "number" else self.key_of_row(index, {})

    def key_of_row(self, index: int, row: Row) -> str:
        """The key of a row that has been read."""
        if self._keys == "number" or (self._key is None and self._place(row) is None):
            return key_of("number", index, len(self), "", str)
        return key_of(self._keys, index, len(self), self._original(index, row), self._path_key)

    def sample(self, index: int) -> Sample:
        row = self._rows[index]
        sample: Sample = {KEY: self.key_of_row(index, row)}
        if self._image is not None:
            field, picture = self._cells.picture(lookup(row, self._image), self._image)
            sample[field] = picture
        if self._label is not None:
            sample["cls"] = self._labels.number(lookup(row, self._label))
        for column in self._columns:
            data = self._cells.field(column, self._rest(row) if column.column == REST else lookup(row, column.column))
            if data is not None:
                sample[column.field] = data
        return sample

    def facts(self) -> Mapping[str, object]:
        return {"classes": list(self._labels.classes)} if self._label is not None and self._labels.classes else {}

    def fingerprint(self) -> Mapping[str, object]:
        return {
            "input": "manifest",
            "source": str(self._path.absolute()),
            "root": self._root,
            "samples": len(self),
            "content": self._rows.content,
            "columns": {
                "image": self._image,
                "label": self._label,
                "key": self._key,
                **{column.column: f"{column.field}{'?' * column.optional}" for column in self._columns},
            },
            "classes": digest([f"{name}\n".encode("utf-8", "surrogateescape") for name in self._labels.classes]),
            "keys": self._keys,
        }

    def close(self) -> None:
        self._rows.close()

    def named(self) -> frozenset[str]:
        """The columns that samples are made of."""
        own = {self._image, self._label, self._key} - {None}
        return frozenset(map(str, own)) | {column.column for column in self._columns}

    def see(self, row: Row) -> None:
        """Take a row's label into account."""
        if self._label is not None:
            self._labels.see(lookup(row, self._label))

    def settle(self, empty: set[str], names: tuple[str, ...]) -> None:
        """All rows have been seen: decide what the labels are.

        Raises:
            UsageError: there are no rows, a column that holds nothing at all, or labels that are mixed.
        """
        if not len(self):
            raise UsageError(f"{path_shown(self._path)} has no rows")
        empty -= {column.column for column in self._columns if column.optional and column.column in names}
        if empty:
            raise UsageError(
                f"{path_shown(self._path)} has no column {min(empty)!r}, or it is empty in all rows",
                cure=there_are(map(shown, names)),
            )
        if self._label is not None:
            self._labels.settle()
        elif near := [name for name in names if name.lower() in _LABEL_COLUMNS and name not in self.named()]:
            _log.warning("%s: the column %r is not packed; label=%r makes it the labels", self._path, near[0], near[0])

    def _place(self, row: Row) -> str | None:
        """The path or url of the row's picture; None where there is none, or it lies in the table itself."""
        value = None if self._image is None else lookup(row, self._image)
        path = value.get("path") if isinstance(value, Mapping) else value
        return path.strip() or None if isinstance(path, str) else None

    def _original(self, index: int, row: Row) -> str:
        if self._key is not None:
            value = lookup(row, self._key)
            if value is None or value == "":
                raise FieldError(f"the key in the column {self._key!r} is missing")
            return str(value)
        # Without user and signature: it is kept beside the shards, and a url that is signed anew is the same picture.
        return object_key(self._place(row) or f"row {index + 1}")

    def _path_key(self, original: str) -> str:
        if self._key is not None:
            folder, slash, base = original.rpartition("/")
            return f"{folder}{slash}{base.replace('.', '_')}"
        path = local_path(original)
        if path is None:
            return path_key(url_path(original))
        return path_key(posixpath.normpath(path).removeprefix(f"{self._root}/").lstrip("/"))

    def _rest(self, row: Row) -> object:
        named = {self._image, self._label, self._key, *(column.column for column in self._columns)}
        return {name: value for name, value in row.items() if name not in named}


def manifest_file(
    path: str | os.PathLike[str],
    *,
    image: str | None = None,
    label: str | None = None,
    columns: Mapping[str, str] | None = None,
    key: str | None = None,
    labels: LabelKind = "auto",
    classes: Sequence[str] | None = None,
    root: str | os.PathLike[str] | None = None,
    keys: Keys = "path",
    delimiter: str | None = None,
    encoding: str = "utf-8",
    temporary: str | os.PathLike[str] | None = None,
    remote: Remote | None = None,
    progress: Callable[[int], object] | None = None,
) -> Manifest:
    """Read a table; see the module for the rules. No picture is opened.

    Args:
        path: the table: .csv, .tsv, .jsonl (.ndjson) or .parquet.
        image: the column of pictures; the one that is called like one of IMAGE_COLUMNS by default.
        label: the column of labels; none by default.
        columns: other columns to the fields that they become.
        key: the column of keys; the picture's path by default.
        labels: what the labels are, "int", "name", or "auto".
        classes: the classes' names in the order of their labels.
        root: what relative paths are relative to; the table's folder by default.
        keys: "path", "number" or "hash".
        delimiter: of a .csv, a comma by default.
        encoding: of a text file.
        temporary: on whose disk pictures are spooled that lie in a Parquet file itself.
        remote: how urls are asked for.
        progress: called with 1,000 after each thousand rows, and with the rest.

    Raises:
        UsageError: no such file or column, labels that are mixed, options that cannot be.
        KeyRefusedError: rows with the same key. DataError: a file that does not parse.
    """
    path = Path(path)
    others = [column_of(name, field) for name, field in (columns or {}).items()]
    rows = _rows(path, delimiter, encoding, temporary)
    try:
        names = rows.head()
        image = _image_column(path, names, image, others)
        found = Manifest(
            rows,
            others,
            path=path,
            image=image,
            label=label,
            labels=Labels(label or "", kind=labels, classes=classes),
            key=key,
            keys=keys,
            root=folder_of(path) if root is None else Path(os.path.abspath(root)),  # noqa: PTH100 - links stay
            remote=remote,
        )
        _look(found, rows, names, progress)
    except BaseException:
        rows.close()
        raise
    return found


def _rows(path: Path, delimiter: str | None, encoding: str, temporary: str | os.PathLike[str] | None) -> Rows:
    ending = path.suffix.lower()
    if ending in {".jsonl", ".ndjson"}:
        return JsonRows(path, encoding)
    if ending in {".parquet", ".pq"}:
        return ParquetRows(path, temporary=temporary)
    if ending in {".csv", ".tsv", ".txt"} or delimiter is not None:
        return CsvRows(path, delimiter=delimiter or ("," if ending == ".csv" else "\t"), encoding=encoding)
    raise UsageError(
        f"{path_shown(path)} is no table that is known by its name",
        cure="Call it .csv, .tsv, .jsonl or .parquet; a compressed one has to be decompressed first.",
    )


def _image_column(path: Path, names: tuple[str, ...], image: str | None, others: list[Column]) -> str | None:
    if image is not None:
        return image
    taken = {column.column for column in others}
    near = [name for name in names if name.lower() in IMAGE_COLUMNS and name not in taken]
    if len(near) == 1:
        return near[0]
    if not near and others:
        return None
    what = f"several could hold the pictures: {', '.join(near)}" if near else "none is known to hold pictures"
    raise UsageError(
        f"of the columns of {path_shown(path)}, {what}",
        cure=f"Name the column (--image-column). {there_are(map(shown, names))}",
    )


def _look(found: Manifest, rows: Rows, names: tuple[str, ...], progress: Callable[[int], object] | None) -> None:
    """Read all rows once: where they begin, what the labels are, whether keys are equal."""
    named = found.named()
    hashes, good, empty = array("q"), array("Q"), set(named)
    count = 0
    for count, row in enumerate(rows.scan(None if REST in named else sorted(named)), 1):
        if progress is not None and not count % 1000:
            progress(1000)
        if isinstance(row, FieldError):
            continue
        empty.difference_update([name for name in empty if name == REST or lookup(row, name) not in (None, "")])
        found.see(row)
        try:
            hashes.append(hash(fold(found.key_of_row(count - 1, row))))
        except DataError:
            continue
        good.append(count - 1)
    if progress is not None and count % 1000:
        progress(count % 1000)
    found.settle(empty, names)
    if not found.renamed and len(np.unique(np.frombuffer(hashes, np.int64))) < len(hashes):
        refuse_equal(len(good), lambda at: found.key(good[at]), lambda at: found.name(good[at]))
