"""Runs that are killed: started by a process that has all imported (`zygote`), looked after from here.

    with Victims("tests.kills.writer", folder) as victims:
        whole = victims.run(out=str(folder / "whole"))  # unbroken
        ran = victims.kill(random.Random(seed), whole.worked_s, out=str(folder / "broken"))  # somewhere in its work

A moment is a part of the time that an unbroken run takes on this machine, drawn from the caller's generator: the same
seed kills at the same part again. That is not the same instruction, so what fails once may take a few more runs of its
seed to fail again; kills at each single call to the system stand in tests/shardwriter/test_pack_killed.py.

Where the system allows it the runs see a /dev/shm of their own, empty at the beginning, so that what they leave there
can be told from what others have there. Their temporary folder is their own too.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

__all__ = ["Ran", "Victims"]

ROOT = Path(__file__).parents[2]
_MOUNT = 'mount -t tmpfs -o size=256m tmpfs /dev/shm && exec "$@"'
_TRIES = 40
_END = 1.05
"""Of an unbroken run's time: the end of the interpreter is a moment too."""


@dataclass(frozen=True)
class Ran:
    """What came of a run.

    Attributes:
        killed: whether it was.
        worked_s: seconds of its work, without Python's own end; -1 where it did not come to an end.
        status: as the system has it, negative for a signal; "stuck" where it did not end.
        left: processes that it left and that did not end by themselves.
        part: of an unbroken run's time at which it was killed.
        said: what it printed, errors above all.
    """

    killed: bool
    worked_s: float
    status: int | str
    left: list[str]
    part: float = 0.0
    said: str = field(default="", repr=False)


class Victims:
    """See the module.

    Args:
        module: has `run(**arguments)`, of arguments that JSON knows, and has imported what that needs.
        folder: for temporary files and what runs say.
    """

    def __init__(self, module: str, folder: Path) -> None:
        self.kills = 0
        """How many runs were killed so far."""
        self._temporary = folder / "tmp"
        self._temporary.mkdir(parents=True)
        self._log = folder / "said"
        command = [sys.executable, "-m", "tests.kills.zygote", module]
        self._own_shm = (unshare := _unshare()) is not None
        self._process = subprocess.Popen(
            [*(unshare or []), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(self._temporary), "OMP_NUM_THREADS": "1"},
        )

    def run(self, **arguments: Any) -> Ran:
        """An unbroken run; it has to end well."""
        ran = self._ask(None, arguments)
        assert (ran.status, ran.left) == (0, []), f"{ran}\n{ran.said}"
        return ran

    def kill(
        self,
        draw: random.Random,
        whole_s: float,
        *,
        whom: str = "all",
        anew: Callable[[], object] = lambda: None,
        **arguments: Any,
    ) -> Ran:
        """Runs until one was killed before it ended: that one.

        Args:
            draw: says when.
            whole_s: how long an unbroken run works.
            whom: "all" processes of it, its "main" one, or one "child".
            anew: called where a run came to its end first, so that the next one has as much to do.
            arguments: of the run.
        """
        for _ in range(_TRIES):
            part = draw.random() * _END
            kill = {"after_s": part * whole_s, "whom": whom, "number": draw.randrange(100)}
            ran = self._ask(kill, arguments, part)
            assert ran.left == [], f"{whom}: {ran}"
            assert ran.status != "stuck", f"{whom}: {ran}\n{ran.said}"
            if ran.killed:
                self.kills += 1
                return ran
            whole_s = min(whole_s, ran.worked_s) if ran.worked_s > 0 else whole_s  # of a quieter moment
            anew()
        raise AssertionError(f"{_TRIES} runs ended before they were killed")

    def check_nothing_left(self) -> None:
        """Nothing lies in the runs' temporary folder and in their /dev/shm.

        But for what Python and torch leave themselves: the sockets by which multiprocessing hands descriptors from
        process to process, in folders `pymp-*`, and what torch makes when a worker has died, an empty folder and up to
        ten empty files that tell it whether too many are open.
        """
        left = [path for path in self._temporary.iterdir() if not _is_foreign(path)]
        assert left == [], left
        if self._own_shm:
            kept = os.listdir(f"/proc/{self._process.pid}/root/dev/shm")
            assert all(name.startswith("sem.") for name in kept), kept

    def _ask(self, kill: dict[str, Any] | None, arguments: dict[str, Any], part: float = 0.0) -> Ran:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"log": str(self._log), "arguments": arguments, "kill": kill}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return Ran(**answer, part=part, said=self._log.read_text() if self._log.exists() else "")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.communicate()


def _is_foreign(path: Path) -> bool:
    if path.is_dir():
        return path.name.startswith("pymp-") or (path.name.startswith("torchinductor_") and not any(path.iterdir()))
    return path.name.startswith("tmp") and path.stat().st_size == 0


def _unshare() -> list[str] | None:
    """What to put before a command that shall have a /dev/shm of its own; None where this user may not mount one."""
    if shutil.which("unshare") is None:
        return None
    before = ["unshare", "-m" if os.geteuid() == 0 else "-rm", "sh", "-c", _MOUNT, "sh"]
    tried = subprocess.run([*before, "true"], capture_output=True, check=False)
    return None if tried.returncode else before
