"""What each rank of the torchrun job of test_remote_ddp.py does: two epochs over http through a cache that they share.

    torchrun ... remote_ranks.py URLS CACHE OUT

A collective after every batch, as in training. Rank r writes OUT/r.json.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from loaders import Reading
from loaders.torch import ShardLoader


def main() -> None:
    urls, cache, out = sys.argv[1:]
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    epochs: list[list[list[int]]] = []
    with ShardLoader(urls, batch_size=8, fields=("cls",), seed=3, lanes=12, read=Reading(cache_dir=cache)) as loader:
        for _ in range(2):
            epochs.append([])
            for batch in loader:
                epochs[-1].append(batch.cls.tolist())
                dist.all_reduce(torch.ones(1))
    Path(out, f"{dist.get_rank()}.json").write_text(json.dumps(epochs))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
