"""Ranks that fill a cache on disk from a web server, killed: what is there is right, the rest is fetched by the next.

Each run is a job of two ranks over one folder. All of it is killed, or its first rank, or its second one, which leaves
the other to fetch what the dead one had begun. The cache has room for the dataset to the byte, so space that a killed
process had booked and never filled would show as a shard that is not kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import sys
from functools import partial
from pathlib import Path

from loaders import Reading, ShardLoader
from tests.builders import write_shard
from tests.kills.victims import Victims
from tests.loaders.remote_data import indexed, served
from tests.wds_tools.sources.cached import cost, entry_files, read
from wds_tools.sources.cache import DiskCache, dataset_of
from wds_tools.sources.cache.inspection import inspect
from wds_tools.sources.http import HttpFile

__all__ = ["Cache", "run"]

SHARDS, SAMPLES = 6, 70
RANKS = 2


def run(urls: str, cache: str, limit: int, out: str) -> None:
    """Both ranks read one epoch; each writes the digests of its batches when it is through."""
    other = os.fork()
    rank = int(other == 0)
    found = []
    read = Reading(cache_dir=cache, cache_bytes=limit)
    with ShardLoader(
        urls, batch_size=10, fields=("bin", "cls"), lanes=12, threads=2, rank=rank, world_size=RANKS, read=read
    ) as loader:
        for batch in loader:
            found.append(hashlib.sha256(b"".join(map(bytes, batch.bin)) + batch.cls.tobytes()).hexdigest())
    Path(out, f"{rank}.json").write_text(json.dumps(found))
    if rank == 1:
        sys.exit(0)
    if os.waitpid(other, 0)[1]:
        raise RuntimeError("the other rank did not come through")


class Cache:
    """The scene: a server with a dataset, the batches of an unbroken run, and kills.

    Args:
        folder: for the dataset.
    """

    def __init__(self, folder: Path) -> None:
        self.victims = Victims(__name__, folder)
        self._served = served(_dataset(folder / "data"))
        server = self._served.__enter__()
        self._url = server.url("/d/")
        shards = sorted((folder / "data").glob("*.tar"))
        self._contents = {server.url(f"/d/{path.name}"): path.read_bytes() for path in shards}
        self._limit = sum(cost(len(content)) for content in self._contents.values())
        self._unbroken(folder / "warm")
        self._whole_s, self._whole = self._unbroken(folder / "whole")

    def kill_once(self, seed: int, folder: Path) -> str:
        """Kill runs over one cache, one to three in a row, look at what each leaves, and let one end.

        Returns:
            What was killed when.
        """
        draw = random.Random(seed)
        said = []
        (folder / "out").mkdir(parents=True)
        call = {"urls": self._url, "cache": str(folder / "cache"), "limit": self._limit, "out": str(folder / "out")}
        empty = partial(shutil.rmtree, folder / "cache")
        for _ in range(draw.randint(1, 3)):
            whom = draw.choice(["all", "all", "main", "child"])
            ran = self.victims.kill(draw, self._whole_s, whom=whom, anew=empty, **call)
            said.append(f"{whom} at {ran.part:.2f} of its time with {self._check_left(folder):,} bytes there")
        self.victims.run(**call)
        assert _results(folder / "out") == self._whole
        self._check_whole(folder / "cache")
        self.victims.check_nothing_left()
        return ", then ".join(said)

    def _check_left(self, folder: Path) -> int:
        """Every entry is one, and what it says it has is right; how many bytes it has. Looked at in a copy."""
        entries = entry_files(folder / "cache") if (folder / "cache/shards").exists() else []
        found = [inspect(path) for path in entries]
        assert None not in found, "a half entry under a final name"
        copy = shutil.copytree(folder / "cache", folder / "copy") if entries else folder / "copy"
        with DiskCache(copy, self._limit) as cache:
            self._read_all(cache)
            assert cache.report()["damaged"] == 0
        shutil.rmtree(copy, ignore_errors=True)
        return sum(each.present for each in found if each is not None)

    def _check_whole(self, folder: Path) -> None:
        """All is there and asked of nobody, and nothing else is."""
        with DiskCache(folder, self._limit) as cache:
            self._read_all(cache)
            report, info = cache.report(), cache.info()
            assert (report["fetched"], report["streamed"], report["damaged"]) == (0, 0, 0)
            assert (info.shards, info.whole, info.booked) == (SHARDS, SHARDS, self._limit)
            assert [each.in_use for each in info.datasets] == [True]  # by this one
        assert not any(each.in_use for each in DiskCache(folder).info().datasets)
        kept = {path.name for path in (folder / "shards").iterdir()}
        assert kept == {path.name for path in entry_files(folder)} | {"ledger", "datasets"}

    def _read_all(self, cache: DiskCache) -> None:
        dataset = dataset_of(list(self._contents))
        for url, content in self._contents.items():
            with cache.open(url, size=len(content), version=None, inner=HttpFile(url), dataset=dataset) as file:
                assert read(file, 0, len(content)) == content

    def _unbroken(self, folder: Path) -> tuple[float, list[list[str]]]:
        """The seconds that it worked, and its batches."""
        folder.mkdir()
        ran = self.victims.run(urls=self._url, cache=str(folder / "cache"), limit=self._limit, out=str(folder))
        return ran.worked_s, _results(folder)

    def close(self) -> None:
        """End the server, and the process that runs were forked from."""
        self.victims.__exit__()
        self._served.__exit__(None, None, None)


def _results(folder: Path) -> list[list[str]]:
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(RANKS)]


def _dataset(folder: Path) -> str:
    """Shards of a little over 4 MiB, one extent and a piece of another each, with a listing."""
    draw = random.Random(0)
    for shard in range(SHARDS):
        samples = [
            (f"{shard}-{n}", {"bin": draw.randbytes(62_000), "cls": b"%d" % (shard * SAMPLES + n)})
            for n in range(SAMPLES)
        ]
        write_shard(folder / f"s-{shard}.tar", samples)
    return indexed(str(folder))
