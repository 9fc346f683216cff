"""The real ones: torchdata's StatefulDataLoader, Lightning's Trainer, Accelerate. Resume at every kind of place."""

from __future__ import annotations

import itertools
import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from loaders.torch import ShardDataset, ShardLoader
from tests.builders import write_labels
from wds_tools.errors import StateError, UsageError

torchdata = pytest.importorskip("torchdata.stateful_dataloader")

pytestmark = [
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),  # torchdata 0.11 under torch 2.13
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),  # more workers than this machine has cores
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),  # newer Pythons, of a parent with threads
]

Epochs = list[list[list[int]]]


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_labels(tmp_path_factory.mktemp("labels"), [17, 40, 3, 0, 23])


OPTIONS: dict[str, Any] = {"batch_size": 8, "fields": ("cls",), "lanes": 6, "threads": 1}


@pytest.fixture(scope="module")
def epochs(labels: str) -> Epochs:
    """What a ShardLoader gives in epochs 0 to 3, ten batches each."""
    with ShardLoader(labels, **OPTIONS) as loader:
        return [[batch.cls.tolist() for batch in loader] for _ in range(4)]


# torchdata


def stateful(labels: str, workers: int, *, persistent: bool) -> Any:
    dataset = ShardDataset(labels, **OPTIONS)
    return torchdata.StatefulDataLoader(
        dataset,
        batch_size=None,
        num_workers=workers,
        persistent_workers=persistent,
        prefetch_factor=3 if workers else None,
    )


@pytest.mark.parametrize(("workers", "persistent"), [(0, False), (2, False), (3, True)])
def test_stateful_data_loader_goes_on(labels: str, epochs: Epochs, workers: int, persistent: bool) -> None:
    for whole, batches in ((0, 0), (0, 1), (0, 4), (0, 9), (1, 0), (1, 5)):
        loader = stateful(labels, workers, persistent=persistent)
        for _ in range(whole):
            assert len(list(loader)) == 10
        if batches:  # else the state is that of an epoch's end
            list(itertools.islice(iter(loader), batches))
        state = loader.state_dict()
        fresh = stateful(labels, workers, persistent=persistent)
        fresh.load_state_dict(state)
        for expected in (epochs[whole][batches:], epochs[whole + 1]):
            assert [batch.cls.tolist() for batch in fresh] == expected


def test_stateful_data_loader_with_other_workers_is_refused(labels: str) -> None:
    loader = stateful(labels, 0, persistent=False)
    next(iter(loader))
    states = loader.state_dict()["fetcher_state"]["dataset_iter_state"]
    with ShardDataset(labels, **OPTIONS) as dataset:
        batches = iter(dataset)
        with pytest.raises(StateError, match="num_workers=4, now 0"):
            batches.load_state_dict({**states, "workers": 4})  # type: ignore[attr-defined]
    loader.dataset.close()


# Lightning


@pytest.fixture
def lightning() -> Any:
    return pytest.importorskip("pytorch_lightning")


@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")
@pytest.mark.filterwarnings("ignore:.*weights_only.*")
@pytest.mark.filterwarnings("ignore:.*dirpath.*")
def test_lightning_goes_on_from_its_checkpoints(labels: str, epochs: Epochs, tmp_path: Path, lightning: Any) -> None:
    class Model(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.seen: list[tuple[int, list[int]]] = []

        def training_step(self, batch: Any, _number: int) -> torch.Tensor:
            self.seen.append((self.current_epoch, batch.cls.tolist()))
            loss: torch.Tensor = self.layer(batch.cls[:, None] / 83).mean()
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 1e-3)

    def fit(folder: Path, checkpoint: Path | None) -> list[tuple[int, list[int]]]:
        save = lightning.callbacks.ModelCheckpoint(folder, every_n_train_steps=1, save_top_k=-1, filename="{step}")
        trainer = lightning.Trainer(
            max_epochs=3, accelerator="cpu", logger=False, callbacks=[save], default_root_dir=tmp_path,
            enable_progress_bar=False, enable_model_summary=False,
        )  # fmt: skip
        model = Model()
        with ShardLoader(labels, **OPTIONS) as loader:
            trainer.fit(model, loader, ckpt_path=checkpoint)
        return model.seen

    expected = [(epoch, batch) for epoch in range(3) for batch in epochs[epoch]]
    assert fit(tmp_path / "whole", None) == expected
    for step in (1, 9, 10, 14):
        assert fit(tmp_path / f"from{step}", tmp_path / "whole" / f"step={step}.ckpt") == expected[step:]


# Accelerate


@pytest.fixture
def accelerator(tmp_path: Path) -> Iterator[Any]:
    accelerate = pytest.importorskip("accelerate")
    before = dict(os.environ)
    project = accelerate.utils.ProjectConfiguration(project_dir=str(tmp_path), automatic_checkpoint_naming=False)
    yield accelerate.Accelerator(cpu=True, project_config=project)
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerate.state.GradientState._reset_state()
    for name in set(os.environ) - set(before):
        del os.environ[name]


def test_accelerate_leaves_a_loader_alone_and_saves_its_place(
    labels: str, epochs: Epochs, tmp_path: Path, accelerator: Any
) -> None:
    with ShardLoader(labels, **OPTIONS) as loader:
        assert accelerator.prepare(loader) is loader
        accelerator.register_for_checkpointing(loader)
        batches = iter(loader)
        for expected in epochs[0][:4]:
            assert next(batches).cls.tolist() == expected
        accelerator.save_state(str(tmp_path / "saved"))
        list(batches)
        accelerator.load_state(str(tmp_path / "saved"))
        assert [batch.cls.tolist() for batch in loader] == epochs[0][4:]


@pytest.mark.parametrize(("workers", "context"), [(0, None), (2, "fork"), (1, "spawn")])
def test_accelerate_with_a_dataset_is_refused_with_the_cure(
    labels: str, accelerator: Any, workers: int, context: str | None
) -> None:
    loader = DataLoader(
        ShardDataset(labels, **OPTIONS), batch_size=None, num_workers=workers, multiprocessing_context=context
    )
    prepared = accelerator.prepare(loader)
    with pytest.raises(UsageError, match=r"Accelerate.*ShardLoader"):
        len(prepared)
    with pytest.raises(UsageError, match=r"Accelerate.*ShardLoader") as caught:
        next(iter(prepared))
    traceback.clear_frames(caught.tb)  # see test_dataset.error_of
