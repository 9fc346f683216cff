"""One part of a run that an engine works off: packed, gone on with, or found to be whole already.

Anyone may be asked for any part, any number of times: a part that is whole is read off its listings, one that was begun
goes on by its journal. In a folder that all machines see the journal lies beside the shards. On its way into a store it
lies on the machine that packs, so a machine that never had the part, since another one was lost, or whose journal knows
of shards that are not there any more, begins the part anew. The bytes are the same either way.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from shardwriter.failures import DUPLICATE
from shardwriter.journal import read_journal
from shardwriter.plan import Leg
from shardwriter.resume import check_kept
from shardwriter.summary import PackSummary, total
from shardwriter.task import Task
from shardwriter.watch import Watch
from wds_tools.errors import ListingError, TargetError

__all__ = ["pack_part"]


def pack_part(task: Task, number: int, parts: int, watch: Watch) -> PackSummary:
    """Do what is missing of part `number` of `parts`.

    Raises:
        TargetError: it was begun, or made, of another input or with other settings.
        ShardstreamError: as `Task.run`.
    """
    mine = dataclasses.replace(task, part=(number, parts), overwrite=False)
    legs = mine.targets()
    if not mine.journal().exists() and all(leg.target.has(str(leg.target.listing)) for leg in legs):
        made = {leg.name: _whole(mine, leg) for leg in legs}
        summary = total(made) if len(made) > 1 else next(iter(made.values()))
        watch.begin(summary.packed + summary.duplicates + sum(summary.failed.values()))
        return summary
    return dataclasses.replace(mine, overwrite=_is_out_of_reach(mine, legs)).run(watch)


def _is_out_of_reach(task: Task, legs: list[Leg]) -> bool:
    """Whether what lies in a store of this part was made elsewhere, or is no more what this machine remembers."""
    if task.place.base is None:
        return False
    kept = read_journal(task.journal())
    if kept is None:
        return True
    try:
        check_kept(legs, kept)
    except TargetError:
        return True
    return False


def _whole(task: Task, leg: Leg) -> PackSummary:
    """The summary of a part that is there, as its run gave it."""
    listing = str(leg.target.listing)
    facts = _facts(leg, listing)
    if facts.get("run") != task.identity():
        raise TargetError(
            f"{leg.target.place} holds {listing}, which was made of another input or with other settings",
            cure="Repeat the call that began it to go on, or pass overwrite=True (--overwrite) to start anew.",
        )
    shards, failed = facts["shardlist"], dict(facts.get("failed", {}))
    duplicates = failed.pop(DUPLICATE, 0)
    packed = sum(shard["nsamples"] for shard in shards)
    return PackSummary(
        packed=packed,
        shards=len(shards),
        bytes=sum(shard["filesize"] for shard in shards),
        classes=tuple(facts.get("classes", ())),
        failed=failed,
        skipped=dict(sorted(task.samples.skipped.items())),
        misnamed=facts["misnamed"],
        listing=leg.target.named(listing) if shards else None,
        failures=leg.target.named(leg.failures) if failed or duplicates else None,
        duplicates=duplicates,
        resumed=packed,
    )


def _facts(leg: Leg, listing: str) -> dict[str, Any]:
    try:
        facts = json.loads(leg.target.read(listing))
        if not isinstance(facts["shardlist"], list):
            raise ListingError("the listing has no shards", url=str(leg.target.named(listing)))
    except (ValueError, KeyError, TypeError) as error:
        raise ListingError("the listing of a part is damaged", url=str(leg.target.named(listing))) from error
    return dict(facts)
