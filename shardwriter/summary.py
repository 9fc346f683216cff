"""What came of packing, in numbers and in words, and whether the shards are of a good size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from shardwriter.inputs.folders import empty_classes
from wds_tools.errors import counted

__all__ = ["PackSummary", "advice", "total"]

SMALL_BYTES, LARGE_BYTES = 20_000_000, 8_000_000_000
MANY_SHARDS, FEW_SHARDS = 64, 8
"""Few: a machine of eight GPUs gives each process one shard, where a loader deals out whole shards."""
WORTH_MORE_SHARDS = 2_000_000_000
GOOD_BYTES = 500_000_000


@dataclass(frozen=True, kw_only=True)
class PackSummary:
    """What came of it.

    Attributes:
        packed: samples in the shards.
        shards: how many shards.
        bytes: of all shards, as they lie on disk.
        classes: the classes' names in the order of their labels, empty where the input has none.
        failed: kind to count of samples that could not be packed: unreadable, truncated, damaged, too large,
            unsupported, missing field, bad field, refused (a name that cannot be a key, a value that no field holds).
        skipped: reason to count of files that the input left out.
        misnamed: pictures packed whose bytes are of another format than their name says.
        listing: the listing (in a store: its url), None where nothing was packed.
        failures: the file with a line for each failure and each duplicate, None where there was none.
        empty: the classes for which the input has no pictures, or of which nothing was chosen. They keep their labels.
        duplicates: samples that were left out because their pictures came before.
        resumed: samples of these that an earlier run had packed, which was stopped.
        advice: what may be wrong with the shards' sizes.
        splits: by name the summary of each dataset, where the input was split; else empty. The numbers above are those
            of all together then, and the listing that of the main one.
    """

    packed: int
    shards: int
    bytes: int
    classes: tuple[str, ...]
    failed: Mapping[str, int]
    skipped: Mapping[str, int]
    misnamed: int
    listing: Path | str | None
    failures: Path | str | None
    empty: tuple[str, ...] = ()
    duplicates: int = 0
    resumed: int = 0
    advice: tuple[str, ...] = ()
    splits: Mapping[str, PackSummary] = field(default_factory=dict)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        datasets = list(self.splits.values()) or [self]
        for dataset in datasets:
            yield _packed(dataset)
        for dataset in datasets:
            yield from _left_out(dataset)
        if self.resumed:
            yield f"went on where an earlier run was stopped: {counted(self.resumed, 'sample')} were there"
        if self.skipped:
            yield f"left out: {_by_kind(self.skipped)}"
        if self.empty:
            yield f"warning: {empty_classes(self.empty)}"
        if self.misnamed:
            yield f"packed as they are: {self.misnamed:,} of another format than their name says"
        for dataset in datasets:
            yield from (f"advice: {text}" for text in dataset.advice)


def _packed(dataset: PackSummary) -> str:
    if not dataset.listing:
        return "packed nothing"
    some = f"{len(dataset.classes) - len(dataset.empty):,} of " if dataset.empty else ""
    what = (
        f"{counted(dataset.packed, 'picture')} of {some}{counted(len(dataset.classes), 'class', 'classes')}"
        if dataset.classes
        else counted(dataset.packed, "sample")
    )
    return f"packed {what} into {counted(dataset.shards, 'shard')}, {dataset.bytes / 1e6:,.1f} MB: {dataset.listing}"


def _left_out(dataset: PackSummary) -> Iterator[str]:
    if dataset.failed:
        yield f"not packed: {_by_kind(dataset.failed)}; see {dataset.failures}"
    if dataset.duplicates:
        yield f"left out: {counted(dataset.duplicates, 'duplicate')}; see {dataset.failures}"


def _by_kind(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in counts.items())


def total(splits: Mapping[str, PackSummary]) -> PackSummary:
    """All datasets of a run in one; the last is the main one."""
    each = list(splits.values())
    main = each[-1]
    failed: dict[str, int] = {}
    for summary in each:
        for kind, count in summary.failed.items():
            failed[kind] = failed.get(kind, 0) + count
    return PackSummary(
        packed=sum(summary.packed for summary in each),
        shards=sum(summary.shards for summary in each),
        bytes=sum(summary.bytes for summary in each),
        classes=main.classes,
        failed=dict(sorted(failed.items())),
        skipped=main.skipped,
        misnamed=sum(summary.misnamed for summary in each),
        listing=main.listing,
        failures=main.failures,
        empty=main.empty,
        duplicates=sum(summary.duplicates for summary in each),
        resumed=sum(summary.resumed for summary in each),
        splits=splits,
    )


def advice(
    shards: int, size: int, max_samples: int | None, max_bytes: int | None, *, parts: int = 1
) -> tuple[str, ...]:
    """What to do about shards that are too small, too large, or too few.

    Args:
        shards: how many there are.
        size: bytes of all of them.
        max_samples: the limit they were made with, None for none.
        max_bytes: likewise.
        parts: how many the run was cut into.
    """
    return tuple(_advice(shards, size, max_samples, max_bytes, parts)) if shards else ()


def _advice(shards: int, size: int, max_samples: int | None, max_bytes: int | None, parts: int) -> Iterator[str]:
    mean = size / shards
    if shards > MANY_SHARDS and mean < SMALL_BYTES:
        yield (
            f"the shards are small, {mean / 1e6:,.1f} MB each, and every one is a file to open: "
            f"{_larger(shards, size, max_samples, max_bytes, parts)}"
        )
    elif mean > LARGE_BYTES:
        yield (
            f"the shards are large, {mean / 1e9:,.1f} GB each, and a broken copy or run begins anew with a shard: "
            "--max-bytes 1GB is the usual"
        )
    elif shards < FEW_SHARDS and size > WORTH_MORE_SHARDS and max_bytes is not None:
        yield (
            f"{shards} shards are few for loaders that deal out whole shards (ours do not): "
            f"--max-bytes {-(-size // 16 // 1_000_000)}MB makes 16 or more"
        )


def _larger(shards: int, size: int, max_samples: int | None, max_bytes: int | None, parts: int) -> str:
    """The option that makes shards of a good size, or one of all where all are less."""
    good = min(GOOD_BYTES, size)
    made = f"makes shards of about {good / 1e6:,.0f} MB" if size > good else "makes one of all"
    if shards <= 2 * parts:  # most parts are one shard, whatever the limits allow
        return f"--parts {max(1, size // good)} {made}"
    mean = size / shards
    if max_samples is None or (max_bytes is not None and mean > max_bytes / 2):
        return f"--max-bytes {-(-good // 1_000_000)}MB {made}"
    return f"--max-samples {_rounded_up(max_samples * good / mean)} {made}"


def _rounded_up(number: float) -> int:
    """To two digits, as a person would write it."""
    unit = 10 ** max(0, len(str(int(number))) - 2)
    return int(-(-number // unit) * unit)
