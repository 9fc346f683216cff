"""Training over two epochs, killed: the next job goes on from the last state that was written, to the same samples.

The loader is a ShardLoader with threads or a DataLoader with worker processes, for one rank or two, with or without a
cache of decoded pictures in memory or in a folder; each run after a kill draws its loader and its ranks anew. All of a
job is killed, or its main process, which leaves workers without a parent, or one of its children.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader
from torch.utils.data._utils import worker as torch_worker

from loaders import RandomResizedCrop
from loaders.torch import ShardDataset, ShardLoader, resumable
from tests.builders import write_pictures
from tests.kills.victims import Ran, Victims

__all__ = ["Loader", "run"]

EPOCHS, BATCHES, BATCH = 2, 40, 12
WORKERS = 2
PLACES = ("", "ram:32MB", "{folder}/decoded:32MB")
RIGHT_ERRORS = (
    *("is killed by signal: Killed", "exited unexpectedly"),  # torch's
    "a DataLoader worker ended before its batch was fetched",
)
# Workers look whether their parent is alive every five seconds, which is long for a test.
torch_worker.MP_STATUS_CHECK_INTERVAL = 0.2  # type: ignore[attr-defined]

Line = dict[str, Any]


def run(urls: str, out: str, workers: int, ranks: int, cache: str, state: Mapping[str, Any] | None) -> None:
    """Go on from a state to the end; after each batch a line with its samples' digests and the state behind it."""
    rank, others = _ranks(ranks)
    options: dict[str, Any] = {
        "global_batch_size": BATCH,
        "image": RandomResizedCrop(96),
        "decoded_cache": cache or None,
        "rank": rank,
        "world_size": ranks,
        "threads": 1 if workers else 2,
    }
    with contextlib.ExitStack() as stack:
        lines = stack.enter_context(Path(out, f"{rank}.lines").open("w"))
        if workers:
            dataset = stack.enter_context(ShardDataset(urls, **options))
            loader: Any = stack.enter_context(resumable(DataLoader(dataset, batch_size=None, num_workers=workers)))
        else:
            loader = stack.enter_context(ShardLoader(urls, **options))
        if state is not None:
            loader.load_state_dict(state)
        while loader.epoch < EPOCHS:
            for batch in loader:
                lines.write(json.dumps({"samples": _digests(batch), "state": loader.state_dict()}) + "\n")
                lines.flush()
    if rank:
        sys.exit(0)
    for other in others:
        if os.waitpid(other, 0)[1]:
            raise RuntimeError("another rank did not come through")


def _ranks(ranks: int) -> tuple[int, list[int]]:
    """This process's rank, and the others' processes."""
    others: list[int] = []
    for rank in range(1, ranks):
        others.append(os.fork())
        if others[-1] == 0:
            return rank, []
    return 0, others


def _digests(batch: Any) -> list[str]:
    pictures = batch[0].permute(0, 2, 3, 1).contiguous().numpy()
    return [
        hashlib.sha256(picture.tobytes() + b"%d" % label).hexdigest()[:16]
        for picture, label in zip(pictures, batch.cls.tolist(), strict=True)
    ]


