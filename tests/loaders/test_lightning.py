"""ShardDataModule under the real Trainer: in this process, and as two ranks over gloo (lightning_scenarios.py)."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from loaders import CenterCrop, Mask, RandomResizedCrop, Resize
from loaders.lightning import ShardDataModule
from loaders.torch import ShardLoader
from tests.builders import settle, write_labels, write_pictures
from tests.loaders.lightning_scenarios import EPOCHS, STEP, Model, data, trainer
from wds_tools.errors import NoShardsError, StateError, UsageError

ROOT = Path(__file__).parents[2]
LIMIT = 240  # seconds the whole job may take, on a busy machine; it takes about thirty
TRAIN, VAL = [17, 40, 3, 0, 23], [5, 8]  # 83 and 13 samples

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*weights_only.*"),
    pytest.mark.filterwarnings("ignore:.*dirpath.*"),
    pytest.mark.filterwarnings("ignore:.*exists and is not empty.*"),
    pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`"),
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no `val_dataloader`"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),  # more workers than this machine has cores
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),  # newer Pythons, of a parent with threads
]

Trained = list[tuple[int, list[int]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("lightning")
    write_labels(made / "train", TRAIN)
    write_labels(made / "val", VAL)
    return made


def expected(folder: Path, *, rank: int = 0, world_size: int = 1, epochs: int = EPOCHS, **own: Any) -> Trained:
    """What the loader itself gives."""
    options = {"batch_size": 4, "fields": ("cls",), "rank": rank, "world_size": world_size, **own}
    with ShardLoader(str(folder / "train"), **options) as loader:
        return [(epoch, batch.cls.tolist()) for epoch in range(epochs) for batch in loader]


def fit(
    folder: Path, saved: Path, *, ckpt_path: Path | None = None, run: dict[str, Any] | None = None, **own: Any
) -> tuple[Trained, Model]:
    model = Model()
    trainer(saved, **(run or {})).fit(model, data(folder, **own), ckpt_path=ckpt_path)
    return model.trained, model


# Two ranks


@pytest.fixture(scope="module")
def ranks(folder: Path) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = [str(ROOT / "tests/loaders/lightning_scenarios.py"), str(folder)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, *script], env=environment, timeout=LIMIT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


def given(ranks: list[dict[str, Any]], run: str) -> list[Trained]:
    return [[(epoch, labels) for epoch, labels in rank[run]["trained"]] for rank in ranks]


@pytest.mark.parametrize("run", ["whole", "global", "workers"])
def test_ranks_have_each_sample_once_an_epoch(folder: Path, ranks: list[dict[str, Any]], run: str) -> None:
    shares = given(ranks, run)
    assert shares == [expected(folder, rank=rank, world_size=2) for rank in range(2)]
    for epoch in range(EPOCHS):
        labels = [label for share in shares for at, batch in share if at == epoch for label in batch]
        assert len(labels) == len(set(labels)) == 80  # ten global batches of eight


@pytest.mark.parametrize("run", ["resumed", "workers resumed"])
def test_ranks_go_on_from_a_checkpoint_in_the_middle_of_an_epoch(ranks: list[dict[str, Any]], run: str) -> None:
    assert given(ranks, run) == [share[STEP:] for share in given(ranks, "whole")]
    assert {rank[run]["step"] for rank in ranks} == {20}


@pytest.mark.parametrize(("run", "times"), [("tested", 1), ("whole", EPOCHS)])
def test_ranks_evaluate_each_sample_once(ranks: list[dict[str, Any]], run: str, times: int) -> None:
    batches = [rank[run]["evaluated"] for rank in ranks]
    assert [len(each) for each in batches] == [2 * times] * 2  # 13 samples in global batches of 8
    assert sorted(label for each in batches for batch in each for label in batch) == sorted(list(range(13)) * times)


# One process


def test_it_goes_on_from_every_step(folder: Path, tmp_path: Path) -> None:
    whole, _ = fit(folder, tmp_path / "whole")
    assert whole == expected(folder)
    for step in (1, 19, 20, 27):
        rest, _ = fit(folder, tmp_path / f"{step}", ckpt_path=tmp_path / "whole" / f"step={step}.ckpt")
        assert rest == whole[step:]


@pytest.mark.parametrize("batch_size", [2, 5, 8])
@pytest.mark.parametrize("step", [3, 20])
def test_another_batch_size_goes_on_at_the_same_sample(
    folder: Path, tmp_path: Path, batch_size: int, step: int
) -> None:
    fit(folder, tmp_path / "whole", val=None)
    rest, _ = fit(
        folder, tmp_path / "rest", ckpt_path=tmp_path / "whole" / f"step={step}.ckpt", batch_size=batch_size, val=None
    )
    with ShardLoader(str(folder / "train"), batch_size=batch_size, fields=("cls",)) as loader:
        loader.load_state_dict(torch.load(tmp_path / "whole" / f"step={step}.ckpt")["ShardDataModule"]["train"])
        assert rest == [(epoch, batch.cls.tolist()) for epoch in range(loader.epoch, EPOCHS) for batch in loader]


@pytest.mark.parametrize("batch_size", [2, 4, 8])
def test_a_checkpoint_of_an_epochs_end_goes_on_with_the_next(folder: Path, tmp_path: Path, batch_size: int) -> None:
    save = pl.callbacks.ModelCheckpoint(tmp_path / "ends", save_on_train_epoch_end=True, save_top_k=-1)
    fit(folder, tmp_path / "whole", run={"callbacks": [save]}, val=None)
    checkpoint = tmp_path / "ends" / "epoch=0-step=20.ckpt"
    rest, _ = fit(folder, tmp_path / "rest", ckpt_path=checkpoint, batch_size=batch_size, val=None)
    assert rest == [(epoch, batch) for epoch, batch in expected(folder, batch_size=batch_size) if epoch == 1]


def test_a_place_with_less_than_a_batch_left_is_the_next_epochs(folder: Path, tmp_path: Path) -> None:
    fit(folder, tmp_path / "whole", val=None)
    rest, _ = fit(folder, tmp_path / "rest", ckpt_path=tmp_path / "whole" / "step=19.ckpt", batch_size=10, val=None)
    assert rest == [(epoch, batch) for epoch, batch in expected(folder, batch_size=10) if epoch == 1]


def test_epochs_that_are_cut_short_go_on_as_if_nothing_had_happened(folder: Path, tmp_path: Path) -> None:
    run = {"limit_train_batches": 5, "max_epochs": 3}
    whole, _ = fit(folder, tmp_path / "whole", run=run)
    by_epoch = [[batch for at, batch in expected(folder, epochs=3) if at == epoch][:5] for epoch in range(3)]
    assert whole == [(epoch, batch) for epoch in range(3) for batch in by_epoch[epoch]]
    for step in (3, 5, 10, 12):
        rest, _ = fit(folder, tmp_path / f"{step}", ckpt_path=tmp_path / "whole" / f"step={step}.ckpt", run=run)
        assert rest == whole[step:]


def test_workers_begin_with_the_first_epoch(folder: Path, tmp_path: Path) -> None:
    with_workers, model = fit(folder, tmp_path, num_workers=2)
    assert with_workers == expected(folder)
    assert model.evaluated == [
        batch for _ in range(EPOCHS) for batch in ([0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12])
    ]


def test_a_loader_is_made_once_for_all_stages(folder: Path, tmp_path: Path) -> None:
    module = data(folder, test=str(folder / "val"))
    run = trainer(tmp_path)
    model = Model()
    run.fit(model, module)
    train, val = module.train_dataloader(), module.val_dataloader()
    run.validate(model, module)
    run.test(model, module)
    assert (module.train_dataloader(), module.val_dataloader()) == (train, val)
    assert model.trained == expected(folder)
    run.fit_loop.max_epochs = 3
    run.fit(model, module)  # goes on with its third epoch
    assert model.trained == expected(folder, epochs=3)
    again = Model()
    trainer(tmp_path / "again").fit(again, module)  # a run of its own
    assert again.trained == expected(folder)


def test_nothing_runs_on_after_a_stage(folder: Path, tmp_path: Path) -> None:
    import threading

    def ours() -> list[str]:
        settle()
        return [thread.name for thread in threading.enumerate() if thread.name.startswith("shardstream")]

    class Failing(Model):
        def training_step(self, batch: Any, number: int) -> torch.Tensor:
            if number == 2:
                raise ArithmeticError("a bug")
            return super().training_step(batch, number)

    module = data(folder)
    run = trainer(tmp_path)
    run.fit(Model(), module)
    assert ours() == []
    run.save_checkpoint(tmp_path / "after.ckpt")
    assert ours() == []
    state = torch.load(tmp_path / "after.ckpt")["ShardDataModule"]["train"]
    assert (state["epoch"], state["position"]) == (EPOCHS, 0)
    with pytest.raises(ArithmeticError):
        trainer(tmp_path / "failing").fit(Failing(), module)
    assert ours() == []
    assert module.state_dict()["train"]["position"] == 12


def test_several_validation_sets_have_names(folder: Path, tmp_path: Path) -> None:
    both = {"a": str(folder / "val"), "b": [str(folder / "val" / "s-0001.tar")]}
    _, model = fit(folder, tmp_path, val=both, run={"max_epochs": 1})
    assert sorted(label for batch in model.evaluated for label in batch) == sorted([*range(13), *range(5, 13)])


def test_without_validation_there_is_none(folder: Path, tmp_path: Path) -> None:
    _, model = fit(folder, tmp_path, val=None, run={"max_epochs": 1})
    assert model.evaluated == []


def test_a_checkpoint_of_other_data_is_refused(folder: Path, tmp_path: Path) -> None:
    fit(folder, tmp_path, run={"max_steps": 1})
    with pytest.raises(StateError, match="seed was 0, now 1"):
        fit(folder, tmp_path / "other", ckpt_path=tmp_path / "step=1.ckpt", seed=1)


def test_checkpoints_of_a_bare_loader_and_of_the_module_go_on_with_either(folder: Path, tmp_path: Path) -> None:
    def bare(saved: Path, ckpt_path: Path | None = None) -> Trained:
        model = Model()
        with ShardLoader(str(folder / "train"), batch_size=4, fields=("cls",)) as loader:
            trainer(saved).fit(model, loader, ckpt_path=ckpt_path)
        return model.trained

    whole = bare(tmp_path / "bare")
    assert whole == fit(folder, tmp_path / "module", val=None)[0] == expected(folder)
    checkpoint = tmp_path / "bare" / "step=7.ckpt"
    assert fit(folder, tmp_path / "a", ckpt_path=checkpoint, val=None)[0] == whole[7:]
    assert bare(tmp_path / "b", tmp_path / "module" / "step=7.ckpt") == whole[7:]


def test_evaluation_crops_the_centre() -> None:
    image: Any = {"jpg": RandomResizedCrop(24), "png": Mask()}
    module = ShardDataModule("a", val="b", batch_size=2, fields=("jpg", "png"), image=image)
    assert module._evaluating["image"] == {"jpg": CenterCrop(24), "png": Mask()}
    for given_, still in ((RandomResizedCrop((24, 32)), CenterCrop((24, 32))), (Resize(9), Resize(9)), (None, None)):
        assert ShardDataModule("a", batch_size=2, image=given_)._evaluating["image"] == still
    assert ShardDataModule("a", batch_size=2, image=Resize(9), eval_image=Resize(8))._evaluating["image"] == Resize(8)


def test_pictures_of_evaluation_are_decoded(tmp_path: Path) -> None:
    urls = write_pictures(tmp_path, [5])
    module = ShardDataModule(urls, val=urls, batch_size=4, eval_batch_size=5, image=RandomResizedCrop(24))
    module.setup("validate")
    (batch,) = module.val_dataloader()
    assert (tuple(batch.jpg.shape), batch.cls.tolist()) == ((5, 3, 24, 24), [0, 1, 2, 3, 4])
    module.close()


def test_it_is_stored_and_copied_before_it_is_used(folder: Path) -> None:
    module = pickle.loads(pickle.dumps(data(folder)))
    module.setup("fit")
    assert [batch.cls.tolist() for batch in module.train_dataloader()] == [
        batch for _, batch in expected(folder, epochs=1)
    ]
    module.close()


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"batch_size": None}, "expected one of the two"),
        ({"global_batch_size": 8}, "expected one of the two"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"eval_batch_size": 0}, "eval_batch_size is 0"),
        ({"num_workers": -1}, "num_workers is -1"),
        ({"num_workers": True}, "num_workers is True"),
        ({"multiprocessing_context": "thread"}, "multiprocessing_context is 'thread'"),
        ({"image": RandomResizedCrop(24)}, "none of the fields cls is a picture"),
        ({"on_error": "ignore"}, "on_error is 'ignore'"),
    ],
)
def test_what_cannot_be_is_said_at_once(folder: Path, own: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        data(folder, **own)


def test_what_is_missing_is_said(folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    module = data(folder)
    with pytest.raises(UsageError, match=r"Call setup"):
        module.train_dataloader()
    with pytest.raises(UsageError, match=r'setup\("fit"\)'):
        module.load_state_dict({"train": {}})
    with caplog.at_level(logging.ERROR), pytest.raises(NoShardsError):
        trainer(tmp_path).fit(Model(), ShardDataModule(str(tmp_path / "none"), batch_size=2))


@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
def test_it_is_a_data_module_of_the_package_in_use(package: str) -> None:
    if importlib.util.find_spec(package.partition(".")[0]) is None:
        pytest.skip(f"{package} is not installed")
    code = f"import {package} as pl\nfrom loaders.lightning import ShardDataModule as M\n"
    code += "assert issubclass(M, pl.LightningDataModule)"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=ROOT, check=True, timeout=LIMIT)
