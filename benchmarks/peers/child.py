"""`python -m benchmarks.peers.child PEER CORES`: a contestant's own process, told what to do line by line in JSON.

It answers in JSON too, on what was its standard output: whatever a library prints goes to standard error. A run
answers with a number for each batch as soon as it is there, and with null at its end.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.peers import PARTS, PEERS
from benchmarks.peers.peer import Peer, Work

__all__: list[str] = []

Say = Callable[[object], None]


def main() -> None:
    peer, cores = (PEERS | PARTS)[sys.argv[1]], int(sys.argv[2])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    asked, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)

    def say(what: object) -> None:
        answers.write(json.dumps(what) + "\n")

    for line in asked:
        try:
            _obey(peer, json.loads(line), say)
        except Exception as error:  # noqa: BLE001 - whatever a peer does is told, not hidden
            traceback.print_exc()
            say({"error": _reason(error)})


def _obey(peer: Peer, order: dict[str, Any], say: Say) -> None:
    if order["do"] == "load":
        peer.load()
        say({name: _version(name) for name in peer.packages})
        return
    work = Work(**order["work"])
    if order["do"] == "prepare":
        assert peer.prepare is not None
        peer.prepare(work, Path(order["target"]))
    else:
        batches = peer.run(work)
        for at, count in enumerate(batches):
            say(count)
            if order["do"] == "try" and at == 1:
                break
        del batches  # ends worker processes before the answer
    say(None)


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "?"


if __name__ == "__main__":
    main()
