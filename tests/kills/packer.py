"""`wds pack`, killed: whole files under final names, and the same command ends in the bytes of an unbroken run.

What tests/shardwriter/test_pack_killed.py does at each call to the system in one process that stands still there, this
does from outside, at any moment of several threads and inside such calls.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

from shardwriter.commands.pack import pack
from shardwriter.finish import Finish  # noqa: F401 - all that runs is imported before the first fork
from tests.builders import picture
from tests.kills.folders import digest, written
from tests.kills.victims import Victims

__all__ = ["Packer", "run"]

PARTS = 3
WAYS = (
    ("--jobs", "1"),
    ("--jobs", "3", "--dedup"),
    ("--jobs", "2", "--split", "val=0.2", "--dedup"),
    ("--jobs", "2", "--part", "1/2"),
    ("--jobs", "2", "--parts", str(PARTS)),
    ("--jobs", "3", "--to", "webp", "--resize", "48"),
)


def run(source: str, out: str, options: list[str]) -> None:
    """Pack. It goes on with what lies there."""
    try:
        pack.main([source, out, "--max-samples", "7", *options])
    except SystemExit as end:
        if end.code != 1:  # which says that some pictures were broken, as they are
            raise


class Packer:
    """The scene: pictures, an unbroken run of each way, and kills.

    Args:
        folder: for the pictures and the unbroken runs.
    """

    def __init__(self, folder: Path) -> None:
        self.victims = Victims(__name__, folder)
        self._source = str(_pictures(folder / "pictures"))
        self._folder = folder
        self._unbroken(("--jobs", "1"))
        runs = [self._unbroken(way) for way in WAYS]
        self._whole_s = [seconds for _, seconds in runs]
        self._wholes = [found for found, _ in runs]
        parts = [self._unbroken(("--part", f"{part}/{PARTS}"))[0] for part in range(PARTS)]
        self._parts = {name: value for found in parts for name, value in found.items()}

    def kill_once(self, seed: int, folder: Path) -> str:
        """Kill runs into one folder, one to three in a row, look at what each leaves, and let one end.

        A run that is killed behind its last step may leave the empty file of a lock, and there is no other to remove
        it: what is whole is not packed again.

        Returns:
            What was killed when.
        """
        draw = random.Random(seed)
        way = draw.randrange(len(WAYS))
        call: dict[str, Any] = {"source": self._source, "out": str(folder), "options": WAYS[way]}
        said: list[str] = []
        kills = draw.randint(1, 3)
        while len(said) < kills and not self._is_whole(folder, way):
            kept = [written(folder)]
            ran = self.victims.kill(draw, self._whole_s[way], anew=lambda: _begun_anew(folder, kept), **call)  # noqa: B023
            shards = self._check_left(folder, way, *kept)
            said.append(f"at {ran.part:.2f} of its time with {shards} shards")
        if not self._is_whole(folder, way):
            before = written(folder)
            self.victims.run(**call)
            self._check_left(folder, way, before)
            wrong = dict(digest(folder).items() ^ self._wholes[way].items())
            assert not wrong, f"{WAYS[way]}, killed {said}: {wrong}"
        self.victims.check_nothing_left()
        return f"{' '.join(WAYS[way])}: {', then '.join(said)}"

    def _check_left(self, folder: Path, way: int, before: dict[Path, int]) -> int:
        """Nothing half under a final name, and nothing done twice; how many shards there are."""
        final = {name: value for name, value in digest(folder).items() if not Path(name).name.startswith(".")}
        right = self._wholes[way] | (self._parts if "--parts" in WAYS[way] else {})  # which are datasets till joined
        wrong = dict(final.items() - right.items())
        assert not wrong, f"{WAYS[way]}: {wrong}"
        assert all(path.stat().st_mtime_ns == time for path, time in before.items())
        return sum(name.endswith(".tar") for name in final)

    def _is_whole(self, folder: Path, way: int) -> bool:
        found = digest(folder)
        return {name: value for name, value in found.items() if not name.endswith(".lock")} == self._wholes[way]

    def _unbroken(self, options: tuple[str, ...]) -> tuple[dict[str, str], float]:
        """The files of a run, and the seconds it worked."""
        with tempfile.TemporaryDirectory(dir=self._folder) as out:
            ran = self.victims.run(source=self._source, out=out, options=options)
            return digest(Path(out)), ran.worked_s

    def close(self) -> None:
        """End the process that runs were forked from."""
        self.victims.__exit__()


def _begun_anew(folder: Path, kept: list[dict[Path, int]]) -> None:
    """Nothing lies there, and no shard of it has to stay."""
    shutil.rmtree(folder)
    kept[:] = [{}]


def _pictures(folder: Path) -> Path:
    """Ninety pictures in three classes, a few broken, a few twice."""
    for number in range(90):
        path = folder / ("ant", "bee", "cat")[number % 3] / f"{number:02d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        data = picture(number - number % 20 if number % 20 == 7 else number, width=120, height=90)
        path.write_bytes(data[:-20] if number % 13 == 5 else data)
    return folder
