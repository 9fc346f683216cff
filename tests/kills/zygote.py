"""`python -m tests.kills.zygote MODULE`: forks a run of `MODULE.run` for each line of stdin, and kills it as that says.

What a run imports is imported once, by the module, so that the moments of the kills fall into its work and not into
its imports. Whoever a run leaves without a parent becomes a child of this process (a subreaper), so none escapes the
count. Each line is an order and is answered by a line, both JSON: see `victims`.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import json
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cases.inputs_memory import children

_PATIENCE_S = 60.0
"""So long a run may take, and so long what it left may take to end by itself; a busy machine needs a few."""
_BECOME_SUBREAPER = 36  # linux/prctl.h


def main(module: str) -> None:
    """Serve orders until stdin ends."""
    run = importlib.import_module(module).run
    if ctypes.CDLL(None, use_errno=True).prctl(_BECOME_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no subreaper")
    for line in sys.stdin:
        order = json.loads(line)
        done, tell = os.pipe()
        if (child := os.fork()) == 0:
            _be(run, Path(order["log"]), order["arguments"], tell)
        os.close(tell)
        with open(done) as words:
            sys.stdout.write(
                json.dumps(_watched(child, order["kill"]) | {"worked_s": float(words.read() or -1)}) + "\n"
            )
        sys.stdout.flush()


def _be(run: Callable[..., None], log: Path, arguments: dict[str, Any], tell: int) -> None:
    """The forked process: it says how long it worked, and ends as any Python does.

    But for taking apart its modules, which takes torch's two seconds in which nothing of ours happens.
    """
    os.setpgid(0, 0)
    begun = time.monotonic()
    nothing = os.open(os.devnull, os.O_RDONLY)
    said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for new, old in ((nothing, 0), (said, 1), (said, 2)):
        os.dup2(new, old)
    status = 1
    try:
        run(**arguments)
        os.write(tell, str(time.monotonic() - begun).encode())
        status = 0
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException:  # noqa: BLE001 - said in words, and by the status
        traceback.print_exc()
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stderr.flush()
    os._exit(status)


def _watched(child: int, kill: dict[str, Any] | None) -> dict[str, Any]:
    killed = False
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it may have ended, or have done so itself
        os.setpgid(child, child)
    ended = os.pidfd_open(child)
    try:
        if kill is not None and not select.select([ended], [], [], kill["after_s"])[0]:
            killed = _strike(child, kill["whom"], kill["number"])
        stuck = not select.select([ended], [], [], _PATIENCE_S)[0]
        if stuck:
            os.killpg(child, signal.SIGKILL)
    finally:
        os.close(ended)
    _, status = os.waitpid(child, 0)
    if killed and kill is not None and kill["whom"] != "child":
        killed = os.WIFSIGNALED(status)  # else it had ended by itself just before
    return {
        "killed": killed,
        "status": "stuck" if stuck else os.waitstatus_to_exitcode(status),
        "left": _left_after(),
    }


def _strike(child: int, whom: str, number: int) -> bool:
    """Kill; False where the one that was meant is not there."""
    if whom == "all":
        os.killpg(child, signal.SIGKILL)
        return True
    of = [child] if whom == "main" else children(child)
    if not of:
        return False
    try:
        os.kill(of[number % len(of)], signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _left_after() -> list[str]:
    """What a run left without a parent and has not ended by itself, in words; it is ended."""
    until = time.monotonic() + _PATIENCE_S
    while found := children():
        ended = os.pidfd_open(found[0])
        try:
            if not select.select([ended], [], [], max(0.0, until - time.monotonic()))[0]:
                break
        finally:
            os.close(ended)
        os.waitpid(found[0], 0)
    return [_ended(process) for process in children()]


def _ended(process: int) -> str:
    words = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return f"{process}: {words.strip()}"


if __name__ == "__main__":
    main(sys.argv[1])
