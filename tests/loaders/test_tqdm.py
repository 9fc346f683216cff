"""Loaders under tqdm: it knows how long an epoch is and shows the rate, of a resumed epoch too."""

import io
import re
from collections.abc import Callable
from typing import Any

import pytest
from tqdm import tqdm

import loaders
import loaders.torch
from tests.builders import write_pictures


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_pictures(tmp_path_factory.mktemp("shards"), [40, 40])


MADE: dict[str, Callable[[str], Any]] = {
    "numpy": lambda urls: loaders.ShardLoader(urls, batch_size=16, image=loaders.Resize(16)),
    "torch": lambda urls: loaders.torch.ShardLoader(urls, batch_size=16, image=loaders.Resize(16)),
    "stream": lambda urls: loaders.StreamLoader(urls, batch_size=16, image=loaders.Resize(16), epoch_samples=80),
}


@pytest.mark.parametrize("name", MADE)
def test_an_epoch_has_a_length_and_a_rate(folder: str, name: str) -> None:
    shown = io.StringIO()
    with MADE[name](folder) as loader:
        bar = tqdm(loader, file=shown, mininterval=0, unit="batch")
        assert bar.total == len(loader) == 5
        assert len(list(bar)) == 5
    last = shown.getvalue().split("\r")[-1]
    assert re.search(r"100%\|.*\| 5/5 \[00:\d\d<00:\d\d, +[\d.]+(batch/s|s/batch)\]", last), last


def test_a_resumed_epoch_begins_where_it_stopped(folder: str) -> None:
    with MADE["numpy"](folder) as first:
        batches = iter(first)
        next(batches), next(batches)
        state = first.state_dict()
    with MADE["numpy"](folder) as loader:
        loader.load_state_dict(state)
        shown = io.StringIO()
        for _ in tqdm(loader, initial=2, total=len(loader), file=shown, mininterval=0):
            pass
    assert "100%" in shown.getvalue()
    assert "| 5/5 [" in shown.getvalue()
