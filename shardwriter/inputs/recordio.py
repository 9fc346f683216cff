"""MXNet RecordIO files of pictures (.rec, as im2rec and recordio.pack_img write them), without MXNet.

A record is the word 0xced7230a, a word of three flag bits and 29 bits of length, the data, and zeros up to a multiple
of four bytes. Data that hold the word themselves are cut there into several parts (flags 1, 2, ..., 3), between which
readers put it back. The data begin with a header: how many labels follow (uint32), one label (float32), an id and a
second one (uint64 each); if labels follow, they are float32 and count instead of the one. The rest is the picture.

- A label that is one whole number becomes `cls`; several become `label.npy`, float32 (n,). `label` names a field for
  all of them: `label.npy` for numbers with fractions, `json`.
- The id becomes the field that `ids` names (`id`); it is left out by default, as it mostly counts the records.
- Keys are numbers, or hashes of the file's name and the record's number.
- A `.idx` file beside is not needed: records are found by their headers, and it is only compared, since tools that
  append to a file leave it behind.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shardwriter.inputs.base import BaseInput, path_shown
from shardwriter.inputs.pictures import picture_field
from shardwriter.inputs.records import Files, Records, files_of
from shardwriter.keys import Keys, check_keys, key_of
from wds_tools.codec import encode_field, kind_of
from wds_tools.errors import DataError, FieldError, MissingFieldError, UsageError
from wds_tools.names import check_field
from wds_tools.sample import KEY, Sample
from wds_tools.sources.base import Source

__all__ = ["RecordIO", "recordio_files"]

_log = logging.getLogger(__name__)

_MAGIC = b"\x0a\x23\xd7\xce"
_WORD = struct.Struct("<4sI")
_HEADER = struct.Struct("<IfQQ")
_LENGTH = (1 << 29) - 1
_WHOLE, _BEGIN, _MIDDLE, _END = range(4)
_LABELS = {"int", "npy", "json"}


class RecordIO(BaseInput):
    """The records of RecordIO files, as `recordio_files` found them. Picklable; close it, or use it with `with`."""

    def __init__(self, records: Records, *, label: str | None, ids: str | None, keys: Keys) -> None:
        self._records = records
        self._label = label
        self._ids = ids
        self._keys = check_keys(keys)

    def __len__(self) -> int:
        return len(self._records)

    def name(self, index: int) -> str:
        number, record = self._records.place(index)
        return f"{self._records.paths[number]}[{record}], at byte {self._records.offset(index):,}"

    def original(self, index: int) -> str:
        number, record = self._records.place(index)
        return f"{os.path.basename(self._records.paths[number])}[{record}]"  # noqa: PTH119 - text, not a Path

    def key(self, index: int) -> str:
        return key_of("hash" if self._keys == "hash" else "number", index, len(self), self.original(index), str)

    def sample(self, index: int) -> Sample:
        labels, number, picture = _unpacked(_joined(self._records.read(index)))
        if not picture:
            raise MissingFieldError("the record holds no picture", field="jpg")
        field, data = picture_field("jpg", picture)
        name = self._label or ("cls" if len(labels) == 1 else "label.npy")
        sample: Sample = {KEY: self.key(index), field: data, name: _encoded(name, labels)}
        return sample if self._ids is None else {**sample, self._ids: number}

    def fingerprint(self) -> Mapping[str, object]:
        return {
            "input": "RecordIO",
            "files": self._records.facts(),
            "samples": len(self),
            "label": self._label,
            "ids": self._ids,
            "keys": self._keys,
        }

    def close(self) -> None:
        self._records.close()


def recordio_files(
    paths: Files,
    *,
    label: str | None = None,
    ids: str | None = None,
    keys: Keys = "path",
    temporary: str | os.PathLike[str] | None = None,
    progress: Callable[[int], object] | None = None,
) -> RecordIO:
    """Open RecordIO files; see the module for the rules.

    Args:
        paths: a file, a pattern, a folder, or a list of these.
        label: the field of all labels, such as "label.npy"; by their number by default.
        ids: the field of the record's id, such as "id"; left out by default.
        keys: "path" and "number" count the records; "hash" hashes the file's name and the number.
        temporary: on whose disk gzipped files are unpacked.
        progress: called with the number of records of each file.

    Raises:
        UsageError: no such files, no records, or fields that cannot be.
        DataError: a file that is no RecordIO file, or is damaged or cut off.
    """
    for name, kinds in ((label, _LABELS), (ids, {"int"})):
        if name is not None:
            check_field(name)
            if kind_of(name) not in kinds:
                raise UsageError(f"the field {name} does not hold such numbers", cure="Choose cls, id, npy or json.")
    files = files_of(paths, (".rec",))
    records = Records(
        files, find_records, plain=lambda head: head[:4] == _MAGIC, temporary=temporary, progress=progress
    )
    if not len(records):
        records.close()
        raise UsageError(f"no records in {path_shown(files[0])}")
    _compare(records)
    return RecordIO(records, label=label, ids=ids, keys=keys)


def find_records(source: Source) -> Iterator[tuple[int, int]]:
    """Offset and size of each record of an open file, from its first header to the end of its last part's data.

    Raises:
        DataError: no RecordIO file, parts that do not fit together, or a file that is cut off.
    """
    size, place, begin = source.size(), 0, None
    head = bytearray(8)
    while place < size:
        if size - place >= 8:
            source.read_into(place, memoryview(head))
        magic, word = _WORD.unpack(head)
        if size - place < 8 or magic != _MAGIC:
            what = "is cut off" if place and size - place < 8 else "is damaged" if place else "is no RecordIO file"
            raise DataError(f"{path_shown(source.url)} {what}: no record begins at byte {place:,}")
        kind, end = word >> 29, place + 8 + (word & _LENGTH)
        if end > size:
            raise DataError(
                f"{path_shown(source.url)} is cut off in the record at byte {place:,}: it has {size:,} bytes",
                cure="Copy the file again.",
            )
        if kind > _END or (kind in {_WHOLE, _BEGIN}) is not (begin is None):
            raise DataError(f"{path_shown(source.url)} is damaged: a part of kind {kind} at byte {place:,}")
        begin = place if begin is None else begin
        if kind in {_WHOLE, _END}:
            yield begin, end - begin
            begin = None
        place = end + (-end % 4)
    if begin is not None:
        raise DataError(f"{path_shown(source.url)} is cut off: the record at byte {begin:,} has no end")


def _joined(record: bytes) -> bytes:
    """The data of a record's parts, with the word that they were cut at between them."""
    parts, place = [], 0
    while place < len(record):
        size = _WORD.unpack_from(record, place)[1] & _LENGTH
        parts.append(record[place + 8 : place + 8 + size])
        place += 8 + size + (-size % 4)
    return _MAGIC.join(parts)


