"""Where a run stands, in under 400 bytes of JSON that any world size and number of threads can go on from.

The same on all ranks, since `position` counts samples of the whole job. The fingerprint is over each shard's (samples,
bytes) in order and not over urls, so a copy of the dataset elsewhere is accepted; the totals let an error say what
changed.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loaders.job import Cursor
from loaders.selection import AnyPlan
from wds_tools.errors import StateError
from wds_tools.pictures import decode

__all__ = ["VERSION", "State", "backend", "state_of"]

VERSION = 1

log = logging.getLogger(__name__)


def backend() -> str:
    """What decodes pictures here: two backends may differ by a grey level."""
    return str(decode.BACKEND)


@dataclass(frozen=True, kw_only=True)
class State:
    """The state's content; `as_dict` and `of_dict` are its JSON form.

    Attributes:
        version: of this format.
        seed, shuffle, lanes, block, tail: the plan's options, `block` in samples.
        epoch: the epoch that goes on.
        position: samples of the whole job that were handed out in it.
        backend: what decoded the pictures.
        shards, samples, bytes, fingerprint: what the dataset was.
    """

    version: int
    seed: int
    epoch: int
    position: int
    shuffle: bool
    lanes: int
    block: int
    tail: str
    backend: str
    shards: int
    samples: int
    bytes: int
    fingerprint: str

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def of_dict(cls, state: Mapping[str, Any]) -> State:
        """The inverse of `as_dict`.

        Raises:
            StateError: a field is missing, foreign or of the wrong type.
        """
        types = {field.name: _TYPES[str(field.type)] for field in dataclasses.fields(cls)}
        if not isinstance(state, Mapping) or set(state) != set(types):
            got = sorted(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
            raise StateError(f"the state has {got}, expected {sorted(types)}", cure="Pass what state_dict() returned.")
        for name, kind in types.items():
            if type(state[name]) is not kind or (kind is int and state[name] < 0):
                raise StateError(f"the state has {name}={state[name]!r}, expected {kind.__name__}")
        if state["version"] != VERSION:
            raise StateError(
                f"the state has version {state['version']}, this program reads {VERSION}",
                cure="Resume with the version of shardstream that wrote it.",
            )
        return cls(**state)

    def check(self, plan: AnyPlan, pixels: str | None = None) -> None:
        """Raise StateError where the plan is not the one that the state was taken from, naming every difference.

        Args:
            plan: that is run now.
            pixels: what makes the pixels now; None means `backend()`.
        """
        now = state_of(plan, Cursor(self.epoch, self.position), pixels)
        changed = [
            f"{_LABELS[name]} was {getattr(self, name)!r}, now {getattr(now, name)!r}"
            for name in _LABELS
            if getattr(self, name) != getattr(now, name)
        ]
        if changed:
            raise StateError(
                f"the state does not fit: {'; '.join(changed)}",
                cure="Use the same shards and options as the run that saved it (lanes=None and block_bytes=None take "
                "the state's), or start without it.",
            )
        if self.backend != now.backend:
            log.warning("the state was saved with %s, this run decodes with %s", self.backend, now.backend)


_TYPES = {"int": int, "bool": bool, "str": str}
_LABELS = {
    "shards": "the number of shards",
    "samples": "the number of samples",
    "bytes": "the bytes of all shards",
    "fingerprint": "the fingerprint of the shards' counts and sizes",
    "seed": "seed",
    "shuffle": "shuffle",
    "lanes": "lanes",
    "block": "samples per block",
    "tail": "tail",
}


def state_of(plan: AnyPlan, cursor: Cursor, pixels: str | None = None) -> State:
    """The state of a run of this plan at this place; `pixels` is what makes them, None means `backend()`."""
    return State(
        version=VERSION,
        seed=plan.seed,
        epoch=cursor.epoch,
        position=cursor.position,
        shuffle=plan.shuffle,
        lanes=plan.lanes,
        block=plan.block,
        tail=plan.tail,
        backend=backend() if pixels is None else pixels,
        shards=plan.shards,
        samples=plan.samples,
        bytes=plan.bytes,
        fingerprint=plan.fingerprint,
    )
