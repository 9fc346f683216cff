"""What a session keeps of decoded pictures, and what of the plan need not be read because it is there.

What is kept of a sample follows from the dataset, its columns, the size and the picture options: a digest of all of
them names the file, so loaders that want the same share it.

Samples that are there are not announced: neither the disk nor a remote host is asked for them. Pieces that are fetched
as a whole are counted by their samples, so whether pieces or single samples are announced is decided once an epoch: an
epoch that begins with nothing in the cache fetches pieces, as without a cache. What was announced before it was there,
about a thousand samples of an epoch's beginning, is fetched once more.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from loaders.ahead import Announcer
from loaders.decoded.store import DecodedStore, open_store
from loaders.fetch import Claim
from loaders.line import Ints
from loaders.order import Pieces, single_pieces
from loaders.recipe import Recipe
from loaders.selection import AnyOrder
from wds_tools.dataset import Dataset
from wds_tools.sources.cache.names import object_key

__all__ = ["announcing_what_is_not_kept", "kept_of"]

_VERSION = 1
"""To be raised whenever other pixels come out."""


def kept_of(dataset: Dataset, recipe: Recipe, owner: int | None = None) -> DecodedStore | None:
    """The cache of decoded pictures of a session, None where there is none.

    Args:
        dataset: whose samples.
        recipe: says where, and what is kept.
        owner: a process for whose life it is kept, beside its users.

    Raises:
        UsageError, UnavailableError: see `open_store`.
    """
    if recipe.decoded is None:
        return None
    return open_store(recipe.decoded, dataset=dataset, key=_key(dataset, recipe), owner=owner)


def _key(dataset: Dataset, recipe: Recipe) -> bytes:
    facts = {
        "version": _VERSION,
        "columns": [
            [spec.alternatives, spec.optional, spec.picture and spec.image is not None] for spec in recipe.specs
        ],
        "pictures": dataclasses.asdict(recipe.pictures) | {"huffman": None},  # not a bit differs
        "pixels": recipe.backend,
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for url in dataset.urls:
        digest.update(object_key(url).encode("utf-8", "surrogatepass") + b"\n")
    digest.update(np.stack((dataset.counts, dataset.sizes)).astype("<i8").tobytes())
    return digest.digest()


def announcing_what_is_not_kept(begin: Callable[[], Announcer], store: DecodedStore | None) -> Callable[[], Announcer]:
    """The same beginning of a run, of which only the samples that are not in the store are announced."""
    return begin if store is None else lambda: _Missing(begin(), store)


class _Missing:
    """An announcer that leaves out what is there."""

    def __init__(self, announcer: Announcer, store: DecodedStore) -> None:
        self._announcer = announcer
        self._store = store
        self._epoch: int | None = None
        self._whole = False  # pieces are announced as a whole in this epoch

    def announce(
        self, order: AnyOrder, positions: Ints, samples: Ints, *, alone: bool, urgent: bool
    ) -> Sequence[Claim | None] | None:
        if self._epoch != order.epoch:
            self._epoch, self._whole = order.epoch, self._store.empty
        if self._whole:
            return self._announcer.announce(order, positions, samples, alone=alone, urgent=urgent)
        missing = ~self._store.has(samples)
        if not missing.any():
            return None
        claims = self._announcer.announce(
            _Singly(order), positions[missing], samples[missing], alone=False, urgent=urgent
        )
        if claims is None:
            return None
        found = iter(claims)
        return [next(found) if absent else None for absent in missing.tolist()]


class _Singly:
    """An order of which only the named samples are read, not what lies beside them."""

    def __init__(self, order: AnyOrder) -> None:
        self._order = order

    @property
    def epoch(self) -> int:
        return self._order.epoch

    def samples(self, positions: Ints) -> Ints:
        return self._order.samples(positions)

    def runs(self, positions: Ints) -> tuple[Ints, Ints]:
        samples = self._order.samples(positions)
        return samples, np.ones_like(samples)

    def pieces(self, positions: Ints) -> Pieces:
        return single_pieces(self._order.samples(positions))

    def replacements(self, position: int) -> Iterator[int]:
        return self._order.replacements(position)
