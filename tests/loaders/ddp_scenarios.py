"""What each rank of a torchrun job does for test_ddp.py: all scenarios in one launch, since torch takes long to import.

    torchrun ... ddp_scenarios.py FOLDER SCENARIO...

Each batch is followed by a collective with a time limit, as in training: ranks that disagree on the number of batches
end in an error and not in a hang. Rank r writes FOLDER/SCENARIO.r.json.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from loaders.torch import ShardDataset, ShardLoader
from tests.worker_start import beside_gloo
from wds_tools.errors import TooFewSamplesError

LIMIT = timedelta(seconds=60)


def step(value: float = 1.0) -> float:
    """One collective of all ranks: the sum."""
    tensor = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(tensor)
    return float(tensor)


def walk(loader: Iterable[Any]) -> list[list[int]]:
    """The labels of each batch that are no repeats, a collective for each batch and one at the end."""
    batches = []
    for batch in loader:
        labels = batch.cls[batch.valid] if hasattr(batch, "valid") else batch.cls
        batches.append(labels.tolist())
        assert step() == dist.get_world_size()
    step(0)
    return batches


def epochs(folder: Path, name: str, **options: Any) -> dict[str, Any]:
    with ShardLoader(str(folder / name), **{"batch_size": 8, "fields": ("cls",), "threads": 1, **options}) as loader:
        length = len(loader)
        return {"length": length, "epochs": [walk(loader) for _ in range(2)]}


def drop(folder: Path) -> Any:
    return epochs(folder, "uneven")


def pad(folder: Path) -> Any:
    return epochs(folder, "uneven", tail="pad")


def exact(folder: Path) -> Any:
    return epochs(folder, "uneven", tail="exact", shuffle=False)


def exact_one_left(folder: Path) -> Any:
    """The last global batch has one sample: all ranks but one get an empty batch."""
    size = dist.get_world_size() * 4
    assert 97 % size == 1
    return epochs(folder, "left", tail="exact", batch_size=4)


def one_shard(folder: Path) -> Any:
    return epochs(folder, "one", batch_size=3)


def too_few(folder: Path) -> Any:
    try:
        epochs(folder, "one", batch_size=500)
    except TooFewSamplesError as error:
        step(0)  # nobody stands in a collective of a first step
        return {"error": str(error)}
    return {}


def bad_on_one_rank(folder: Path) -> Any:
    options = {"fields": ("cls",), "batch_size": 8, "threads": 2, "on_error": "skip"}
    with ShardLoader(str(folder / "bad"), **options, quarantine=folder / "bad.jsonl") as loader:  # type: ignore[arg-type]
        return {"length": len(loader), "epochs": [walk(loader)], "skipped": dict(loader.report().skipped)}


def draw(sample: dict[str, Any]) -> dict[str, Any]:
    drawn = (random.getrandbits(40), int(np.random.randint(1 << 40)), int(torch.randint(1 << 40, ())))  # noqa: NPY002
    return {"cls": sample["cls"], "drawn": np.array(drawn)}


def workers(folder: Path) -> Any:
    """A ShardDataset in two workers of each rank."""
    dataset = ShardDataset(str(folder / "uneven"), batch_size=8, fields=("cls",), transform=draw)
    context = beside_gloo("loaders.torch")
    loader = DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context=context)
    batches: list[list[list[int]]] = []
    drawn: list[list[int]] = []
    for epoch in range(2):
        batches.append([])
        for batch in loader:
            batches[epoch].append(batch.cls.tolist())
            drawn += batch.drawn.tolist()
            step()
        step(0)
    return {"length": len(loader), "epochs": batches, "drawn": drawn}


def train(folder: Path) -> Any:
    """A model whose gradients meet at every step, and which is therefore the same on all ranks in the end."""
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    before = [float(p.detach()) for p in model.parameters()]
    with ShardLoader(str(folder / "uneven"), batch_size=8, fields=("cls",), tail="pad", threads=1) as loader:
        for _ in range(2):
            for batch in loader:
                optimizer.zero_grad()
                (model(batch.cls[:, None] / 237) - 1).square().mean().backward()
                optimizer.step()
    return {"before": before, "after": [float(p.detach()) for p in model.parameters()]}


def raise_on_rank_1(folder: Path) -> Any:
    """What a bug on one rank looks like: the others wait for it in a collective, until the launcher ends them."""
    with ShardLoader(str(folder / "uneven"), batch_size=8, fields=("cls",), threads=2) as loader:
        for number, _ in enumerate(loader):
            if number == 3 and dist.get_rank() == 1:
                raise ArithmeticError("the bug on rank 1")
            step()
    return {}


SCENARIOS = (
    drop, pad, exact, exact_one_left, one_shard, too_few, bad_on_one_rank, workers, train, raise_on_rank_1
)  # fmt: skip


def main(folder: Path, names: list[str]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=LIMIT)
    try:
        for scenario in SCENARIOS:
            if scenario.__name__ in names:
                result = scenario(folder)
                (folder / f"{scenario.__name__}.{dist.get_rank()}.json").write_text(json.dumps(result))
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
