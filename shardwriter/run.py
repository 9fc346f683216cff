"""One run of packing: open where it was, pack leg after leg, finish; or stop so that the same call goes on from there.

    with Run(samples, legs, settings, head=..., overwrite=...) as run:
        run.pack(...)
        run.finish(...)

The thread that runs this is the only one that writes. It takes prepared samples in the plan's order (`jobs`), asks
whether the key is new and whether the picture came before, appends to the open shard, and notes each shard that the
disk has in the journal. So what is written is a function of the plan, however many threads prepare.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from contextlib import closing
from operator import attrgetter
from pathlib import Path
from typing import Any, Self

import numpy as np

from shardwriter.failures import DUPLICATE, Failure
from shardwriter.inputs import Input
from shardwriter.jobs import in_order
from shardwriter.journal import Journal, Kept, ShardLine, read_journal
from shardwriter.known import Known
from shardwriter.legwork import LegWork, Opened
from shardwriter.plan import Leg
from shardwriter.resume import check_head, check_kept, drop_unnoted
from shardwriter.settings import Settings
from shardwriter.sink import translated
from shardwriter.stage import Prepared, Stage
from shardwriter.target import Claim, remove
from shardwriter.watch import Watch
from wds_tools.atomic import temporaries
from wds_tools.errors import TooManyFailuresError, UnavailableError, counted
from wds_tools.index.listing import ShardRecord

__all__ = ["Run"]

_log = logging.getLogger(__name__)
_size = attrgetter("size")
_GO_ON = "The same call goes on where this one ended."


class Run:
    """A run over one input. Used once, with `with`; what is whole stays, however the block ends.

    Args:
        samples: the input.
        legs: where its samples go, as `plan` says.
        settings: how.
        place: where it all goes, for messages.
        journal: where the journal lies.
        head: what the journal says of settings and input, in values that JSON knows.
        overwrite: whether to remove what lies there and begin anew.

    Raises:
        TargetError: on entering: the targets are taken, or hold another dataset or the beginnings of another run.
        UnavailableError: the disk is full, gone or read-only.
    """

    def __init__(
        self,
        samples: Input,
        legs: list[Leg],
        settings: Settings,
        *,
        place: str,
        journal: Path,
        head: Mapping[str, Any],
        overwrite: bool,
    ) -> None:
        self._samples = samples
        self._settings = settings
        self._place = place
        self._path = journal
        self._head = head
        self._overwrite = overwrite
        self.legs = [LegWork(leg, settings, self._on_commit, self._sync) for leg in legs]
        self._position = (0, 0)
        self._known = Known(samples)
        self._changed = False
        self._claim: Claim | None = None
        self._journal: Journal | None = None

    @property
    def journal(self) -> Journal:
        """The open journal."""
        if self._journal is None:
            raise RuntimeError("the run is not open")
        return self._journal

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *exc: object) -> None:
        self._end()
        if isinstance(error, UnavailableError | TooManyFailuresError) and self._kept_shards():
            error.cure = f"{error.cure.rstrip('.')}. {_GO_ON}" if error.cure else _GO_ON

    def pack(
        self,
        *,
        jobs: int,
        max_failures: int | None,
        watch: Watch,
    ) -> None:
        """Pack what is missing.

        Args:
            jobs: threads that prepare samples.
            max_failures: how many samples may fail before the run ends, None for any number.
            watch: is told how it goes.

        Raises:
            TooManyFailuresError: more samples failed.
            UnavailableError: the disk is full or gone.
        """
        stage = Stage(self._samples, self._settings)
        watch.begin(sum(len(work.leg.order) for work in self.legs[: self._position[0]]) + self._position[1])
        for number in range(self._position[0], len(self.legs)):
            self.legs[number].shards.write_behind = jobs > 1
            work, first = self.legs[number], self._position[1] if number == self._position[0] else 0
            order = work.leg.order[first:]
            ordered = in_order(stage, map(int, order), jobs=jobs, size=_size, light=self._settings.light)
            with closing(ordered) as prepared:
                for place, made in enumerate(prepared, start=first):
                    self._take(number, place, made)
                    if max_failures is not None:
                        self._check_failures(max_failures)
                    self._tell(watch.told)
                    watch.progress(1)
            work.shards.settle(self._note(number, len(work.leg.order)))
            self._tell(watch.told)

    def finished(self) -> None:
        """All that follows from the shards is written: nothing is left to resume."""
        self.journal.remove()

    def _open(self) -> None:
        with translated(self._path.parent):
            self._path.parent.mkdir(parents=True, exist_ok=True)
        self._claim = Claim(self._path.parent, [self._path.name.removeprefix(".")])
        claims = [work.shards.claim() for work in self.legs]
        locked = all(claim.locked for claim in claims)
        kept = None if self._overwrite else read_journal(self._path)
        if kept is None:
            self._begin(locked=locked)
        else:
            self._resume(kept, locked=locked)

    def _begin(self, *, locked: bool) -> None:
        for work in self.legs:
            work.leg.check_free(overwrite=self._overwrite)
        if self._overwrite:
            remove([self._path])
        if locked:
            self._clear_leftovers()
        if self._overwrite:
            for work in self.legs:
                work.leg.clear()
        self._journal = Journal.begin(self._path, self._head)

    def _clear_leftovers(self) -> None:
        for work in self.legs:
            work.leg.target.clear_leftovers(work.leg.own)
        remove(temporaries(self._path))  # of splits it lies above the legs' folders

    def _resume(self, kept: Kept, *, locked: bool) -> None:
        legs = [work.leg for work in self.legs]
        check_head(kept.head, self._head, self._place)
        check_kept(legs, kept)
        drop_unnoted(legs, kept)
        if locked:
            self._clear_leftovers()
        self._journal = Journal.resume(self._path, kept)
        self._position = kept.position
        begin = (0, 0)
        for line in kept.shards:
            work = self.legs[line.leg]
            work.shards.keep(line.record)
            work.take(line)
            work.resumed += line.record.samples
            first = begin[1] if begin[0] == line.leg else 0
            failed = kept.failed.get(line.leg, set())
            places = [place for place in range(first, line.next) if place not in failed]
            self._known.remember((int(work.leg.order[place]) for place in places), line.contents.tolist())
            begin = (line.leg, line.next)
        for number, work in enumerate(self.legs):
            work.failed.update(failure.kind for failure in self._journal.failures(number))
        _log.info("%s: going on behind %d shards", self._path, len(kept.shards))

    def _take(self, number: int, place: int, made: Prepared) -> None:
        work = self.legs[number]
        encoded = made.encoded
        failure = made.failure or self._known.duplicate(made) or self._known.key(made)
        if failure is not None or encoded is None:
            self._fail(number, place, failure)
            return
        if work.shards.full(encoded.size):
            work.shards.finish(self._note(number, place))
        work.shards.append(encoded.pieces, encoded.size)
        work.open.tally.add(zip(encoded.fields, encoded.values, strict=True), known=made.pictures)
        work.open.misnamed += made.misnamed
        if self._settings.dedup:
            work.open.contents.append(made.content)
            self._known.add(made.content, made.place)

    def _fail(self, number: int, place: int, failure: Failure | None) -> None:
        if failure is None:
            return
        self._changed = True
        self.legs[number].failed[failure.kind] += 1
        self.journal.failed(number, place, failure)

    def _check_failures(self, most: int) -> None:
        failed, _ = self._left_out()
        if failed > most:
            raise TooManyFailuresError(
                f"{counted(failed, 'sample')} could not be packed, and max_failures is {most:,}",
                cure=f"See {self.legs[-1].leg.failures} for the reasons; mend the input, or allow more.",
            )

    def _left_out(self) -> tuple[int, int]:
        """How many samples failed, and how many are duplicates."""
        duplicates = sum(work.failed[DUPLICATE] for work in self.legs)
        return sum(work.failed.total() for work in self.legs) - duplicates, duplicates

    def _tell(self, told: Callable[[str], object]) -> None:
        if not self._changed:
            return
        self._changed = False
        told(self._words())

    def _words(self) -> str:
        failed, duplicates = self._left_out()
        words = [counted(self._kept_shards(), "shard")]
        words += [f"{failed:,} not packed"] if failed else []
        words += [counted(duplicates, "duplicate")] if duplicates else []
        return ", ".join(words)

    def _note(self, number: int, following: int) -> tuple[int, int, Opened]:
        work = self.legs[number]
        ended, work.open = work.open, Opened()
        return number, following, ended

    def _sync(self) -> None:
        """Have the line of each shard on the disk before the next shard is there: so at most one lacks its line."""
        self.journal.sync()

    def _on_commit(self, record: ShardRecord, note: Any) -> None:
        number, following, ended = note
        line = ShardLine(
            leg=number,
            next=following,
            record=record,
            tally=ended.tally,
            misnamed=ended.misnamed,
            contents=np.array(ended.contents, np.uint64),
        )
        self._changed = True
        self.journal.shard(line)
        self.legs[number].take(line)

    def _kept_shards(self) -> int:
        return sum(len(work.shards.records) for work in self.legs)

    def _end(self) -> None:
        """Let pending shards come through, remove half ones, give the targets back."""
        try:
            for work in self.legs:
                committed = work.shards.end()
                if committed is not None and self._journal is not None:
                    with contextlib.suppress(UnavailableError):  # what it does not note the next run makes again
                        self._on_commit(committed.record, committed.note)
        finally:
            if self._journal is not None:
                self._journal.close()
                if not self._kept_shards():
                    self._journal.remove()
            if self._claim is not None:
                self._claim.release()
