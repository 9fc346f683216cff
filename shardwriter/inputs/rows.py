"""Tables as rows that can be read at any place: CSV and TSV, JSON lines, Parquet (in `parquet`).

Text files are read through once, to find where each row begins (8 bytes a row), and a row is read from there when it is
asked for: a manifest of 20 million rows costs 160 MB, whatever stands in it. Quoted values may hold delimiters and line
breaks. Text is UTF-8, with or without a byte order mark, unless `encoding` says otherwise.
"""

from __future__ import annotations

import csv
import functools
import hashlib
import io
import json
import os
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from shardwriter.inputs.base import path_shown
from shardwriter.inputs.opened import OpenFiles
from wds_tools.errors import DataError, FieldError, UnavailableError, UsageError, shown

__all__ = ["CsvRows", "JsonRows", "Row", "Rows", "TextRows", "folder_of", "lookup"]

Row: TypeAlias = Mapping[str, Any]

_MARK = b"\xef\xbb\xbf"
_MOST_LINE = 64 << 20
"""Bytes. A file without line breaks must not fill the memory."""
_WIDE = (b"\xff\xfe", b"\xfe\xff")


class Rows(Protocol):
    """A table."""

    def head(self) -> tuple[str, ...]:
        """The names of its columns; for JSON lines those of the first row that parses. To be called first.

        Raises:
            UsageError: there is no such file, or its columns cannot be told apart. DataError: it is no such table.
        """
        ...

    @property
    def content(self) -> str:
        """What differs where the table's content does."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Row:
        """One row: column to value.

        Raises:
            FieldError: it does not parse, or has another number of values than there are columns.
        """
        ...

    def scan(self, wanted: Sequence[str] | None) -> Iterator[Row | FieldError]:
        """All rows in order, with what is wrong with one in its place. To be called once, before rows are asked for.

        Args:
            wanted: the columns that will be asked for, None for all. Of pictures in the table itself only the paths
                are given here.
        """
        ...

    def close(self) -> None: ...


class TextRows:
    """What tables in text files share. Picklable.

    Args:
        path: the file.
        encoding: of its text; one in which a line break and the delimiter are single bytes.
    """

    def __init__(self, path: Path, encoding: str = "utf-8") -> None:
        self.path = path
        self.content = ""
        self._columns: tuple[str, ...] = ()
        self._encoding = encoding
        self._files = OpenFiles([str(path)])
        self._begins = array("Q")
        self._end = 0
        _check_encoding(encoding)

    def __len__(self) -> int:
        return len(self._begins)

    def close(self) -> None:
        """Close the file. It is opened again when a row is asked for."""
        self._files.close()

    def text(self, index: int) -> str:
        """The text of one row.

        Raises:
            FieldError: it does not decode.
        """
        begin = self._begins[index]
        end = self._begins[index + 1] if index + 1 < len(self) else self._end
        return self.decoded(bytes(self._files.read(0, begin, end - begin)))

    def decoded(self, data: bytes) -> str:
        """Bytes as text.

        Raises:
            FieldError: they do not decode.
        """
        try:
            return data.decode(self._encoding)
        except UnicodeDecodeError as error:
            raise FieldError(
                f"the row is not {self._encoding}: byte 0x{data[error.start]:02x} in {data[:60]!r}",
                cure="Say what it is (--encoding latin-1, for example), or convert the file to UTF-8.",
            ) from error

    def _lines(self) -> Iterator[bytes]:
        """The lines of the file; `_end` is where the last one ended."""
        state = hashlib.blake2b(digest_size=16)
        try:
            with self.path.open("rb") as file:
                head = file.read(3)
                if head[:2] in _WIDE:
                    raise UsageError(
                        f"{path_shown(self.path)} is UTF-16",
                        cure=f"Convert it: `iconv -f UTF-16 -t UTF-8 {path_shown(self.path)} > manifest.csv`.",
                    )
                self._end = 3 if head == _MARK else 0
                file.seek(self._end)
                for line in iter(functools.partial(file.readline, _MOST_LINE), b""):
                    if len(line) == _MOST_LINE:
                        raise self._endless()
                    state.update(line)
                    self._end += len(line)
                    yield line
        except FileNotFoundError as error:
            raise UsageError(f"there is no {path_shown(self.path)}") from error
        except OSError as error:
            raise UnavailableError(f"{path_shown(self.path)} cannot be read: {error.strerror}") from error
        self.content = state.hexdigest()

    def _endless(self) -> DataError:
        return DataError(
            f"{path_shown(self.path)} has a line of {_MOST_LINE:,} bytes or more, at byte {self._end:,}",
            cure=f"Is it a table? Carriage returns alone end no line: {_mend(self.path)} mends them.",
        )


class CsvRows(TextRows):
    """A file of delimited values with a row of names on top.

    Args:
        path: the file.
        delimiter: one character.
        encoding: of its text.
    """

    def __init__(self, path: Path, *, delimiter: str = ",", encoding: str = "utf-8") -> None:
        super().__init__(path, encoding)
        if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
            raise UsageError(f"the delimiter is {delimiter!r}, expected one character such as ',' or a tab")
        self._delimiter = delimiter

    def __getitem__(self, index: int) -> Row:
        values = next(self._reader(io.StringIO(self.text(index), newline="")))
        return self._row(values)

    def head(self) -> tuple[str, ...]:
        values = next((values for _, values in self._values()), None)
        if values is None:
            raise DataError(f"{path_shown(self.path)} is empty", cure="Its first row names the columns.")
        self._columns = self._named(values)
        return self._columns

    def scan(self, wanted: Sequence[str] | None) -> Iterator[Row | FieldError]:
        del wanted  # a row is parsed whole
        rows = self._values()
        next(rows)
        for begin, values in rows:
            self._begins.append(begin)
            yield self._judged(values)

    def _values(self) -> Iterator[tuple[int, list[str]]]:
        """Where each row begins, and its values; those of the head first. Empty lines are passed over."""
        begin = 0
        try:
            for values in self._reader(line.decode(self._encoding, "surrogateescape") for line in self._lines()):
                if values:
                    yield begin, values
                begin = self._end
        except csv.Error as error:
            raise DataError(
                f"{path_shown(self.path)} does not parse in the row that begins at byte {begin:,}: {error}",
                cure=_cure(str(error), self.path),
            ) from error

    def _reader(self, lines: Iterator[str] | io.StringIO) -> Iterator[list[str]]:
        return csv.reader(lines, delimiter=self._delimiter, strict=True)

    def _named(self, values: list[str]) -> tuple[str, ...]:
        names = tuple(value.strip() for value in values)
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise UsageError(f"{path_shown(self.path)} names the column {twice!r} twice")
        return names

    def _row(self, values: list[str]) -> Row:
        if len(values) != len(self._columns):
            raise FieldError(
                f"the row has {len(values)} values, {len(self._columns)} columns are named: "
                f"{shown(self._delimiter.join(values)[:80])}",
                cure="A value that holds the delimiter needs quotes around it.",
            )
        return dict(zip(self._columns, values, strict=True))

    def _judged(self, values: list[str]) -> Row | FieldError:
        try:
            for value in values:
                if not value.isascii():
                    self.decoded(value.encode(self._encoding, "surrogateescape"))
            return self._row(values)
        except FieldError as error:
            return error


class JsonRows(TextRows):
    """A file with a JSON object a line."""

    def __getitem__(self, index: int) -> Row:
        return self._row(self.text(index))

    def head(self) -> tuple[str, ...]:
        first: FieldError | None = None
        for line in filter(bytes.strip, self._lines()):
            try:
                return tuple(self._row(self.decoded(line)))
            except FieldError as error:
                first = first or error
        if first is not None:
            raise DataError(f"{path_shown(self.path)}: {first}") from first
        raise DataError(f"{path_shown(self.path)} is empty", cure="It needs a JSON object a line.")

    def scan(self, wanted: Sequence[str] | None) -> Iterator[Row | FieldError]:
        del wanted  # a row is parsed whole
        for line in filter(bytes.strip, self._lines()):
            self._begins.append(self._end - len(line))
            try:
                yield self._row(self.decoded(line))
            except FieldError as error:
                yield error

    def _row(self, text: str) -> Row:
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise FieldError(f"the line is no JSON: {error}: {shown(text[:60])}") from error
        if not isinstance(row, dict):
            raise FieldError(f"the line is no JSON object: {shown(text[:60])}", cure="One {...} a line is needed.")
        return row


def lookup(row: Row, column: str) -> Any:
    """The value of a column; behind dots that of an object in it (`meta.label`). None where there is none."""
    if column in row:
        return row[column]
    value: Any = row
    for part in column.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _cure(problem: str, path: Path) -> str:
    """What helps, by what Python's csv says."""
    if "new-line character" in problem:
        return f"Its lines end in carriage returns alone, as old Macs wrote them: {_mend(path)} mends that."
    if "field limit" in problem:
        return (
            "A quote that is never closed takes in all that follows. Values that are really so long belong into files "
            "of their own, or a table of JSON lines (.jsonl) or Parquet."
        )
    return "A quote that is never closed? Quotes inside of quoted values are doubled."


def _mend(path: Path) -> str:
    return f"`tr '\\r' '\\n' < {path_shown(path)} > mended{path_shown(path.suffix)}`"


def _check_encoding(encoding: str) -> None:
    try:
        plain = ',"\r\n\t'.encode(encoding) == b',"\r\n\t'
    except LookupError as error:
        raise UsageError(f"there is no encoding {encoding!r}") from error
    if not plain:
        raise UsageError(
            f"the encoding {encoding} has no single bytes for line breaks",
            cure=f"Convert the file: `iconv -f {encoding} -t UTF-8`.",
        )


def folder_of(path: Path) -> Path:
    """The folder that relative paths in a table are relative to."""
    return Path(os.path.abspath(path)).parent  # noqa: PTH100 - not resolve: a link to a manifest lies where it lies
