"""The journal of a run: what is on the disk already, so that a run that was killed goes on where it was.

`.NAME.journal` lies in the folder that is packed into, hidden from every reader's glob, from the first sample until the
listing is written. One JSON object a line:

    {"journal": 1, "settings": {...}, "input": {...}}      what is being made, and of what
    {"failed": [leg, place, path, kind, reason, equals]}   a sample that is not in the shards
    {"shard": {...}}                                       a shard that the disk has, and how far the run had come

A shard's line is appended when the disk has the shard under its name, and is on the disk before the next shard gets its
name (`sync`, which Run has called by the thread that commits). It says at which place of the
run's order the next shard begins (`next`), where its samples lie, and what they were counted as. What a run does after
that place is a function of the place: a new shard, the same samples. So a run that reads these lines ends in the same
bytes as one that was never broken.

A kill leaves one of three things behind, all harmless: a line that was cut (the last one, dropped), a shard that has
its name and no line (one at most; it is removed and made again), failures behind the last shard's `next` (dropped, they
are found again).

Places and hashes go into the lines as base64 of little-endian numbers, the places compressed: 3 bytes a sample.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
import numpy.typing as npt

from shardwriter.failures import Failure
from shardwriter.sink import translated
from wds_tools.atomic import sync_folder, write_atomic
from wds_tools.errors import TargetError
from wds_tools.index.listing import ShardRecord
from wds_tools.tally import Tally

__all__ = ["Journal", "Kept", "ShardLine", "journal_path", "read_journal"]

_VERSION = 1
_BLOCK = 512


@dataclass(frozen=True, kw_only=True, eq=False)
class ShardLine:
    """One committed shard.

    Attributes:
        leg: of the run.
        next: the place in the leg's order that comes after it.
        record: for the listing.
        tally: of its samples.
        misnamed: pictures of another format than their name says.
        contents: uint64, a hash for each sample, where duplicates are looked for; else empty.
    """

    leg: int
    next: int
    record: ShardRecord
    tally: Tally
    misnamed: int = 0
    contents: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))

    def json(self) -> dict[str, Any]:
        """As it stands in the journal."""
        record = self.record
        blocks = np.diff(record.offsets, prepend=np.uint64(0)) // np.uint64(_BLOCK)
        return {
            "leg": self.leg,
            "next": self.next,
            "url": record.url,
            "bytes": record.bytes,
            "checksum": record.checksum,
            "blocks": _text(zlib.compress(blocks.astype("<u8").tobytes(), 1)),
            "tally": self.tally.state(),
            "misnamed": self.misnamed,
            "contents": _text(self.contents.astype("<u8").tobytes()),
        }

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Self:
        """The line that was written so."""
        blocks = np.frombuffer(zlib.decompress(base64.b64decode(facts["blocks"])), "<u8").astype(np.uint64)
        record = ShardRecord(
            url=facts["url"],
            samples=len(blocks) - 1,
            bytes=facts["bytes"],
            offsets=np.cumsum(blocks) * np.uint64(_BLOCK),
            checksum=facts["checksum"],
        )
        return cls(
            leg=facts["leg"],
            next=facts["next"],
            record=record,
            tally=Tally.of(facts["tally"]),
            misnamed=facts["misnamed"],
            contents=np.frombuffer(base64.b64decode(facts["contents"]), "<u8").astype(np.uint64),
        )


@dataclass(kw_only=True)
class Kept:
    """What a journal says.

    Attributes:
        head: what was being made, and of what.
        shards: those that were committed, in order.
        failed: by leg the places of the samples that are not in the shards, up to the last shard's `next`.
        lines: of the journal that are whole.
    """

    head: Mapping[str, Any]
    shards: list[ShardLine] = field(default_factory=list)
    failed: dict[int, set[int]] = field(default_factory=dict)
    lines: int = 1

    @property
    def position(self) -> tuple[int, int]:
        """The leg and the place in it that come next."""
        return (self.shards[-1].leg, self.shards[-1].next) if self.shards else (0, 0)


def journal_path(folder: Path, stem: str) -> Path:
    """Where the journal of the run that writes `stem` into `folder` lies."""
    return folder / f".{stem}.journal"


def read_journal(path: Path) -> Kept | None:
    """What the journal at `path` says; None where there is none, or where it was cut before its first line was whole.

    Raises:
        TargetError: it is no journal of ours, or of another version.
    """
    lines = _lines(path)
    head = next(lines, None)
    if head is None:
        return None
    kept = Kept(head=_head(head, path))
    failed: list[tuple[int, int]] = []
    for line in lines:
        try:
            if "shard" in line:
                kept.shards.append(ShardLine.of(line["shard"]))
            else:
                failed.append((line["failed"][0], line["failed"][1]))
        except (KeyError, TypeError, ValueError, zlib.error):
            break
        kept.lines += 1
    for leg, place in failed:
        if (leg, place) < kept.position:
            kept.failed.setdefault(leg, set()).add(place)
    return kept


class Journal:
    """A journal that is being written. Made by `begin` or `resume`; to be closed, or removed when the run is whole."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path = path
        self._file = file

    @classmethod
    def begin(cls, path: Path, head: Mapping[str, Any]) -> Self:
        """A new journal, in place of one that is there."""
        with translated(path):
            journal = cls(path, path.open("wb"))
            sync_folder(path.parent)
        journal._append({"journal": _VERSION, **head})
        journal.sync()
        return journal

    @classmethod
    def resume(cls, path: Path, kept: Kept) -> Self:
        """The journal that was read, without what comes after its last shard."""
        write_atomic(path, _kept_lines(path, kept))
        with translated(path):
            return cls(path, path.open("ab"))

    def shard(self, line: ShardLine) -> None:
        """Note a shard that the disk has. A kill leaves the line there; for a power cut it has to be synced."""
        self._append({"shard": line.json()})
        with translated(self.path):
            self._file.flush()

    def failed(self, leg: int, place: int, failure: Failure) -> None:
        """Note a sample that is not in the shards. It need not be on the disk before the next shard is."""
        self._append({"failed": [leg, place, *failure]})

    def failures(self, leg: int) -> Iterator[Failure]:
        """All that could not be packed in a leg, in order."""
        with translated(self.path):
            self._file.flush()
        for line in _lines(self.path):
            if "failed" in line and line["failed"][0] == leg:
                yield Failure(*line["failed"][2:])

    def sync(self) -> None:
        """Wait until the disk has all of it. From any thread."""
        with translated(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Leave it for the next run. Twice does nothing."""
        with contextlib.suppress(OSError):  # what could not be written is made again; the error that led here counts
            self._file.close()

    def remove(self) -> None:
        """The run is whole, or nothing of it is."""
        self.close()
        with translated(self.path):
            self.path.unlink(missing_ok=True)

    def _append(self, line: Mapping[str, Any]) -> None:
        with translated(self.path):
            self._file.write(_packed(line))


def _kept_lines(path: Path, kept: Kept) -> Iterator[bytes]:
    for line in islice(_lines(path), kept.lines):
        if "failed" not in line or tuple(line["failed"][:2]) < kept.position:
            yield _packed(line)


def _packed(line: Mapping[str, Any]) -> bytes:
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines, up to the first that a kill or a power cut has damaged."""
    try:
        with path.open("rb") as file:
            for line in file:
                facts = json.loads(line) if line.endswith(b"\n") else None
                if not isinstance(facts, dict):
                    return
                yield facts
    except (FileNotFoundError, ValueError):
        return


def _head(line: dict[str, Any], path: Path) -> dict[str, Any]:
    if line.get("journal") != _VERSION:
        raise TargetError(
            f"the journal is of version {line.get('journal')!r}, this writes {_VERSION}",
            url=str(path),
            cure="Go on with the version that began, or pass overwrite=True (--overwrite) to start anew.",
        )
    return {key: value for key, value in line.items() if key != "journal"}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
