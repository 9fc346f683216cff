"""Where a stream stands: under 400 bytes of JSON, equal on all ranks, for the same streams and the same world size.

There is no index to find a place by, so a run goes on by reading its streams again up to there. What it would read
depends on how shards were dealt, on the buffer and on the sizes of the fields held in it: all of that has to be the
same, and is compared; threads and batch size may change.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loaders.job import Cursor
from loaders.state import backend
from loaders.stream.flow import Streams
from loaders.stream.spelling import fingerprint
from wds_tools.errors import StateError

__all__ = ["StreamState", "state_of"]

VERSION = 1

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class StreamState:
    """The state's content; `as_dict` and `of_dict` are its JSON form.

    Attributes:
        stream: the version of this format. Its name tells it from the state of a ShardLoader.
        epoch: the epoch that goes on.
        position: samples of the whole job that were handed out in it.
        world_size, seed, shuffle, shuffle_bytes, interleave, epoch_samples: the options; 0 for no stated length.
        shards, fingerprint: the streams, by name and order.
        fields: a digest of the columns.
        backend: what decoded the pictures.
    """

    stream: int
    epoch: int
    position: int
    world_size: int
    seed: int
    shuffle: bool
    shuffle_bytes: int
    interleave: int
    epoch_samples: int
    shards: int
    fingerprint: str
    fields: str
    backend: str

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def of_dict(cls, state: Mapping[str, Any]) -> StreamState:
        """The inverse of `as_dict`.

        Raises:
            StateError: a field is missing, foreign or of the wrong type.
        """
        types = {field.name: _TYPES[str(field.type)] for field in dataclasses.fields(cls)}
        if not isinstance(state, Mapping) or set(state) != set(types):
            got = sorted(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
            raise StateError(
                f"the state has {got}, expected {sorted(types)}",
                cure="Pass what state_dict() of a StreamLoader returned.",
            )
        for name, kind in types.items():
            if type(state[name]) is not kind or (kind is int and state[name] < 0):
                raise StateError(f"the state has {name}={state[name]!r}, expected {kind.__name__}")
        if state["stream"] != VERSION:
            raise StateError(
                f"the state has version {state['stream']}, this program reads {VERSION}",
                cure="Resume with the version of shardstream that wrote it.",
            )
        return cls(**state)

    def check(self, now: StreamState) -> None:
        """Raise StateError where the run is not the one that the state was taken from, naming every difference."""
        changed = [
            f"{label} was {getattr(self, name)!r}, now {getattr(now, name)!r}"
            for name, label in _LABELS.items()
            if getattr(self, name) != getattr(now, name)
        ]
        if changed:
            raise StateError(
                f"the state does not fit: {'; '.join(changed)}",
                cure="A stream resumes with the same shards, options and number of ranks only, a ShardLoader over "
                "uncompressed shards with any. Or start without the state.",
            )
        if self.position % self.world_size:
            raise StateError(f"the state has position={self.position}, expected a multiple of {self.world_size}")
        if self.backend != now.backend:
            log.warning("the state was saved with %s, this run decodes with %s", self.backend, now.backend)


_TYPES = {"int": int, "bool": bool, "str": str}
_LABELS = {
    "world_size": "the number of ranks",
    "shards": "the number of shards",
    "fingerprint": "the fingerprint of the shards' names",
    "fields": "the fingerprint of fields=",
    "seed": "seed",
    "shuffle": "shuffle",
    "shuffle_bytes": "shuffle_bytes",
    "interleave": "interleave",
    "epoch_samples": "epoch_samples",
}


def state_of(streams: Streams, cursor: Cursor, *, world_size: int) -> StreamState:
    """The state of a run of these streams at this place."""
    return StreamState(
        stream=VERSION,
        epoch=cursor.epoch,
        position=cursor.position,
        world_size=world_size,
        seed=streams.seed,
        shuffle=streams.shuffle,
        shuffle_bytes=streams.shuffle_bytes,
        interleave=streams.interleave,
        epoch_samples=streams.epoch_samples or 0,
        shards=len(streams.urls),
        fingerprint=fingerprint(streams.urls),
        fields=_digest([spec.text for spec in streams.specs]),
        backend=backend(),
    )


def _digest(texts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:8]