def _unpacked(data: bytes) -> tuple[npt.NDArray[Any], int, bytes]:
    """Labels float32 (n,), id and picture of a record's data."""
    if len(data) < _HEADER.size:
        raise FieldError(f"a record of {len(data)} bytes has no header of a picture")
    count, label, number, _ = _HEADER.unpack_from(data)
    if not count:
        return np.array([label], np.float32), number, data[_HEADER.size :]
    end = _HEADER.size + 4 * count
    if end > len(data):
        raise FieldError(f"a record of {len(data)} bytes says that it has {count:,} labels")
    return np.frombuffer(data[_HEADER.size : end], "<f4").astype(np.float32), number, data[end:]


def _encoded(field: str, labels: npt.NDArray[Any]) -> bytes:
    if kind_of(field) == "npy":
        return encode_field(field, labels)
    if kind_of(field) == "json":
        return encode_field(field, labels.tolist())
    if len(labels) != 1 or not float(labels[0]).is_integer():
        raise FieldError(
            f"the label {labels.tolist()} is no whole number",
            field=field,
            cure="Put it into label.npy (label='label.npy', --label-field label.npy).",
        )
    return encode_field(field, int(labels[0]))


def _compare(records: Records) -> None:
    """Say where an .idx file lists another number of records."""
    for path, count in zip(records.paths, records.counts(), strict=True):
        beside = _index_of(path)
        listed = len(beside.read_bytes().split(b"\n")) - 1 if beside else count
        if listed != count:
            _log.warning("%s lists %d records, %s has %d; all are packed", beside, listed, path, count)


def _index_of(path: str) -> Path | None:
    beside = Path(path).with_suffix(".idx")
    return beside if beside.is_file() else None
