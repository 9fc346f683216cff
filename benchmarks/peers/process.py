"""A contestant's process as its parent sees it: started with the interpreter that it needs, asked, ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from benchmarks.peers.peer import Peer, Work

__all__ = ["PeerError", "PeerProcess", "interpreter"]

ROOT = Path(__file__).resolve().parents[2]


class PeerError(Exception):
    """Why a contestant does not run."""


def interpreter(peer: Peer, environments: Path) -> str:
    """The Python that the contestant runs with: of its own environment where `install` made one, else this one."""
    own = environments / (peer.environment or "") / "bin" / "python"
    return str(own) if peer.environment and own.exists() else sys.executable


class PeerProcess:
    """A contestant that runs, at most on so many cores; what it prints goes to a file.

    Args:
        peer: which one.
        python: its interpreter.
        log: the file for what it prints.
        cores: it gets the first so many of those that this process may use.
    """

    def __init__(self, peer: Peer, *, python: str, log: Path, cores: int) -> None:
        self._log = log
        with log.open("w") as printed:
            self._process = subprocess.Popen(
                [python, "-m", "benchmarks.peers.child", peer.name, str(cores)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=printed,
                text=True,
                cwd=ROOT,
                start_new_session=True,  # so that its workers can be ended with it
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def load(self) -> dict[str, str]:
        """Have it import what it needs: the versions of its packages."""
        self._ask({"do": "load"})
        found: dict[str, str] = self._answer()
        return found

    def prepare(self, work: Work, target: Path) -> None:
        """Have it write its own format."""
        self._ask({"do": "prepare", "work": asdict(work), "target": str(target)})
        self._answer()

    def run(self, work: Work) -> Iterator[int]:
        """One epoch: how many pictures each batch has, as it comes."""
        return self._batches("run", work)

    def attempt(self, work: Work) -> None:
        """Only the first two batches."""
        if not sum(self._batches("try", work)):
            raise PeerError("it made no pictures")

    def close(self) -> None:
        """End it and its workers; twice does nothing."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # closing says once more what could not be said to one that had ended
                    pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        with suppress(ProcessLookupError):  # its workers, should it not have ended them
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _batches(self, do: str, work: Work) -> Iterator[int]:
        self._ask({"do": do, "work": asdict(work)})
        while (count := self._answer()) is not None:
            yield count

    def _ask(self, what: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(what) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._gone() from None

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._gone()
        answer = json.loads(line)
        if isinstance(answer, dict) and "error" in answer:
            raise PeerError(answer["error"])
        return answer

    def _gone(self) -> PeerError:
        status = self._process.wait()
        how = f"signal {-status}" if status < 0 else f"status {status}"
        last = [line.strip() for line in self._log.read_text(errors="replace").splitlines() if line.strip()][-1:]
        return PeerError(f"it ended with {how}: {' '.join(last)}"[:300])
