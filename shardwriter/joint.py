"""A run that is cut into parts: what may lie in its target beforehand, and the parts joined into one dataset.

While it goes on, shards and listings of parts lie in the target, `NAME-i-of-n-000000.tar` and `NAME-i-of-n.json`. When
all are whole, their listings, reports and originals are joined as `wds index --merge` does it, and the files of the
parts but their shards are removed: what is left is a dataset like any other. A run that was stopped, be it after some
of its splits were joined, goes on when it is called again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from shardwriter.inputs import ClassFolders
from shardwriter.journal import journal_path
from shardwriter.place import Place
from shardwriter.plan import FAILURES_NAME, Leg, targets
from shardwriter.settings import Settings
from shardwriter.sink import translated
from shardwriter.summary import PackSummary, advice, total
from shardwriter.target import Claim, Target, remove
from shardwriter.task import Task
from wds_tools.delivery import Delivery
from wds_tools.errors import TargetError
from wds_tools.index.listing import LISTING_NAME
from wds_tools.merge_lines import merge_lines
from wds_tools.merge_listings import merge_listings
from wds_tools.tally import absent_classes

__all__ = ["Joint", "check_joined", "check_parts_free", "clear_joined"]

_CURE = "Repeat the call that began it to go on, or pass overwrite=True (--overwrite) to start anew."


class Joint:
    """The whole of a run in parts.

    Args:
        task: the run, of all of its input.
        parts: how many.
    """

    def __init__(self, task: Task, parts: int) -> None:
        self._task = task
        self._parts = parts
        self._place = task.place
        self._legs = task.targets()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep a second run in parts out while the block runs, refuse what lies there, or remove it where asked.

        Raises:
            TargetError: another dataset or the beginnings of another run, or another run is at work there.
        """
        home, name = self._place.home, self._task.settings.name
        with translated(home):
            home.mkdir(parents=True, exist_ok=True)
        with Claim(home, [f"{name}.parts"]) as claim:
            for leg in self._legs:
                if claim.locked and leg.folder.is_dir():
                    leg.target.clear_leftovers(leg.own)  # of a join that was killed; what parts leave, they clear
            if self._task.overwrite:
                self._clear()
            self._check_free()
            if self._is_half_cleared():  # killed at its very end: all is there, and is not packed again
                self._clear_parts()
                self._check_free()
            yield

    def join(self, made: Mapping[int, PackSummary]) -> PackSummary:
        """Make one dataset of all parts, whose summaries these are, and say what came of it."""
        summaries = {leg.name: self._join_leg(leg, made) for leg in self._legs}
        self._clear_parts()
        self._place.leave()
        return total(summaries) if len(summaries) > 1 else next(iter(summaries.values()))

    def _check_free(self) -> None:
        check_parts_free(self._place, self._task.settings, self._parts)

    def _is_half_cleared(self) -> bool:
        """Whether all is joined, and listings are gone without which the parts cannot be joined again."""
        if not all(_is_joined(leg.target) for leg in self._legs):
            return False
        return not all(target.has(str(target.listing)) for target in (leg.target for leg in self._legs_of_parts()))

    def _legs_of_parts(self) -> Iterator[Leg]:
        for number in range(self._parts):
            yield from targets(self._place, self._task.settings, (number, self._parts))

    def _clear_parts(self) -> None:
        """Remove what lies beside the parts' shards, now that it is joined."""
        for leg in self._legs_of_parts():
            leg.target.remove([name for name in (leg.target.listing, leg.target.offsets) if name is not None])
            leg.target.remove([leg.failures, leg.originals])
        self._clear_locks()

    def _clear_locks(self) -> None:
        """Remove what parts that were killed behind their last step left: the empty files of their locks."""
        names = "|".join({re.escape(name) for name in (self._task.settings.name, *(leg.name for leg in self._legs))})
        of_part = re.compile(rf"\.((?:{names})-\d+-of-{self._parts}(?:-%\d+d\.tar|\.json|\.journal))\.lock")
        for folder in {self._place.home, *(leg.folder for leg in self._legs)}:
            for path in folder.iterdir() if folder.is_dir() else ():
                if (found := of_part.fullmatch(path.name)) is not None:
                    Claim(folder, [found[1]]).release()

    def _join_leg(self, leg: Leg, made: Mapping[int, PackSummary]) -> PackSummary:
        each = [made[number].splits.get(leg.name, made[number]) for number in range(self._parts)]
        place, remote = str(leg.target.named("")), self._task.remote
        listing = None
        if any(summary.packed for summary in each):
            names = [self._part(leg, number).target for number in range(self._parts)]
            listing = merge_listings([_named(target) for target in names], out=place, force=True, remote=remote).listing
        elif reports := [str(summary.failures) for summary in each if summary.failures is not None]:
            with Delivery(place, remote) as delivery:
                merge_lines(delivery, FAILURES_NAME, reports, remote)
        return self._summary(leg, each, listing)

    def _part(self, leg: Leg, number: int) -> Leg:
        legs = targets(self._place, self._task.settings, (number, self._parts))
        return next(other for other in legs if other.name == leg.name)

    def _summary(self, leg: Leg, each: list[PackSummary], listing: Path | str | None) -> PackSummary:
        samples, settings = self._task.samples, self._task.settings
        whole = total({str(number): summary for number, summary in enumerate(each)})
        failures = leg.target.named(FAILURES_NAME) if whole.failed or whole.duplicates else None
        return replace(
            whole,
            listing=listing,
            failures=failures,
            empty=samples.empty if isinstance(samples, ClassFolders) else _absent(leg.target, listing),
            advice=advice(whole.shards, whole.bytes, settings.max_samples, settings.max_bytes, parts=self._parts),
            splits={},
        )

    def _clear(self) -> None:
        for leg in self._legs:
            if not _is_joined(leg.target):
                leg.check_free(overwrite=True)
        for leg in self._legs:
            leg.clear()
            leg.target.remove(name for name, _ in _files_of_parts(leg.target))
        remove([journal_path(self._place.home, self._task.settings.name)])


