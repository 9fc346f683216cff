"""Parquet tables as rows: the columns that are wanted, held in memory as Arrow arrays; pictures in them spooled.

A column of bytes, or of objects with `bytes` and `path` as Hugging Face writes pictures, does not fit into memory:
it is copied once, in order, into a nameless temporary file. pyarrow is loaded on first use (the extra `parquet`).
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from shardwriter.inputs.base import digest, path_shown
from shardwriter.inputs.rows import Row
from shardwriter.inputs.spool import Spool
from wds_tools.errors import DataError, FieldError, ShardstreamError, UnavailableError, UsageError

__all__ = ["ParquetRows"]

_BATCH = 256


class ParquetRows:
    """The columns of one Parquet file. Picklable where no pictures lie in it.

    Args:
        path: the file.
        temporary: on whose disk pictures are spooled.
    """

    def __init__(self, path: Path, *, temporary: str | os.PathLike[str] | None = None) -> None:
        self.path = path
        self.content = ""
        self._temporary = temporary
        self._count = 0
        self._table: dict[str, Any] = {}
        self._spools: dict[str, Spool] = {}

    def __len__(self) -> int:
        return self._count

    def head(self) -> tuple[str, ...]:
        with self._opened() as file:
            return tuple(file.schema_arrow.names)

    def __getitem__(self, index: int) -> Row:
        row = self._judged(index)
        if isinstance(row, FieldError):
            raise row
        for name, spool in self._spools.items():
            row[name]["bytes"] = spool[index]
        return row

    def scan(self, wanted: Sequence[str] | None) -> Iterator[Row | FieldError]:
        with self._opened() as file, self._translated():
            self.content = self._footer()
            names = file.schema_arrow.names
            if wanted is not None:
                heads = {name if name in names else name.partition(".")[0] for name in wanted}
                names = [name for name in names if name in heads]
            inside = [name for name in names if _holds_bytes(file.schema_arrow.field(name).type)]
            plain = [name for name in names if name not in inside]
            table = file.read(columns=plain)
            self._table = {name: table.column(name) for name in plain}
            self._count = int(file.metadata.num_rows)
            for name in inside:
                self._spool(file, name)
            self._check_counts()
        yield from map(self._judged, range(self._count))

    def _check_counts(self) -> None:
        counts = {len(column) for column in self._table.values()} | {self._count}
        if len(counts) > 1 or self._count < 0:
            words = " and ".join(f"{count:,}" for count in sorted(counts))
            raise DataError(f"{path_shown(self.path)} is damaged: it says that it has {words} rows")

    def _judged(self, index: int) -> dict[str, Any] | FieldError:
        try:
            return self._plain(index)
        except (ValueError, OverflowError, _package().ArrowException) as error:  # text that is no UTF-8, a year 300000
            return FieldError(f"row {index + 1} of the Parquet file does not decode: {error!s:.200}")

    def _plain(self, index: int) -> dict[str, Any]:
        row = {name: column[index].as_py() for name, column in self._table.items() if name not in self._spools}
        for name in self._spools:
            row[name] = {"bytes": b"", "path": self._table[name][index].as_py()}
        return row

    def close(self) -> None:
        """Give the temporary files back."""
        for spool in self._spools.values():
            spool.close()

    def _footer(self) -> str:
        """A hash of the file's end, which says where each column lies, how large it is, and mostly its extremes."""
        with self.path.open("rb") as file:
            size = file.seek(-8, os.SEEK_END) + 8
            length = int.from_bytes(file.read(4), "little") + 8
            file.seek(-min(length, size), os.SEEK_END)
            return digest([str(size).encode(), file.read()])

    def _spool(self, file: Any, name: str) -> None:
        spool = self._spools[name] = Spool(self._temporary)
        paths: list[Any] = []
        for batch in file.iter_batches(batch_size=_BATCH, columns=[name]):
            for value in batch.column(0).to_pylist():
                data, path = (value.get("bytes"), value.get("path")) if isinstance(value, dict) else (value, None)
                spool.add([data or b""])
                paths.append(path)
        spool.flush()
        self._table[name] = _package().array(paths)

    def _opened(self) -> Any:
        _package()
        parquet = importlib.import_module("pyarrow.parquet")
        with self._translated():
            return parquet.ParquetFile(self.path)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """What pyarrow raises as an error of ours; of damage it raises OSErrors too, which have no number."""
        try:
            yield
        except FileNotFoundError as error:
            raise UsageError(f"there is no {path_shown(self.path)}") from error
        except ShardstreamError:
            raise
        except (OSError, ValueError, ArithmeticError, LookupError, MemoryError, _package().ArrowException) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise UnavailableError(f"{path_shown(self.path)} cannot be read: {error.strerror}") from error
            words = f"{path_shown(self.path)} is no Parquet file, or a damaged one: {error!s:.200}"
            raise DataError(words, cure="Copy it again, or make it again.") from error


def _holds_bytes(kind: Any) -> bool:
    types = importlib.import_module("pyarrow").types
    if types.is_struct(kind):
        inner = [kind.field(at) for at in range(kind.num_fields)]
        return any(field.name == "bytes" and _holds_bytes(field.type) for field in inner)
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _package() -> Any:
    try:
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise UsageError(
            "Parquet files need the package pyarrow", cure="pip install 'shardstream[parquet]', or save as CSV."
        ) from error
