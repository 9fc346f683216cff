"""A run of packing as a value: what, how and where to, of all of an input or one part of it.

A `Task` is frozen and pickles where its input does, so that an engine sends it anywhere (shardwriter.engines). Nothing
happens before `run`. What it makes is a function of the input, the settings and the part.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardwriter.finish import Finish, write_failures
from shardwriter.inputs import Input
from shardwriter.inputs.base import digest
from shardwriter.journal import journal_path
from shardwriter.place import Place, place_of
from shardwriter.plan import Leg, plan, targets
from shardwriter.run import Run
from shardwriter.settings import Part, Settings
from shardwriter.summary import PackSummary, total
from shardwriter.watch import Watch
from wds_tools import __version__
from wds_tools.errors import TooManyFailuresError, UsageError
from wds_tools.sources.options import Remote

__all__ = ["Task"]


@dataclass(frozen=True, kw_only=True)
class Task:
    """One run.

    Attributes:
        samples: the input.
        out: where it goes: an absolute path, or the url of a place in a store.
        settings: how.
        command: what the listing says made it.
        part: which part of the input, None for all of it.
        jobs: threads that prepare samples.
        max_failures: how many samples may fail before the run ends, None for any number.
        overwrite: whether to remove what lies there and begin anew.
        remote: how a store is asked.
    """

    samples: Input = field(repr=False)
    out: str
    settings: Settings
    command: str
    part: Part | None = None
    jobs: int = 1
    max_failures: int | None = None
    overwrite: bool = False
    remote: Remote | None = field(default=None, repr=False)

    @property
    def place(self) -> Place:
        """Where it goes, as this machine sees it."""
        return place_of(self.out, self.remote, part=self.part)

    def targets(self) -> list[Leg]:
        """Where its datasets go, without the order of their samples."""
        return targets(self.place, self.settings, self.part)

    def journal(self) -> Path:
        """Where its journal lies, while there is one."""
        place = self.place
        main = targets(place, self.settings, self.part)[-1]
        return journal_path(place.home, main.target.prefix.removesuffix("-"))

    def head(self) -> dict[str, Any]:
        """What a stopped run is compared by, as JSON gives it back.

        Raises:
            UsageError: a fingerprint that is no JSON.
        """
        head = {
            "version": __version__,
            "settings": self.settings.described(),
            "input": dict(self.samples.fingerprint()),
            "part": self.part,
        }
        try:
            copy: dict[str, Any] = json.loads(json.dumps(head))
        except (TypeError, ValueError) as error:
            raise UsageError(f"the fingerprint of the input cannot be written as JSON: {error}") from error
        return copy

    def identity(self) -> str:
        """What parts of one run have in common: settings and input, wherever its files lie."""
        return _identity(self.head())

    def run(self, watch: Watch) -> PackSummary:
        """Do what is missing of it.

        Raises:
            TargetError: another dataset lies there, or the beginnings of another run; the message says what differs.
            TooManyFailuresError: more samples failed than may.
            UnavailableError: the disk is full, or the store cannot be reached.
        """
        place, head = self.place, self.head()
        run = Run(
            self.samples,
            plan(self.samples, place, self.settings, self.part),
            self.settings,
            place=str(place),
            journal=self.journal(),
            head=head,
            overwrite=self.overwrite,
        )
        with run:
            try:
                run.pack(jobs=self.jobs, max_failures=self.max_failures, watch=watch)
            except TooManyFailuresError:
                write_failures(run)
                raise
            finish = Finish(
                run, self.samples, self.settings, part=self.part, command=self.command, identity=_identity(head)
            )
            made = {work.leg.name: finish.leg(number, work) for number, work in enumerate(run.legs)}
            run.finished()
        place.leave()
        return total(made) if len(made) > 1 else next(iter(made.values()))


def _identity(head: Mapping[str, Any]) -> str:
    """Of the head of a journal: but for the version, the part and where the input lies."""
    found = {"settings": head["settings"], "input": {**head["input"], "source": None}}
    return digest([json.dumps(found, sort_keys=True).encode()])
