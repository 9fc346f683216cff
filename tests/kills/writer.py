"""ShardWriter, killed: whole shards under final names, a listing or none; the next writer makes the same bytes."""

from __future__ import annotations

import random
from pathlib import Path

from shardwriter import ShardWriter
from tests.kills.folders import digest
from tests.kills.victims import Victims

__all__ = ["Writer", "run"]

SAMPLES = 160
LISTING = ("dataset.json", "dataset.offsets.npy")


def run(out: str) -> None:
    """Write sixteen shards, 4 MB, over what an earlier run left."""
    draw = random.Random(0)
    with ShardWriter(f"{out}/s-%03d.tar", max_samples=10, overwrite=True, checksum="xxh3") as writer:
        for number in range(SAMPLES):
            data = draw.randbytes(draw.randrange(1, 50_000))
            writer.write({"__key__": f"{number:06d}", "bin": data, "cls": number})


class Writer:
    """The scene: an unbroken run to compare with, and kills.

    Args:
        folder: for the unbroken run.
    """

    def __init__(self, folder: Path) -> None:
        self.victims = Victims(__name__, folder)
        self.victims.run(out=str(folder / "warm"))
        self._whole_s = self.victims.run(out=str(folder / "whole")).worked_s
        self._whole = digest(folder / "whole")
        assert len(self._whole) == SAMPLES // 10 + 2

    def kill_once(self, seed: int, folder: Path) -> str:
        """Kill runs into one folder, one to three in a row, look at what each leaves, and let one end.

        Returns:
            What was killed when.
        """
        draw = random.Random(seed)
        said = []
        for _ in range(draw.randint(1, 3)):
            ran = self.victims.kill(draw, self._whole_s, out=str(folder))
            shards = self._check_left(folder)
            said.append(f"at {ran.part:.2f} of its time with {shards} shards")
        self.victims.run(out=str(folder))
        assert digest(folder) == self._whole
        self.victims.check_nothing_left()
        return ", then ".join(said)

    def _check_left(self, folder: Path) -> int:
        """Nothing half under a final name, and a listing only of what is all there; how many shards there are."""
        found = digest(folder)
        final = {name: value for name, value in found.items() if not name.startswith(".")}
        assert final.items() <= self._whole.items()
        assert LISTING[0] not in final or final == self._whole
        return sum(name.endswith(".tar") for name in final)

    def close(self) -> None:
        """End the process that runs were forked from."""
        self.victims.__exit__()
