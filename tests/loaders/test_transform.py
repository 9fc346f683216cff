"""What a transform or collate does wrong is said with the sample's name, and never passes for an end."""

from __future__ import annotations

from typing import Any

import pytest
from torch.utils.data import DataLoader

from loaders import ShardLoader, StreamLoader
from loaders.torch import ShardDataset
from tests.builders import write_labels
from wds_tools.errors import UsageError

BAD = 11


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_labels(tmp_path_factory.mktemp("labels"), [17, 13])


def options(**own: Any) -> dict[str, Any]:
    return {"batch_size": 4, "fields": ("cls",), "shuffle": False, **own}


def stops(sample: dict[str, Any]) -> dict[str, Any]:
    if sample["cls"] == BAD:
        raise StopIteration
    return sample


def stops_collating(samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list(map(stops, samples)) if all(sample["cls"] != BAD for sample in samples) else next(iter(()))


@pytest.mark.parametrize("own", [{"transform": stops}, {"collate": stops_collating}], ids=["transform", "collate"])
@pytest.mark.parametrize("kind", ["ShardLoader", "StreamLoader", "ShardDataset"])
def test_a_stopiteration_is_no_end_of_the_epoch(labels: str, kind: str, own: dict[str, Any]) -> None:
    given: Any
    if kind == "ShardDataset":
        given = DataLoader(ShardDataset(labels, **options(**own)), batch_size=None)
    else:
        given = {"ShardLoader": ShardLoader, "StreamLoader": StreamLoader}[kind](labels, **options(**own, threads=2))
    batches = iter(given)
    next(batches), next(batches)
    with pytest.raises(RuntimeError, match=f"{next(iter(own))}= raised StopIteration for .*sample '") as caught:
        next(batches)
    assert isinstance(caught.value.__cause__, StopIteration)
    (given.dataset if kind == "ShardDataset" else given).close()


@pytest.mark.parametrize("kind", [ShardLoader, StreamLoader])
@pytest.mark.parametrize("what", ["iterate", "close"])
def test_a_loader_is_not_to_be_used_inside_its_own_transform(labels: str, kind: Any, what: str) -> None:
    def transform(sample: dict[str, Any]) -> dict[str, Any]:
        if what == "close":
            loader.close()
        else:
            next(iter(loader))
        return sample

    with kind(labels, **options(transform=transform, threads=2)) as loader:
        with pytest.raises(UsageError, match="thread of its own"):
            list(loader)
