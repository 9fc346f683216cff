"""Three epochs of a job whose ranks run one after the other, for test_distributed.py; as a script in another process.

python epochs_job.py URLS RANKS METHOD...
"""

from __future__ import annotations

import itertools
import json
import sys
import warnings

from torch.utils.data import DataLoader

from loaders.torch import ShardDataset

__all__ = ["WAYS", "three_epochs"]

WAYS = tuple(itertools.product((False, True), (False, True)))
"""persistent workers or new ones; set_epoch called or not."""


def three_epochs(urls: str, ranks: int, method: str, *, persistent: bool, told: bool) -> list[list[list[int]]]:
    """The labels in the order in which they came: by rank, by epoch."""
    found = []
    for rank in range(ranks):
        dataset = ShardDataset(urls, batch_size=4, fields=("cls",), rank=rank, world_size=ranks)
        loader = DataLoader(
            dataset,
            batch_size=None,
            num_workers=2,
            persistent_workers=persistent,
            multiprocessing_context=method,
        )
        rows = []
        for epoch in range(3):
            if told:
                dataset.set_epoch(epoch)
            rows.append([label for batch in loader for label in batch.cls.tolist()])
        found.append(rows)
        dataset.close()
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    place, ranks, *methods = sys.argv[1:]
    answers = [
        three_epochs(place, int(ranks), method, persistent=persistent, told=told)
        for method in methods
        for persistent, told in WAYS
    ]
    json.dump(answers, sys.stdout)
