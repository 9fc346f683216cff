"""One cell of a table as a field of a sample: the value itself, or the file that it names by path or url."""

from __future__ import annotations

import json
import os
import posixpath
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from shardwriter.inputs.base import path_shown, read_file
from shardwriter.inputs.folders import field_of
from shardwriter.inputs.opened import read_view
from shardwriter.inputs.pictures import picture_field
from shardwriter.inputs.values import converted
from wds_tools import addresses
from wds_tools.codec import encode_field, kind_of
from wds_tools.errors import FieldError, MissingFieldError, ShardstreamError, UsageError, shown
from wds_tools.names import check_field
from wds_tools.sources.options import Remote
from wds_tools.sources.resolve import open_source

__all__ = ["REST", "Cells", "Column", "column_of", "extension_of", "local_path", "url_path"]

REST = "*"
"""The column that stands for all others."""

_VALUES = frozenset({"int", "text", "json", "jsonl"})


class Column(NamedTuple):
    """A column that becomes a field."""

    column: str
    field: str
    optional: bool

    @property
    def is_value(self) -> bool:
        """Whether the column holds the value itself, not the place of a file."""
        return kind_of(self.field) in _VALUES


def column_of(name: str, field: str) -> Column:
    """Read `caption` and `txt?` as a column.

    Raises:
        UsageError: a field that cannot be, or that the other columns do not go into.
    """
    optional = field.endswith("?")
    bare = field.removesuffix("?").lower()
    check_field(bare)
    if name == REST and kind_of(bare) != "json":
        raise UsageError(f"the other columns together are an object, which does not go into {bare}", cure="Use json.")
    return Column(name, bare, optional)


class Cells:
    """Makes fields of cells.

    Args:
        root: the folder that relative paths are relative to.
        remote: how urls are asked for.
    """

    def __init__(self, root: str, remote: Remote | None = None) -> None:
        self._root = root
        self._remote = remote

    def picture(self, value: Any, column: str) -> tuple[str, bytes]:
        """The field and the bytes of a picture.

        Args:
            value: a path, a url, bytes, or an object with `bytes` and `path`.
            column: its column, for messages.

        Raises:
            FieldError: it is missing, or no picture.
            OSError: its file cannot be read.
        """
        inside: Any = value.get("bytes") if isinstance(value, Mapping) else value
        place = value.get("path") if isinstance(value, Mapping) else value
        if not isinstance(inside, bytes) or not inside:
            if not isinstance(place, str) or not place.strip():
                raise MissingFieldError(f"the image in the column {column!r} is missing")
            inside = self._fetched(place.strip())
        extension = extension_of(place) if isinstance(place, str) else ""
        if kind_of(extension) == "picture":
            return extension, inside
        return picture_field("jpg", inside)

    def field(self, column: Column, value: Any) -> bytes | None:
        """The bytes of the field that a column becomes; None where it is empty and may be.

        Raises:
            FieldError, FieldRefusedError: it is missing, or does not go into the field.
            OSError: its file cannot be read.
        """
        text = kind_of(column.field) == "text"
        if value is None or (value == "" and (column.optional or not text)):
            if column.optional:
                return None
            raise MissingFieldError(
                f"the column {column.column!r} is empty",
                field=column.field,
                cure=f"Name the field {column.field}? where it may be missing.",
            )
        try:
            if column.is_value:
                return encode_field(column.field, _typed(value, kind_of(column.field)))
            if isinstance(value, Mapping):
                return bytes(value["bytes"])
            return converted(self._fetched(str(value).strip()), extension_of(str(value)), column.field)
        except ShardstreamError as error:
            raise error.at(field=column.field) from error.__cause__

    def _fetched(self, place: str) -> bytes:
        path = local_path(place)
        if path is not None:
            path = os.path.join(self._root, path)  # noqa: PTH118 - 10 times as fast
            try:
                return read_file(path)
            except FileNotFoundError as error:
                raise MissingFieldError(f"there is no {path_shown(path)}") from error
            except ValueError as error:  # a NUL
                raise FieldError(f"{shown(path)} is no path: {error}") from error
        try:
            with open_source(place, remote=self._remote) as source:
                return bytes(read_view(source, 0, source.size()))
        except UsageError as error:
            raise FieldError(str(error)) from error


def local_path(place: str) -> str | None:
    """The path that a path or a file url means; None for other urls.

    Raises:
        FieldError: a file url of another host.
    """
    if addresses.scheme(place) not in {None, "file"}:
        return None
    try:
        return addresses.path_of(place)
    except UsageError as error:
        raise FieldError(str(error)) from error


def url_path(place: str) -> str:
    """Host and path of a url, as `host/a/b.jpg`.

    Raises:
        FieldError: it is none.
    """
    try:
        parts = urlsplit(place)
        return f"{parts.hostname or ''}{posixpath.normpath(parts.path)}"
    except ValueError as error:
        raise FieldError(f"{shown(place)} is no url: {error}") from error


def extension_of(place: str) -> str:
    """The field that the end of a path or url names; "" where it has none.

    Raises:
        FieldError: a url that is none.
    """
    base = (place if local_path(place) is not None else url_path(place)).rpartition("/")[2]
    return field_of(base) if "." in base else ""


def _typed(value: Any, kind: str) -> Any:
    """A cell of a text file as the kind of its field; values that have a type already stay as they are."""
    if kind == "text":
        return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    if not isinstance(value, str):
        return value
    try:
        return int(value) if kind == "int" else json.loads(value)
    except (ValueError, RecursionError) as error:
        raise FieldError(f"{shown(value[:60])} is no {'whole number' if kind == 'int' else 'JSON'}") from error
