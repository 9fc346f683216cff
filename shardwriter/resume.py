"""Whether what lies in a folder is the beginning of this very run, and what is left there to be cleared.

A journal is believed only if settings, part and input are what they were, every shard that it notes is there with its
size, and nothing else of the pattern is but the one shard that a kill may have left between its name and its line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shardwriter.journal import Kept
from shardwriter.plan import Leg
from wds_tools.errors import TargetError

__all__ = ["check_head", "check_kept", "drop_unnoted"]

_CURE = "Repeat the call that began it to go on, or pass overwrite=True (--overwrite) to start anew."
_LONGEST = 60
"""Signs of a value that a message shows; of longer ones (hashes, lists of names) it says only that they changed."""


def check_head(kept: Mapping[str, Any], now: Mapping[str, Any], place: str) -> None:
    """Compare what was begun with what is wanted.

    Raises:
        TargetError: something changed; the message names all of it.
    """
    changes = [change for topic in sorted({*kept, *now}) for change in _changes(topic, kept.get(topic), now.get(topic))]
    if changes:
        raise TargetError(f"{place} holds the beginning of another run: {'; '.join(changes)}", url=None, cure=_CURE)


def check_kept(legs: Sequence[Leg], kept: Kept) -> None:
    """Hold the journal's shards against what lies in the folders.

    Raises:
        TargetError: a shard is gone or has another size, or there are shards that the journal does not know.
    """
    sizes = [leg.target.sizes() for leg in legs]
    for line in kept.shards:
        size = sizes[line.leg].get(line.record.url)
        if size != line.record.bytes:
            found = "is gone" if size is None else f"has {size:,} bytes, not {line.record.bytes:,}"
            raise TargetError(
                f"the run in {legs[line.leg].target.place} cannot go on: its shard {line.record.url} {found}",
                cure="Bring that shard back, or pass overwrite=True (--overwrite) to start anew.",
            )
    for number, leg in enumerate(legs):
        if strangers := [name for name in _unnoted(number, leg, kept) if name != _following(number, leg, kept)]:
            raise TargetError(
                f"the run in {leg.target.place} cannot go on: it made no shard {strangers[0]}",
                cure="Move that shard away, or pass overwrite=True (--overwrite) to start anew.",
            )


def drop_unnoted(legs: Sequence[Leg], kept: Kept) -> None:
    """Remove the shard that got its name and no line. After `check_kept`; for the holder of the claims only."""
    for number, leg in enumerate(legs):
        leg.target.remove(_unnoted(number, leg, kept))


def _unnoted(number: int, leg: Leg, kept: Kept) -> list[str]:
    noted = {line.record.url for line in kept.shards if line.leg == number}
    return [name for name in leg.target.shards() if name not in noted]


def _following(number: int, leg: Leg, kept: Kept) -> str:
    return leg.target.shard(sum(line.leg == number for line in kept.shards)).name


def _changes(topic: str, before: Any, now: Any) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        of = "" if topic == "settings" else f" of the {topic}"
        for name in sorted({*before, *now}):
            if before.get(name) != now.get(name):
                yield f"{name}{of}{_change(before.get(name), now.get(name))}"
    elif before != now:
        yield f"{topic}{_change(before, now)}"


def _change(before: Any, now: Any) -> str:
    old, new = (json.dumps(value) for value in (before, now))
    return f" was {old}, is {new}" if len(old) + len(new) <= _LONGEST else " changed"