class Loader:
    """The scene: a dataset, the samples of unbroken runs, and kills.

    Args:
        folder: for the dataset.
    """

    def __init__(self, folder: Path) -> None:
        self.victims = Victims(__name__, folder)
        self._urls = write_pictures(folder / "data", [120] * 4, width=200, height=150)
        self._unbroken(folder / "warm", PLACES[0])
        self._wholes = {place: self._unbroken(folder / f"whole-{at}", place) for at, place in enumerate(PLACES[:2])}
        self._wholes[PLACES[2]] = self._wholes[PLACES[1]]  # where decoded pictures lie makes no difference
        kinds = [(workers, ranks) for workers in (0, WORKERS) for ranks in (1, 2)]
        self._whole_s = {kind: self._seconds(folder / f"timed-{at}", *kind) for at, kind in enumerate(kinds)}

    def kill_once(self, seed: int, folder: Path) -> str:
        """Kill runs of one training, one to three, each going on where the last one ended, and let one end.

        Returns:
            What was killed when.
        """
        draw = random.Random(seed)
        place = draw.choice(PLACES)
        said, state, done = [], None, 0
        (folder / "out").mkdir(parents=True)
        for _ in range(draw.randint(1, 3)):
            job = self._job(folder, place, draw, state)
            whom = draw.choice(["all", "main", "child"] if job["workers"] or job["ranks"] > 1 else ["all"])
            rest_s = self._whole_s[job["workers"], job["ranks"]] * (1 - 0.8 * done / (EPOCHS * BATCHES))
            ran = self.victims.kill(draw, rest_s, whom=whom, **job)
            _check_end(ran, whom)
            state, done = self._check_lines(folder, job, done)
            how = f"{job['ranks']} ranks of {job['workers']} workers"
            said.append(f"{how}: {whom} at {ran.part:.2f} of its time, {done} of {EPOCHS * BATCHES} batches")
            if done == EPOCHS * BATCHES:  # nothing is left to go on with
                state, done = None, 0
        job = self._job(folder, place, draw, state)
        self.victims.run(**job)
        assert self._check_lines(folder, job, done)[1] == EPOCHS * BATCHES
        self._check_nothing_left(folder)
        return f"{place or 'no cache'}: {', then '.join(said)}"

    def _job(self, folder: Path, place: str, draw: random.Random, state: Mapping[str, Any] | None) -> dict[str, Any]:
        for path in (folder / "out").iterdir():
            path.unlink()
        return {
            "urls": self._urls,
            "out": str(folder / "out"),
            "workers": draw.choice([0, WORKERS]),
            "ranks": draw.choice([1, 2]),
            "cache": place.format(folder=folder),
            "state": state,
        }

    def _check_lines(self, folder: Path, job: dict[str, Any], done: int) -> tuple[Mapping[str, Any] | None, int]:
        """What each rank was given is its part of the unbroken run's; the state behind what all have, and how many."""
        whole, ranks = self._wholes[PLACES[0] if not job["cache"] else PLACES[1]], job["ranks"]
        given = [_lines(folder / "out" / f"{rank}.lines") for rank in range(ranks)]
        for rank, lines in enumerate(given):
            for number, line in enumerate(lines, start=done):
                assert line["samples"] == whole[number][rank::ranks], f"batch {number} of rank {rank} of {ranks}"
        common = min(map(len, given))
        if common == 0:
            return job["state"], done
        states = [lines[common - 1]["state"] for lines in given]
        assert all(state == states[0] for state in states)
        return states[0], done + common

    def _check_nothing_left(self, folder: Path) -> None:
        self.victims.check_nothing_left()
        kept = [path.name for path in (folder / "decoded").iterdir()] if (folder / "decoded").exists() else []
        assert sum(name.endswith(".pictures") for name in kept) <= 1
        assert {name for name in kept if not name.endswith(".pictures")} <= {"lock"}

    def _unbroken(self, folder: Path, place: str) -> list[list[str]]:
        """The samples of a run, by batch."""
        folder.mkdir()
        self.victims.run(urls=self._urls, out=str(folder), workers=0, ranks=1, cache=place, state=None)
        lines = _lines(folder / "0.lines")
        assert len(lines) == EPOCHS * BATCHES
        return [line["samples"] for line in lines]

    def _seconds(self, folder: Path, workers: int, ranks: int) -> float:
        folder.mkdir()
        call: dict[str, Any] = {"urls": self._urls, "out": str(folder), "cache": "", "state": None}
        return self.victims.run(workers=workers, ranks=ranks, **call).worked_s

    def close(self) -> None:
        """End the process that runs were forked from."""
        self.victims.__exit__()


def _check_end(ran: Ran, whom: str) -> None:
    """Killed itself; or a process of its own was, of which it says so, unless that had nothing more to do."""
    if whom != "child":
        assert ran.status == -9, f"{ran}\n{ran.said}"
    elif ran.status != 0:
        right = any(error in ran.said for error in (*RIGHT_ERRORS, "another rank did not come through"))
        assert right, f"{ran}\n{ran.said}"


def _lines(path: Path) -> list[Line]:
    """The whole ones, of a rank that came so far as to begin."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
