"""What each rank of a torchrun job does for test_lightning.py: the real Trainer, ddp over gloo, all in one launch.

    torchrun ... lightning_scenarios.py FOLDER

Rank r writes FOLDER/r.json: for each run what the model was given, [epoch, labels] in order.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch

from loaders.lightning import ShardDataModule
from tests.worker_start import beside_gloo

STEP = 4
EPOCHS = 2


class Model(pl.LightningModule):  # type: ignore[misc]
    """One weight, trained on labels; remembers what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.trained: list[tuple[int, list[int]]] = []
        self.evaluated: list[list[int]] = []

    def training_step(self, batch: Any, _number: int) -> torch.Tensor:
        self.trained.append((self.current_epoch, batch.cls.tolist()))
        loss: torch.Tensor = self.layer(batch.cls[:, None] / 83).square().mean()
        return loss

    def validation_step(self, batch: Any, _number: int, dataloader_idx: int = 0) -> None:
        self.evaluated.append(batch.cls.tolist())

    test_step = validation_step

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 1e-3)


def trainer(folder: Path, **own: Any) -> Any:
    """A quiet Trainer on the CPU, with a checkpoint after each step."""
    save = pl.callbacks.ModelCheckpoint(folder, every_n_train_steps=1, save_top_k=-1, filename="{step}")
    options = {
        "max_epochs": EPOCHS, "accelerator": "cpu", "devices": 1, "logger": False, "callbacks": [save],
        "default_root_dir": folder, "enable_progress_bar": False, "enable_model_summary": False,
        "num_sanity_val_steps": 0, **own,
    }  # fmt: skip
    return pl.Trainer(**options)


def data(folder: Path, **own: Any) -> ShardDataModule:
    """Labels only."""
    options = {"batch_size": 4, "fields": ("cls",), "threads": 1, "val": str(folder / "val"), **own}
    return ShardDataModule(str(folder / "train"), **options)


def fit(folder: Path, name: str, *, ckpt_path: Path | None = None, devices: int = 2, **own: Any) -> dict[str, Any]:
    """One fit; what this rank's model was given."""
    model = Model()
    run = trainer(folder / name, devices=devices, strategy="ddp")
    run.fit(model, data(folder, **own), ckpt_path=ckpt_path)
    return {"trained": model.trained, "evaluated": model.evaluated, "step": run.global_step}


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    found = {"whole": fit(folder, "whole")}
    saved = folder / "whole" / f"step={STEP}.ckpt"
    found["resumed"] = fit(folder, "resumed", ckpt_path=saved)
    found["global"] = fit(folder, "global", batch_size=None, global_batch_size=8)
    start = beside_gloo("pytorch_lightning", "loaders.lightning")
    found["workers"] = fit(folder, "workers", num_workers=2, multiprocessing_context=start)
    found["workers resumed"] = fit(folder, "again", ckpt_path=saved, num_workers=1, multiprocessing_context=start)
    model = Model()
    trainer(folder / "tested", devices=2, strategy="ddp").test(model, data(folder, test=str(folder / "val")))
    found["tested"] = {"evaluated": model.evaluated}
    (folder / f"{os.environ['RANK']}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
