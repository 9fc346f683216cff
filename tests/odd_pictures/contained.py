"""Run a function in a child that may take so much memory and time, and tell how it ended.

The child is a fork, so that a thousand of them cost seconds and not the imports of each. So whoever calls this has one
thread only: a lock that another thread holds at the fork stays locked in the child.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["MEMORY", "SECONDS", "Ended", "contained"]

MEMORY = 2 << 30
"""Bytes that a child may take beyond what its parent has: 178 million pixels, the limit, twice with four bytes each."""

SECONDS = 30
"""Of processor time. The slowest picture of the suites, a JPEG 2000 of 5 megapixels, needs 3 with its parts."""

_WAIT = 10
"""Times the processor time is what a child gets by the clock, on a machine that does other work."""


class Ended(NamedTuple):
    """How a child ended.

    Attributes:
        value: what the function returned, made of what JSON knows; None where it did not.
        trouble: "" where it returned, else "took too long", "died of SIGSEGV", or the exception that left it.
    """

    value: Any
    trouble: str


def contained(work: Callable[[], Mapping[str, Any]], *, memory: int = MEMORY, seconds: int = SECONDS) -> Ended:
    """Call `work` in a child process.

    Args:
        work: what to do; what it prints is dropped, and nothing that it changes is seen by the caller.
        memory: bytes of address space that it may take beyond those of the caller.
        seconds: of processor time, after which it is killed; and after ten times as much by the clock.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _work(work, writing, memory, seconds)
    os.close(writing)
    try:
        said = _all(reading, time.monotonic() + _WAIT * seconds)
    finally:
        os.close(reading)
        if not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            # it has said all, is about to end, and may be ended; or it did not end in time
            os.kill(child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if said is None:
        return Ended(None, "took too long")
    if not said:
        return Ended(None, _death(status))
    return Ended(*json.loads(said))


def _death(status: int) -> str:
    if status == -signal.SIGXCPU:
        return "took too long"
    return f"died of {signal.Signals(-status).name}" if status < 0 else f"left with status {status}"


def _all(reading: int, until: float) -> bytes | None:
    """All that the child says until it closes its end; None where that does not happen in time."""
    parts: list[bytes] = []
    while select.select([reading], [], [], max(0.0, until - time.monotonic()))[0]:
        part = os.read(reading, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
    return None


def _work(work: Callable[[], Mapping[str, Any]], writing: int, memory: int, seconds: int) -> None:
    with contextlib.suppress(BaseException):
        nothing = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nothing, stream)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_AS, (_address_space() + memory,) * 2)
        said = json.dumps(_said(work)).encode()
        while said:
            said = said[os.write(writing, said) :]
    os._exit(0)


def _said(work: Callable[[], Mapping[str, Any]]) -> tuple[Mapping[str, Any] | None, str]:
    try:
        return work(), ""
    except BaseException as error:  # noqa: BLE001 - whatever leaves it is what the caller asks about
        return None, f"{type(error).__name__}: {error}"[:300]


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
