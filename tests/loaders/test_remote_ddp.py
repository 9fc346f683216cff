"""A real job over http: torchrun, two ranks, one cache. Each byte is fetched once for both, and for both epochs."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

from loaders import ShardLoader
from tests.builders import write_labels
from tests.loaders.remote_data import asked_bytes, indexed, served

ROOT = Path(__file__).parents[2]
LIMIT = 150  # seconds a whole job may take, on a busy machine; it takes about ten
WORLD = 2


def run(urls: str, cache: Path, out: Path) -> list[list[list[list[int]]]]:
    """For each rank and epoch the labels of each batch."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(WORLD)]
    script = [str(ROOT / "tests/loaders/remote_ranks.py"), urls, str(cache), str(out)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, *script], env=environment, timeout=LIMIT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads((out / f"{rank}.json").read_text()) for rank in range(WORLD)]


def test_two_ranks_get_their_batches_and_fetch_each_byte_once(tmp_path: Path) -> None:
    folder = indexed(write_labels(tmp_path / "d", [300, 200, 100]))
    with served(folder) as server:
        ranks = run(server.url("/d/"), tmp_path / "cache", tmp_path)
        asked = asked_bytes(server)
    for rank in range(WORLD):
        options = {"batch_size": 8, "fields": ("cls",), "seed": 3, "lanes": 12, "rank": rank, "world_size": WORLD}
        with ShardLoader(folder, **options) as loader:  # type: ignore[arg-type]
            assert ranks[rank] == [[batch.cls.tolist() for batch in loader] for _ in range(2)]
    assert sorted(asked) == [f"/d/s-000{at}.tar" for at in range(3)]
    for path, spans in asked.items():
        fetched = [span for span in spans if len(span) > 1]  # and not who asks for the version
        size = (Path(folder) / Path(path).name).stat().st_size
        assert sorted(itertools.chain(*fetched)) == list(range(size))
