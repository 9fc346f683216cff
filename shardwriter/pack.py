"""pack: from loose files to shards, in one call.

    summary = pack("pictures/", "out/", name="train", seed=0)

The input says what the samples are (shardwriter.inputs), a permutation by the seed in which order they are packed: over
the whole input, since shards in the order of their classes mix badly later. The listing says whether and by which seed.
Same input, options and seed give the same bytes, in whatever order the file system lists its folders.

Each sample is read, checked and written, in turn; bytes are never changed. What cannot be read or shown is not packed
but reported: a line in `failures.jsonl` beside the shards with path, kind and reason, and a count by kind. A picture
whose bytes are of another format than its name says is packed as it is, and counted: readers go by the bytes.

Beside the shards lie `dataset.json` with its offsets and, where there are classes, `classes.txt`, one name a line.
Everything is checked before the first byte is written, and the listing is written last.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, Self

from shardwriter.check import Check, Checker, failure_kind
from shardwriter.inputs import ClassFolders, Input, class_folders, empty_classes
from shardwriter.order import check_seed, shuffled
from shardwriter.target import parse_pattern
from shardwriter.writer import ShardWriter
from wds_tools.atomic import write_atomic
from wds_tools.errors import FieldRefusedError, KeyRefusedError, SampleError, TargetError, UsageError
from wds_tools.index.listing import LISTING_NAME
from wds_tools.pictures.options import Pictures
from wds_tools.sample import Sample

__all__ = ["CLASSES_NAME", "FAILURES_NAME", "PackSummary", "pack"]

CLASSES_NAME = "classes.txt"
FAILURES_NAME = "failures.jsonl"


class Prepare(Protocol):
    """A stage between reading and writing, such as a transcoder."""

    def prepare(self, sample: Sample) -> Sample:
        """The sample to pack in place of this one.

        Raises:
            SampleError, FieldRefusedError: it cannot be made. It is reported, and packing goes on.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class PackSummary:
    """What came of it.

    Attributes:
        packed: samples in the shards.
        shards: how many shards.
        bytes: of all shards, as they lie on disk.
        classes: the classes' names in the order of their labels, empty where the input has none.
        failed: kind to count of samples that could not be packed: unreadable, truncated, damaged, too large,
            unsupported, refused (a name that cannot be a key).
        skipped: reason to count of files that the input left out.
        misnamed: pictures packed whose bytes are of another format than their name says.
        listing: the listing, None where nothing was packed.
        failures: the file with a line for each failure, None where there was none.
        empty: the classes for which the input has no pictures. They keep their labels.
    """

    packed: int
    shards: int
    bytes: int
    classes: tuple[str, ...]
    failed: Mapping[str, int]
    skipped: Mapping[str, int]
    misnamed: int
    listing: Path | None
    failures: Path | None
    empty: tuple[str, ...] = ()

    def __str__(self) -> str:
        what = (
            f"{_many(self.packed, 'picture', 'pictures')} of {_many(len(self.classes), 'class', 'classes')}"
            if self.classes
            else _many(self.packed, "sample", "samples")
        )
        lines = [
            f"packed {what} into {_many(self.shards, 'shard', 'shards')}, {self.bytes / 1e6:,.1f} MB: {self.listing}"
            if self.listing
            else "packed nothing"
        ]
        if self.failed:
            lines.append(f"not packed: {_counted(self.failed)}; see {self.failures}")
        if self.skipped:
            lines.append(f"left out: {_counted(self.skipped)}")
        if self.empty:
            lines.append(f"warning: {empty_classes(self.empty)}")
        if self.misnamed:
            lines.append(f"packed as they are: {self.misnamed:,} of another format than their name says")
        return "\n".join(lines)


def _many(count: int, one: str, more: str) -> str:
    return f"{count:,} {one if count == 1 else more}"


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in counts.items())


