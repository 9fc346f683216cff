"""The end of a run: what lies beside the shards, the listing last, and the summary.

All of it follows from the state of the run, so a run that is killed in here ends in the same files when it goes on.
"""

from __future__ import annotations

from collections.abc import Iterable

from shardwriter.failures import DUPLICATE
from shardwriter.inputs import ClassFolders, Input
from shardwriter.keys import original_lines
from shardwriter.legwork import LegWork
from shardwriter.plan import CLASSES_NAME, Leg, Places
from shardwriter.run import Run
from shardwriter.settings import Part, Settings
from shardwriter.sink import translated
from shardwriter.summary import PackSummary, advice
from wds_tools.atomic import write_atomic
from wds_tools.index.listing import write_listing
from wds_tools.sample import BytesLike
from wds_tools.tally import absent_classes

__all__ = ["Finish", "write_failures"]


class Finish:
    """Ends the legs of a run.

    Args:
        run: over, but open still.
        samples: its input.
        settings: of the run.
        part: which part of the input it was, None for all.
        command: what the listing says made it.
        identity: what all parts of the run have in common, for the listings of parts.
    """

    def __init__(
        self, run: Run, samples: Input, settings: Settings, *, part: Part | None, command: str, identity: str
    ) -> None:
        self._run = run
        self._samples = samples
        self._settings = settings
        self._part = part
        self._command = command
        self._identity = identity
        classes = samples.facts().get("classes", ())
        self._classes = tuple(map(str, classes)) if isinstance(classes, list | tuple) else ()

    def leg(self, number: int, work: LegWork) -> PackSummary:
        """Write what lies beside the shards of a leg, and say what came of it."""
        leg, records = work.leg, work.shards.records
        _write_failures(self._run, number, work)
        if self._classes and leg.whole:
            text = "".join(f"{name}\n" for name in self._classes)
            _write(leg, CLASSES_NAME, [text.encode("utf-8", "surrogateescape")])
        if self._samples.renamed:
            _write(leg, leg.originals, original_lines(_Ordered(self._samples, leg.order)))
        listing = leg.folder / str(leg.target.listing)
        if records or self._part is not None:
            with translated(listing):
                write_listing(listing, records, name=leg.name, extra=self._extra(work), empty=self._part is not None)
            for name in (str(leg.target.offsets), listing.name):  # the listing last: all that it lists is there
                leg.target.publish(name, replace=True)
        return self._summary(work)

    def _extra(self, work: LegWork) -> dict[str, object]:
        """What the listing says beside the shards: nothing that a clock, a machine or the number of jobs decides."""
        records = work.shards.records
        extra: dict[str, object] = {**self._samples.facts(), **work.tally.facts()}
        extra |= {"bytes": sum(record.bytes for record in records), "command": self._command}
        extra["shuffled"] = self._settings.shuffle
        if self._settings.shuffle:
            extra["seed"] = self._settings.seed
        if work.failed.total():
            extra["failed"] = dict(sorted(work.failed.items()))
        if self._samples.renamed:
            extra["originals"] = work.leg.originals
        if self._part is not None:
            extra |= {"part": list(self._part), "tally": work.tally.state()}
            extra |= {"run": self._identity, "misnamed": work.misnamed}
        return extra

    def _summary(self, work: LegWork) -> PackSummary:
        leg, records, settings = work.leg, work.shards.records, self._settings
        size = sum(record.bytes for record in records)
        failed = {kind: count for kind, count in sorted(work.failed.items()) if kind != DUPLICATE}
        return PackSummary(
            packed=sum(record.samples for record in records),
            shards=len(records),
            bytes=size,
            classes=self._classes,
            failed=failed,
            skipped=dict(sorted(self._samples.skipped.items())),
            misnamed=work.misnamed,
            listing=leg.target.named(str(leg.target.listing)) if records else None,
            failures=leg.target.named(leg.failures) if work.failed.total() else None,
            empty=self._empty(work),
            duplicates=work.failed[DUPLICATE],
            resumed=work.resumed,
            advice=() if self._part else advice(len(records), size, settings.max_samples, settings.max_bytes),
        )

    def _empty(self, work: LegWork) -> tuple[str, ...]:
        """Classes without samples: of folders as they were read, else of what was packed; a part says nothing of it."""
        if isinstance(self._samples, ClassFolders):
            return self._samples.empty
        return () if self._part is not None else absent_classes(self._classes, work.tally.facts().get("labels", {}))


def write_failures(run: Run) -> None:
    """Write what could not be packed so far, where a run ends because it was too much."""
    for number, work in enumerate(run.legs):
        _write_failures(run, number, work)


def _write_failures(run: Run, number: int, work: LegWork) -> None:
    if work.failed.total():
        _write(work.leg, work.leg.failures, (failure.line() for failure in run.journal.failures(number)))
    else:
        work.leg.target.remove([work.leg.failures])  # of a run that ended at max_failures, and was mended since


def _write(leg: Leg, name: str, pieces: Iterable[BytesLike]) -> None:
    write_atomic(leg.folder / name, pieces)
    leg.target.publish(name, replace=True)


class _Ordered:
    """The names of an input's samples in another order."""

    def __init__(self, samples: Input, order: Places) -> None:
        self._samples = samples
        self._order = order

    def __len__(self) -> int:
        return len(self._order)

    def key(self, index: int) -> str:
        return self._samples.key(int(self._order[index]))

    def original(self, index: int) -> str:
        return self._samples.original(int(self._order[index]))
