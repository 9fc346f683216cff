"""What a fuzz target is, and what each must hold whatever it is fed.

A target is one small function from bytes to whether they were taken. hypothesis (`test_targets`) and atheris
(`fuzz_python`) feed the same functions. Any bytes must end in one of two ways: they are taken, or one of our errors is
raised, which prints on one line and pickles. Another exception, an endless run and memory beyond the target's bound are
failures. Python's memory is measured (tracemalloc, which sees numpy's too); what libraries take in C is bounded by the
limit that the fuzzer has for the whole process.
"""

from __future__ import annotations

import pickle
import random
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from wds_tools.errors import ShardstreamError

__all__ = ["Target", "changed", "divided", "tried"]

_EXTREMES = (b"\0", b"\xff", b"\x7f", b"\x80", b" ", b"\n", b"0", b"9", b"-1", b"{", b"[", b'"', b"\xff" * 8)


@dataclass(frozen=True, kw_only=True)
class Target:
    """One parser under test.

    Attributes:
        name: for the command line and for files.
        run: gets the bytes and a folder of its own; returns whether they were taken, or raises one of our errors.
        seeds: inputs that are taken, to begin with.
        mend: makes checksums right again in changed bytes, so that what lies behind them is reached.
        times, beside: bytes of memory that may be taken at the peak: `times` the input and `beside` whatever the input.
    """

    name: str
    run: Callable[[bytes, Path], bool]
    seeds: Callable[[], list[bytes]]
    mend: Callable[[bytes], bytes] = bytes
    times: int = 100
    beside: int = 8 << 20


def tried(target: Target, data: bytes, folder: Path) -> bool:
    """Whether the target took these bytes; an AssertionError or anything else that it raises is a failure.

    tracemalloc has to be running.
    """
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    try:
        taken = target.run(data, folder)
    except ShardstreamError as error:
        _check_error(error)
        taken = False
    _, peak = tracemalloc.get_traced_memory()
    bound = target.times * len(data) + target.beside
    assert peak - before <= bound, f"{peak - before:,} bytes of memory for {len(data):,} bytes, allowed {bound:,}"
    return taken


def _check_error(error: ShardstreamError) -> None:
    text = str(error)
    assert text.isprintable(), f"an error that would write control characters to a terminal: {text!a}"
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), text)


def changed(seeds: Sequence[bytes], number: int) -> bytes:
    """One of the seeds with a few changes as fuzzers make them; the same for the same number."""
    chance = random.Random(number)
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.randint(1, 5)):
        at = chance.randrange(len(data) + 1)
        length = chance.choice((0, 1, 1, 4, 8, 64, 512))
        match chance.randrange(6):
            case 0:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                data[at : at + length] = chance.choice(_EXTREMES)
            case 2:
                del data[at : at + length]
            case 3:
                data[at:at] = data[chance.randrange(len(data) + 1) :][:length]
            case 4:
                other = chance.choice(seeds)
                data[at : at + length] = other[chance.randrange(len(other) + 1) :][:length]
            case 5 if chance.random() < 0.3:
                del data[at:]
    return bytes(data)


def divided(data: bytes, count: int) -> list[bytes]:
    """Several inputs in one: cut at `DIVIDER`, filled up with empty ones; the last has the rest."""
    parts = data.split(DIVIDER, count - 1)
    return parts + [b""] * (count - len(parts))


DIVIDER = b"\n\0--\0\n"
