"""Random numbers that are a function of where they are used: (seed, epoch, purpose, place), never of when.

The generator is Philox4x64-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3, SC 2011).
numpy has it as a stream (`numpy.random.Philox`), which serves where one place needs millions of numbers: the
permutation of the blocks (`wds_tools.permutation`). `wds_tools.philox` is the same function evaluated at many places
at once, bit for bit equal to numpy's, which serves where a thousand places need a few numbers each: the order inside
blocks, the crops. Neither uses `numpy.random.Generator`, whose streams numpy may change between versions; raw Philox
output it may not.
"""

from __future__ import annotations

import enum

import numpy as np
import numpy.typing as npt

from wds_tools import philox
from wds_tools.errors import UsageError
from wds_tools.permutation import check_seed, permutation

__all__ = ["Purpose", "check_seed", "key_of", "permutation", "uniforms"]

_MAX_EPOCH = 1 << 56


class Purpose(enum.IntEnum):
    """What a number is drawn for, so that no two uses share one. The values are part of the order: never renumber."""

    BLOCKS = 0
    DEAL = 1
    INSIDE = 2
    AUGMENT = 3
    MIX = 4
    BALANCE = 5
    STREAM_SHARDS = 6
    STREAM_BUFFER = 7


def key_of(seed: int, epoch: int, purpose: Purpose) -> tuple[int, int]:
    """The Philox key of one use in one epoch."""
    if not 0 <= epoch < _MAX_EPOCH:
        raise UsageError(f"epoch is {epoch}, expected 0 to 2**56 - 1", cure="Count epochs from 0.")
    return seed, epoch | purpose << 56


def uniforms(key: tuple[int, int], places: npt.NDArray[np.int64], steps: int) -> npt.NDArray[np.float64]:
    """4 * steps numbers of [0, 1) for each place: (n,) to (n, 4 * steps) float64, 53 bits each."""
    n = len(places)
    place = np.repeat(places.astype(np.uint64), steps)
    step = np.tile(np.arange(1, steps + 1, dtype=np.uint64), n)
    words = philox.words(key, place, np.zeros_like(place), step)
    return ((words >> np.uint64(11)).astype(np.float64) * 2.0**-53).T.reshape(n, 4 * steps)
