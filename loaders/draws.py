"""Random numbers that are a function of where they are used: (seed, epoch, purpose, place), never of when.

The generator is Philox4x64-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3, SC 2011).
numpy has it as a stream (`numpy.random.Philox`), which serves where one place needs millions of numbers: the
permutation of the blocks (`wds_tools.permutation`). `philox` below is the same function evaluated at many places at
once, bit for bit equal to numpy's, which serves where a thousand places need a few numbers each: the order inside
blocks, the crops. Neither uses `numpy.random.Generator`, whose streams numpy may change between versions; raw Philox
output it may not.
"""

from __future__ import annotations

import enum

import numpy as np
import numpy.typing as npt

from wds_tools.errors import UsageError
from wds_tools.permutation import check_seed, permutation

__all__ = ["Purpose", "check_seed", "key_of", "permutation", "philox", "uniforms"]

U64 = npt.NDArray[np.uint64]

_WORD = (1 << 64) - 1
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
_ROUNDS = 10
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


def philox(key: tuple[int, int], place: U64, other: U64, step: U64) -> U64:
    """Philox4x64-10 at the counters (step, place, other, 0); all three of shape (n,). Returns (4, n) uint64.

    Equal to block `step`, counted from 1, of `numpy.random.Philox(key=key, counter=[0, place, other, 0])`.
    """
    c0, c1, c2, c3 = step, place, other, np.zeros_like(step)
    k0, k1 = key
    for _ in range(_ROUNDS):
        high0, low0 = _multiply(c0, _MULTIPLIERS[0])
        high1, low1 = _multiply(c2, _MULTIPLIERS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ np.uint64(k0), low1, high0 ^ c3 ^ np.uint64(k1), low0
        k0, k1 = (k0 + _WEYL[0]) & _WORD, (k1 + _WEYL[1]) & _WORD
    return np.stack((c0, c1, c2, c3))


def _multiply(x: U64, constant: int) -> tuple[U64, U64]:
    """The high and the low word of the 128-bit products, by 32-bit halves since numpy has no wider integers."""
    high, low = np.uint64(constant >> 32), np.uint64(constant & 0xFFFFFFFF)
    x_high, x_low = x >> _HALF, x & _LOW
    cross_a, cross_b = low * x_high, high * x_low
    carry = ((low * x_low) >> _HALF) + (cross_a & _LOW) + (cross_b & _LOW)
    return high * x_high + (cross_a >> _HALF) + (cross_b >> _HALF) + (carry >> _HALF), x * np.uint64(constant)


def uniforms(key: tuple[int, int], places: npt.NDArray[np.int64], steps: int) -> npt.NDArray[np.float64]:
    """4 * steps numbers of [0, 1) for each place: (n,) to (n, 4 * steps) float64, 53 bits each."""
    n = len(places)
    place = np.repeat(places.astype(np.uint64), steps)
    step = np.tile(np.arange(1, steps + 1, dtype=np.uint64), n)
    words = philox(key, place, np.zeros_like(place), step)
    return ((words >> np.uint64(11)).astype(np.float64) * 2.0**-53).T.reshape(n, 4 * steps)
