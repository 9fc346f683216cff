"""TFRecord files of tf.train.Example, without TensorFlow.

    tfrecord_files("train-*.tfrecord", fields={"image/encoded": "jpg", "image/class/label": "cls"})

A file is a row of records: the data's length (uint64, little-endian), its checksum, the data, their checksum; both are
masked CRC-32C. Lengths are checked when the input is made, data when a sample is read; a record that is damaged is
reported, and a damaged length ends everything, since nobody knows where the next record would be. Files may be gzipped.

- `fields` says which features become which fields. Bytes go into the shard as they are; numbers become the field's
  kind: a list of one whole number `cls`, any numbers `npy` (float32 or int64, (n,)), text from UTF-8 bytes; a list of
  several bytes goes into `json` as texts. `jpg` stands for any picture: its real format is seen from the bytes. `?`
  behind the field: the feature may be missing.
- Without it: image/encoded becomes the picture, image/class/label (or label) `cls`, as in the usual files of ImageNet
  and of TensorFlow Datasets. TensorFlow's own ImageNet files number classes from 1; labels are packed as they are.
- Keys are numbers, or the feature that `key` names, without its extension.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from shardwriter.inputs.base import BaseInput, path_shown
from shardwriter.inputs.crc32c import masked
from shardwriter.inputs.example import Feature, read_example
from shardwriter.inputs.pictures import picture_field
from shardwriter.inputs.records import Files, Records, files_of
from shardwriter.keys import Keys, check_keys, key_of, path_key
from wds_tools.codec import decode_field, encode_field, kind_of
from wds_tools.errors import DataError, FieldError, MissingFieldError, ShardstreamError, UsageError, shown, there_are
from wds_tools.names import check_field
from wds_tools.sample import KEY, Sample
from wds_tools.sources.base import Source

__all__ = ["TFRecords", "tfrecord_files"]

_LENGTH = struct.Struct("<QI")
_CHECK = struct.Struct("<I")
_WINDOW = 1 << 16
_PICTURES = ("image/encoded", "image", "image_raw")
_LABELS = ("image/class/label", "label")


class TFRecords(BaseInput):
    """The records of TFRecord files, as `tfrecord_files` found them. Close it, or use it with `with`."""

    def __init__(self, records: Records, fields: Mapping[str, str], *, key: str | None, keys: Keys) -> None:
        self._records = records
        self._fields = dict(fields)
        self._key = key
        self._keys = check_keys(keys)

    def __len__(self) -> int:
        return len(self._records)

    @property
    def renamed(self) -> bool:
        return self._keys != "path" and self._key is not None

    def name(self, index: int) -> str:
        number, record = self._records.place(index)
        return f"{self._records.paths[number]}[{record}], at byte {self._records.offset(index):,}"

    def original(self, index: int) -> str:
        return self._name(index, None)

    def key(self, index: int) -> str:
        return self._key_of(index, None)

    def sample(self, index: int) -> Sample:
        features = _read(self._records, index)
        sample: Sample = {KEY: self._key_of(index, features)}
        for feature, text in self._fields.items():
            field = text.removesuffix("?")
            if feature not in features or not len(features[feature]):
                if text.endswith("?"):
                    continue
                raise MissingFieldError(
                    f"there is no feature {feature!r}", field=field, cure=there_are(sorted(features))
                )
            try:
                name, data = _field(field, features[feature])
            except ShardstreamError as error:
                raise error.at(field=field) from error.__cause__
            sample[name] = data
        return sample

    def fingerprint(self) -> Mapping[str, object]:
        return {
            "input": "TFRecord",
            "files": self._records.facts(),
            "samples": len(self),
            "fields": self._fields,
            "key": self._key,
            "keys": self._keys,
        }

    def close(self) -> None:
        self._records.close()

    def _key_of(self, index: int, features: Mapping[str, Feature] | None) -> str:
        if self._key is None and self._keys == "path":
            return key_of("number", index, len(self), "", str)
        original = "" if self._keys == "number" else self._name(index, features)
        return key_of(self._keys, index, len(self), original, path_key)

    def _name(self, index: int, features: Mapping[str, Feature] | None) -> str:
        """What the record calls itself; its file and number where it has no name."""
        if self._key is None:
            number, record = self._records.place(index)
            return f"{os.path.basename(self._records.paths[number])}[{record}]"  # noqa: PTH119 - text, not a Path
        values = (features or _read(self._records, index)).get(self._key, [])
        if len(values) != 1:
            raise FieldError(f"the feature {self._key!r}, which is the key, has {len(values)} values")
        value = values[0]
        return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _read(records: Records, index: int) -> dict[str, Feature]:
    record = records.read(index, behind=4)
    (check,) = _CHECK.unpack_from(record, len(record) - 4)
    data = record[:-4]
    if masked(data) != check:
        raise FieldError(
            f"the record's checksum is {masked(data):#010x} and should be {check:#010x}",
            cure="Its bytes have changed since it was written: copy the file again.",
        )
    return read_example(data)


def tfrecord_files(
    paths: Files,
    *,
    fields: Mapping[str, str] | None = None,
    key: str | None = None,
    keys: Keys = "path",
    temporary: str | os.PathLike[str] | None = None,
    progress: Callable[[int], object] | None = None,
) -> TFRecords:
    """Open TFRecord files; see the module for the rules.

    Args:
        paths: a file, a pattern, a folder, or a list of these.
        fields: features to fields; pictures and labels under their usual names by default.
        key: the feature that holds the key; the record's number by default.
        keys: "path", "number" or "hash".
        temporary: on whose disk gzipped files are unpacked.
        progress: called with the number of records of each file.

    Raises:
        UsageError: no such files, no records, or features that cannot be guessed.
        DataError: a file that is no TFRecord file, or is cut off.
    """
    files = files_of(paths, (".tfrecord", ".tfrec"))
    records = Records(files, find_records, plain=_is_plain, temporary=temporary, progress=progress)
    try:
        chosen = _usual(_first(records)) if fields is None else fields
        for field in chosen.values():
            check_field(field.removesuffix("?"))
        return TFRecords(records, chosen, key=key, keys=keys)
    except BaseException:
        records.close()
        raise


def _first(records: Records) -> dict[str, Feature]:
    if not len(records):
        raise UsageError(f"no records in {path_shown(records.paths[0])}")
    return _read(records, 0)


def _is_plain(head: bytes) -> bool:
    """Whether a file begins with a record: a length may look like the first bytes of gzip data."""
    return len(head) >= 12 and masked(head[:8]) == _LENGTH.unpack_from(head)[1]


def find_records(source: Source) -> Iterator[tuple[int, int]]:
    """Offset and size of the data of each record of an open file, its length held against its checksum.

    Raises:
        DataError: no TFRecord file, a damaged length, or a file that is cut off.
    """
    size, place = source.size(), 0
    base, window = 0, b""
    while place < size:
        if place + 12 > base + len(window):
            base = place
            buffer = bytearray(min(_WINDOW, size - place))
            source.read_into(place, memoryview(buffer))
            window = bytes(buffer)
        head = window[place - base : place - base + 12]
        end = size
        if len(head) == 12:
            length, check = _LENGTH.unpack(head)
            if masked(head[:8]) != check:
                raise _no_length(source.url, place, head)
            end = place + 16 + length
        if len(head) < 12 or end > size:
            raise DataError(
                f"{path_shown(source.url)} is cut off in the record at byte {place:,}: it has {size:,} bytes",
                cure="Copy the file again.",
            )
        yield place + 12, length
        place = end


def _no_length(url: str, place: int, head: bytes) -> DataError:
    if not place:
        return DataError(f"{path_shown(url)} is no TFRecord file: it begins with {head[:8]!r}")
    return DataError(
        f"{path_shown(url)} has a damaged record at byte {place:,}: the checksum of its length is wrong",
        cure="Copy the file again.",
    )


def _usual(features: Mapping[str, Feature]) -> dict[str, str]:
    """The usual features of a picture and its label."""
    picture = next((name for name in _PICTURES if name in features), None)
    label = next((name for name in _LABELS if name in features), None)
    if picture is None:
        kinds = ", ".join(f"{name} ({_kind(values)})" for name, values in sorted(features.items()))
        raise UsageError(
            "which features shall be packed cannot be seen from their names",
            cure=f"Say it, as in fields={{'img': 'jpg'}} (--column img=jpg). The first record has {kinds}.",
        )
    return {picture: "jpg", **({} if label is None else {label: "cls"})}


def _kind(values: Feature) -> str:
    return "bytes" if isinstance(values, list) else str(values.dtype)


def _field(field: str, values: Feature) -> tuple[str, bytes]:
    """A feature's values as a field."""
    kind = kind_of(field)
    if isinstance(values, list):
        if kind == "json" and len(values) > 1:
            return field, encode_field(field, [value.decode("utf-8", "replace") for value in values])
        if len(values) != 1:
            raise FieldError(f"the feature has {len(values)} values of bytes, a field holds one", cure="Use json.")
        return picture_field(field, values[0]) if kind == "picture" else (field, _checked(field, kind, values[0]))
    if kind == "npy":
        return field, encode_field(field, values)
    if kind == "json":
        return field, encode_field(field, values.tolist())
    if kind == "int" and len(values) == 1 and np.issubdtype(values.dtype, np.integer):
        return field, encode_field(field, int(values[0]))
    raise FieldError(
        f"{len(values)} values of {values.dtype} do not go into {field}: {shown(values[:4].tolist())}",
        cure="Use npy or json; cls takes one whole number.",
    )


def _checked(field: str, kind: str, value: bytes) -> bytes:
    if kind in {"int", "text", "json"}:
        decode_field(field, value)
    return value