def check_parts_free(place: Place, settings: Settings, parts: int | None) -> None:
    """Read what lies there; nothing is changed. `parts` is None where their number is not known yet.

    Raises:
        TargetError: a dataset, or the beginnings of a run in one piece or in another number of parts.
    """
    if journal_path(place.home, settings.name).exists():
        raise TargetError(f"{place} holds the beginning of a run in one piece, not in parts", cure=_CURE)
    legs = targets(place, settings, None)
    joined = [leg for leg in legs if _is_joined(leg.target)]
    kept = [leg for leg in joined if _has_files_of_parts(leg.target)]
    if joined and (not kept or len(kept) < len(joined) < len(legs)):
        raise _taken(joined[0])
    for leg in legs:
        if leg not in joined:  # of several datasets some, or all, were joined when the run was stopped
            leg.target.check_free(overwrite=False)
        others = {count for _, count in _files_of_parts(leg.target)} - {parts}
        if others and parts is not None:
            raise TargetError(
                f"{leg.target.place} holds the beginning of a run in {min(others):,} parts, not {parts:,}", cure=_CURE
            )


def check_joined(legs: Iterable[Leg], *, overwrite: bool) -> list[Leg]:
    """The legs of a run in one piece but those that hold a dataset joined of parts, which it replaces if asked to.

    Raises:
        TargetError: there is one, and `overwrite` is off.
    """
    legs = list(legs)
    joined = [leg for leg in legs if _is_joined(leg.target)]
    if joined and not overwrite:
        raise _taken(joined[0])
    return [leg for leg in legs if leg not in joined]


def clear_joined(task: Task) -> None:
    """Remove datasets that were joined of parts, whose place a run in one piece is to take."""
    joined = [leg for leg in task.targets() if _is_joined(leg.target)]
    if joined:
        home = task.place.home
        with translated(home):
            home.mkdir(parents=True, exist_ok=True)
        with Claim(home, [f"{task.settings.name}.parts"]):
            for leg in joined:
                leg.clear()
                leg.target.remove(name for name, _ in _files_of_parts(leg.target))


def _absent(target: Target, listing: Path | str | None) -> tuple[str, ...]:
    """The classes of which the joined dataset has no sample."""
    facts = {} if listing is None else json.loads(target.read(LISTING_NAME))
    return absent_classes(facts.get("classes", ()), facts.get("labels", {}))


def _taken(leg: Leg) -> TargetError:
    return TargetError(
        f"{leg.target.place} already holds {LISTING_NAME}, joined of parts",
        cure="Write to another folder, or pass overwrite=True (--overwrite) to replace it.",
    )


def _is_joined(target: Target) -> bool:
    """Whether a dataset lies there that parts were joined to."""
    if not target.has(LISTING_NAME):
        return False
    try:
        names = [shard["url"] for shard in json.loads(target.read(LISTING_NAME))["shardlist"]]
        return all(_of_part(target).fullmatch(name) for name in names)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _has_files_of_parts(target: Target) -> bool:
    """Whether parts have left more than their shards there: it is not over yet."""
    return any(not name.endswith(".tar") for name, _ in _files_of_parts(target))


def _files_of_parts(target: Target) -> Iterator[tuple[str, int]]:
    """Name of each file that parts have left, and the number of parts."""
    for name in target.names():
        if (found := _of_part(target).fullmatch(name)) is not None:
            yield name, int(found[1])


def _of_part(target: Target) -> re.Pattern[str]:
    endings = r"-\d{6,}\.tar|\.json|\.offsets\.npy|\.failures\.jsonl|\.keys\.tsv|\.journal"
    return re.compile(rf"\.?{re.escape(target.prefix)}\d+-of-(\d+)(?:{endings})")


def _named(target: Target) -> Path | str:
    return target.named(str(target.listing))
