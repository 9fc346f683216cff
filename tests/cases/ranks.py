"""What each rank of a torchrun job does for test_distributed.py: an all_reduce after every batch, limited to 60 s.

    torchrun ... ranks.py FOLDER CASE...

Rank r writes FOLDER/CASE.r.json: what it was given, batch by batch.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

from loaders.torch import ShardDataset, ShardLoader
from tests.worker_start import beside_gloo

CASES: dict[str, tuple[str, dict[str, Any], int | None]] = {
    # name: (dataset, options, workers; None for the loader without processes)
    "one_shard_4_workers": ("one", {"batch_size": 8}, 4),
    "three_shards_4_workers": ("three", {"batch_size": 8}, 4),
    "one_shard_exact": ("one", {"batch_size": 8, "tail": "exact", "shuffle": False}, None),
    "uneven_drop": ("uneven", {"batch_size": 10}, None),
    "uneven_pad": ("uneven", {"batch_size": 10, "tail": "pad"}, None),
    "uneven_exact": ("uneven", {"batch_size": 10, "tail": "exact"}, None),
    "bad_on_rank_1": ("bad", {"batch_size": 10, "on_error": "skip"}, None),
}


def batches_of(folder: Path, name: str) -> tuple[int, list[list[int]]]:
    """The length that was promised, and the labels of each batch that are no repeats."""
    data, options, workers = CASES[name]
    found = []
    if workers is None:
        loader: Any = ShardLoader(str(folder / data), fields=("cls",), threads=1, **options)
    else:
        dataset = ShardDataset(str(folder / data), fields=("cls",), **options)
        start = beside_gloo("loaders.torch") if workers else None
        loader = DataLoader(dataset, batch_size=None, num_workers=workers, multiprocessing_context=start)
    for batch in loader:
        found.append((batch.cls[batch.valid] if hasattr(batch, "valid") else batch.cls).tolist())
        together = torch.ones(1)
        dist.all_reduce(together)
        assert int(together) == dist.get_world_size()
    dist.all_reduce(torch.zeros(1))  # as at the end of an epoch: a rank that ended early would stand here
    return len(loader), found


def main(folder: Path, names: list[str]) -> None:
    """Run the cases in turn."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    try:
        for name in names:
            length, batches = batches_of(folder, name)
            (folder / f"{name}.{dist.get_rank()}.json").write_text(json.dumps({"length": length, "batches": batches}))
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