def pack(
    source: str | os.PathLike[str] | Input,
    out: str | os.PathLike[str],
    *,
    name: str = "train",
    max_samples: int | None = 10_000,
    max_bytes: int | None = 1_000_000_000,
    seed: int = 0,
    shuffle: bool = True,
    check: Check = "header",
    pictures: Pictures | None = None,
    transcode: Prepare | None = None,
    overwrite: bool = False,
    progress: Callable[[int], object] | None = None,
) -> PackSummary:
    """Pack an input into shards `out/NAME-000000.tar` and so on.

    Args:
        source: a folder of class folders, or any `Input`.
        out: the folder for the shards; made if missing. One folder a dataset: its listing is `dataset.json`.
        name: what the shards' names begin with.
        max_samples: the most samples of a shard, None for no limit.
        max_bytes: the most bytes of a shard's file, None for no limit.
        seed: of the order, 0 to 2**64 - 1.
        shuffle: off keeps the order of the input.
        check: "header" or "decode": how far pictures are checked (shardwriter.check).
        pictures: the limit of pixels, as the readers will have it.
        transcode: what makes of each sample the one that is packed; its `prepare` is called from any thread.
        overwrite: replace the dataset of the same name that lies in `out`.
        progress: called with 1 after each sample of the input.

    Raises:
        UsageError: an option or an input that cannot be; TargetError: `out` holds another dataset.
        UnavailableError: the disk is full, or a folder cannot be read.
    """
    check_seed(seed)
    checker = Checker(check, Pictures() if pictures is None else pictures)
    pattern = check_target(source, out, name=name, overwrite=overwrite)
    samples = class_folders(source) if isinstance(source, str | os.PathLike) else source
    extra = {**samples.facts(), "shuffled": shuffle, **({"seed": seed} if shuffle else {})}
    order: Iterable[int] = map(int, shuffled(len(samples), seed)) if shuffle else range(len(samples))
    writer = ShardWriter(pattern, max_samples=max_samples, max_bytes=max_bytes, overwrite=overwrite, extra=extra)
    with _Failures() as failures, writer:
        for index in order:
            _pack_one(samples, index, checker, transcode, writer, failures)
            if progress is not None:
                progress(1)
        writer.sync()  # so that a disk that is full now leaves no classes.txt without shards
        _write_beside(Path(out), samples, failures)
    records = writer.records
    return PackSummary(
        packed=sum(record.samples for record in records),
        shards=len(records),
        bytes=sum(record.bytes for record in records),
        classes=_classes(samples),
        failed=dict(sorted(failures.counts.items())),
        skipped=dict(sorted(samples.skipped.items())),
        misnamed=checker.misnamed,
        listing=Path(out) / LISTING_NAME if records else None,
        failures=Path(out) / FAILURES_NAME if failures.counts else None,
        empty=samples.empty if isinstance(samples, ClassFolders) else (),
    )


def check_target(
    source: str | os.PathLike[str] | Input, out: str | os.PathLike[str], *, name: str, overwrite: bool
) -> Path:
    """The pattern of the shards, after a look at what lies there: cheap, for before the input is read.

    Raises:
        UsageError: a name that is no name, or `out` within the source; TargetError: `out` holds something already.
    """
    if not name or "/" in name or "%" in name:
        raise UsageError(f"name is {name!r}, expected the beginning of a file name, such as 'train'")
    folder = Path(out)
    root = Path(source) if isinstance(source, str | os.PathLike) else getattr(source, "root", None)
    if isinstance(root, Path) and folder.resolve().is_relative_to(root.resolve()):
        raise UsageError(
            f"the target {folder} lies inside the source, where the next run would take it for a class",
            cure="Write to a folder outside.",
        )
    pattern = folder / f"{name}-%06d.tar"
    parse_pattern(pattern, listing=LISTING_NAME).check_free(overwrite=overwrite)
    for beside in (CLASSES_NAME, FAILURES_NAME):
        if not overwrite and os.path.lexists(folder / beside):
            raise TargetError(
                f"{folder} already holds {beside}",
                cure="Write to another folder, or pass overwrite=True (--overwrite).",
            )
    return pattern


def _pack_one(
    samples: Input, index: int, checker: Checker, transcode: Prepare | None, writer: ShardWriter, failures: _Failures
) -> None:
    try:
        sample = samples.sample(index)
        checker.check(sample)
        sample = sample if transcode is None else transcode.prepare(sample)
    except (OSError, SampleError, KeyRefusedError, FieldRefusedError) as error:
        failures.add(samples.name(index), error)
        return
    try:
        writer.write(sample)
    except (KeyRefusedError, FieldRefusedError) as error:
        failures.add(samples.name(index), error)


def _classes(samples: Input) -> tuple[str, ...]:
    classes = samples.facts().get("classes", ())
    return tuple(map(str, classes)) if isinstance(classes, list | tuple) else ()


def _write_beside(folder: Path, samples: Input, failures: _Failures) -> None:
    if failures.counts:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / FAILURES_NAME, failures.pieces())
    else:
        (folder / FAILURES_NAME).unlink(missing_ok=True)
    if classes := _classes(samples):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / CLASSES_NAME, ["".join(f"{name}\n" for name in classes).encode(errors="surrogateescape")])


class _Failures:
    """What could not be packed, a JSON line each, in a nameless file until all is done: a kill leaves nothing."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._lines: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=1 << 20)  # noqa: SIM115 - closed by __exit__

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._lines.close()

    def add(self, path: str, error: Exception) -> None:
        kind = failure_kind(error)
        self.counts[kind] += 1
        reason = (
            (error.strerror or str(error))
            if type(error).__module__ == "builtins" and isinstance(error, OSError)
            else str(error)
        )
        self._lines.write(json.dumps({"path": path, "kind": kind, "reason": reason}).encode() + b"\n")

    def pieces(self) -> Iterable[bytes]:
        self._lines.seek(0)
        return iter(lambda: self._lines.read(1 << 20), b"")
