"""`python -m tests.kills [KILLS] [--of NAME] [--seed N]`: kill runs of each kind in turn, and say what came of it.

Each kind gets its share of KILLS. What fails is told with the command that repeats it; status 1 if anything did. The
last line is JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from tests.kills.scenes import SCENES, Scene, scene_of

__all__ = ["main"]


def main() -> int:
    """Parse, kill, tell."""
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description="Kill runs at random moments.")
    parser.add_argument(
        "kills", type=int, nargs="?", default=200, help="tries of one to three kills, of all kinds together"
    )
    parser.add_argument("--of", choices=SCENES, action="append", help="only this kind; again for each")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9), help="of the first kill")
    asked = parser.parse_args()
    kinds = asked.of or SCENES
    figures = {}
    for at, kind in enumerate(kinds):
        count = asked.kills * (at + 1) // len(kinds) - asked.kills * at // len(kinds)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            figures[kind] = _killed(kind, range(asked.seed, asked.seed + count), Path(folder))
    _say(json.dumps({"seed": asked.seed, **figures}))
    return int(any(each["failed"] for each in figures.values()))


def _killed(kind: str, seeds: range, folder: Path) -> dict[str, Any]:
    begun, failed = time.monotonic(), 0
    with contextlib.closing(scene_of(kind, folder / "scene")) as scene:
        for seed in seeds:
            failed += not _survived(scene, kind, seed, folder / str(seed))
        kills = scene.victims.kills
    seconds = round(time.monotonic() - begun, 1)
    return {"tries": len(seeds), "kills": kills, "failed": failed, "seconds": seconds}


def _survived(scene: Scene, kind: str, seed: int, folder: Path) -> bool:
    try:
        said = scene.kill_once(seed, folder)
    except Exception:  # noqa: BLE001 - what went wrong is told, and counted
        _say(
            f"{kind} {seed} FAILED; again: python -m tests.kills 1 --of {kind} --seed {seed}\n{traceback.format_exc()}"
        )
        return False
    _say(f"{kind} {seed}: {said}")
    shutil.rmtree(folder, ignore_errors=True)
    return True


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
