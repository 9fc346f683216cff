"""ShardDataModule: shards for the training, validation, test and prediction of a Lightning Trainer.

    data = ShardDataModule("train/", val="val/", batch_size=256, image=RandomResizedCrop(224))
    trainer.fit(model, data, ckpt_path="last")

Loaders are made in `setup`, when the Trainer knows its ranks, and once: fit, validate and test of one Trainer use the
same. Ranks are those by which the Trainer's strategy splits data, and no sampler is needed. Evaluation gives each
sample once, with as many batches on every rank, the last of which may be short or empty.

The state of the training loader goes into Lightning's checkpoints, and counts what the model was given. Three things
need help, since Lightning counts batches and not samples, and counts for itself:

- An epoch that `limit_train_batches` ends leaves the loader in its middle: its state is saved as the next one's start.
- In the middle of an epoch another batch size or number of ranks makes another number of batches. Lightning's own count
  is set to what the place comes to in batches of now, or the epoch would end too early or too late.
- What is saved after a run had its teardown is the state at that moment.

With `num_workers` batches come from worker processes, in the same order, and as resumable (`loaders.torch.resumable`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import get_all_start_methods
from types import MethodType
from typing import Any, TypeAlias

from torch.utils.data import DataLoader

from loaders.arguments import check_count, whole
from loaders.crops import CenterCrop, RandomResizedCrop
from loaders.fields import DEFAULT_FIELDS, ImageSpec, parse_fields
from loaders.policy import OnError, policy_of
from loaders.reading import Reading
from loaders.selection import Selection, Urls
from loaders.torch.dataset import ShardDataset
from loaders.torch.loader import ShardLoader
from loaders.torch.resumable import ResumableLoader, resumable
from wds_tools.errors import ShardstreamError, UsageError
from wds_tools.pictures.options import Pictures

# The class that the Trainer in use knows: of the two packages that have it the one that is imported already.
if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
    from pytorch_lightning import LightningDataModule
else:
    try:
        from lightning.pytorch import LightningDataModule
    except ImportError:
        from pytorch_lightning import LightningDataModule

__all__ = ["Evaluated", "ShardDataModule"]

Loader: TypeAlias = ShardLoader | ResumableLoader
Evaluated: TypeAlias = Urls | Selection | Mapping[str, Urls | Selection] | None
"""Shards; or several datasets by name, each evaluated for itself."""

_STAGES = {"fit": ("train", "val"), "validate": ("val",), "test": ("test",), "predict": ("predict",)}


class ShardDataModule(LightningDataModule):  # type: ignore[misc,unused-ignore]
    """Shards as a LightningDataModule. See the module.

    Batches are those of `loaders.torch.ShardLoader`, which documents the arguments that are not explained here.

    Args:
        train: shards to train on, or a selection such as `loaders.mix(...)`.
        val: shards to validate on, or a dict of several datasets by name.
        test: likewise.
        predict: likewise.
        batch_size: samples per batch of each rank; either this or global_batch_size.
        global_batch_size: samples per batch of all ranks together.
        eval_batch_size: of everything but training, by rank or in all as the one that is given; None means the same.
        fields: the columns.
        image: what pictures become.
        eval_image: of everything but training; None means the same, but for a RandomResizedCrop the CenterCrop of its
            size.
        transform: takes and returns one decoded sample, a dict.
        eval_transform: of everything but training; None means none.
        collate: takes the list of a batch's samples and returns the batch.
        seed: of the order and of all random numbers.
        on_error: "raise" or "skip", or a handler of webdataset.
        threads: decode threads of each rank; with workers of each worker, 1 by default.
        num_workers: worker processes of each rank, for a transform that holds the interpreter's lock; 0 decodes in
            threads, which else is faster.
        multiprocessing_context: how they start, "fork", "spawn" or "forkserver"; None means as torch does.
        read: how far ahead is read.
        pictures: what decoding does with transparency, orientation, profiles and bombs.

    Raises:
        UsageError: an argument that cannot be; from the Trainer's calls, what the loader says.
    """

    def __init__(
        self,
        train: Urls | Selection | None = None,
        *,
        val: Evaluated = None,
        test: Evaluated = None,
        predict: Evaluated = None,
        batch_size: int | None = None,
        global_batch_size: int | None = None,
        eval_batch_size: int | None = None,
        fields: Sequence[str] = DEFAULT_FIELDS,
        image: ImageSpec = None,
        eval_image: ImageSpec = None,
        transform: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        eval_transform: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        collate: Callable[[list[dict[str, Any]]], Any] | None = None,
        seed: int = 0,
        on_error: OnError = "raise",
        threads: int | None = None,
        num_workers: int = 0,
        multiprocessing_context: str | None = None,
        read: Reading = Reading(),  # noqa: B008 - frozen
        pictures: Pictures = Pictures(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__()
        if (batch_size is None) == (global_batch_size is None):
            raise UsageError(
                f"batch_size is {batch_size} and global_batch_size is {global_batch_size}, expected one of the two",
                cure="Pass batch_size= (of each rank) or global_batch_size= (of all ranks together).",
            )
        size_name = "batch_size" if global_batch_size is None else "global_batch_size"
        size = batch_size if global_batch_size is None else global_batch_size
        check_count(size_name, size)
        if eval_batch_size is not None:
            check_count("eval_batch_size", eval_batch_size)
        if not whole(num_workers) or num_workers < 0:
            raise UsageError(f"num_workers is {num_workers!r}, expected a whole number of at least 0")
        common = {
            "fields": tuple(fields),
            "collate": collate,
            "seed": seed,
            "on_error": policy_of(on_error),
            "threads": threads,
            "read": read,
            "pictures": pictures,
        }
        eval_image = eval_image if eval_image is not None else _still(image)
        for spec in (image, eval_image):
            parse_fields(fields, spec)
        self._urls: dict[str, Any] = {"train": train, "val": val, "test": test, "predict": predict}
        self._training: dict[str, Any] = {**common, size_name: size, "image": image, "transform": transform}
        self._evaluating: dict[str, Any] = {
            **common,
            size_name: eval_batch_size if eval_batch_size is not None else size,
            "image": eval_image,
            "transform": eval_transform,
            "shuffle": False,
            "tail": "exact",
        }
        if multiprocessing_context not in {None, *get_all_start_methods()}:
            raise UsageError(
                f"multiprocessing_context is {multiprocessing_context!r}",
                cure=f"Pass one of {', '.join(map(repr, get_all_start_methods()))}, or None.",
            )
        self.num_workers = num_workers
        self._context = multiprocessing_context
        self._place: tuple[int | None, int | None, bool] | None = None
        self._loaders: dict[str, Any] = {}
        self._state: dict[str, Any] | None = None  # of a run that is over
        self._open = False
        self._leave_out()

    def _leave_out(self) -> None:
        """Let Lightning see no loader where there are no shards: it looks whether a method is its own."""
        for name, urls in self._urls.items():
            if urls is None:
                method = f"{name}_dataloader"
                setattr(self, method, MethodType(getattr(LightningDataModule, method), self))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if not name.endswith("_dataloader")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._leave_out()

    # What the Trainer calls, in this order.

    def setup(self, stage: str | None = None) -> None:
        """Make the loaders of a stage, where they are not there yet."""
        place = self._where()
        if place != self._place:
            self.close()
            self._loaders, self._place = {}, place
        for name in _STAGES.get(str(getattr(stage, "value", stage)), tuple(self._urls)):
            if self._urls[name] is not None and name not in self._loaders:
                self._loaders[name] = self._made(name)
        if stage == "fit" and "train" in self._loaders:
            self._loaders["train"].loader.set_epoch(self.trainer.current_epoch if self.trainer is not None else 0)
        self._open = True

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave; Lightning calls it between `setup` and the first batch.

        Raises:
            StateError: it is of another dataset, seed or order; the message says what changed.
        """
        if "train" not in self._loaders:
            raise UsageError("a state is loaded before the training loader is made", cure='Call setup("fit") first.')
        self._loaders["train"].loader.load_state_dict(state_dict["train"])

    def train_dataloader(self) -> TrainLoader:
        """The training batches of this rank."""
        return self._given("train")  # type: ignore[no-any-return]

    def val_dataloader(self) -> Any:
        """The validation batches of this rank: a loader, or a dict of them."""
        return self._given("val")

    def test_dataloader(self) -> Any:
        """As val_dataloader."""
        return self._given("test")

    def predict_dataloader(self) -> Any:
        """As val_dataloader."""
        return self._given("predict")

    def state_dict(self) -> dict[str, Any]:
        """Where training stands, for a checkpoint; nothing where there is no training."""
        return self._now() if self._open else self._state or {}

    def _now(self) -> dict[str, Any]:
        if "train" not in self._loaders:
            return {}
        state = self._loaders["train"].loader.state_dict()
        if state["position"] > 0 and self._epoch_is_over():
            state = {**state, "epoch": state["epoch"] + 1, "position": 0}
        return {"train": state}

    def teardown(self, stage: str | None = None) -> None:
        """End the threads and workers; a later stage begins them anew."""
        del stage
        self.close()

    def on_exception(self, exception: BaseException) -> None:
        """The same, where a run did not come to its end."""
        del exception
        self.close()

    def close(self) -> None:
        """End the threads and workers; twice does nothing."""
        if self._open:
            self._open, self._state = False, self._last_state()
        for made in self._loaders.values():
            for loader in made.values() if isinstance(made, dict) else (made,):
                loader.close()

    def _last_state(self) -> dict[str, Any] | None:
        try:
            return self._now()
        except ShardstreamError:  # what cannot be opened has no place, and was said already
            return None

    # How loaders are made.

    def _where(self) -> tuple[int | None, int | None, bool]:
        """Rank, world size, and whether batches are to be pinned. Without a Trainer the loaders find their ranks."""
        if self.trainer is None:
            return None, None, False
        split = self.trainer.distributed_sampler_kwargs or {"rank": 0, "num_replicas": 1}
        return split["rank"], split["num_replicas"], self.trainer.strategy.root_device.type == "cuda"

    def _made(self, name: str) -> Any:
        urls = self._urls[name]
        if name == "train":
            return TrainLoader(self._loader(urls, self._training), self)
        if isinstance(urls, Mapping):
            return {part: self._loader(each, self._evaluating) for part, each in urls.items()}
        return self._loader(urls, self._evaluating)

    def _loader(self, urls: Urls | Selection, options: dict[str, Any]) -> Loader:
        rank, world_size, pin = self._place or (None, None, False)
        if not self.num_workers:
            return ShardLoader(urls, **options, rank=rank, world_size=world_size, pin_memory=pin)
        dataset = ShardDataset(urls, **options, rank=rank, world_size=world_size)
        workers, context = self.num_workers, self._context
        return resumable(
            DataLoader(dataset, batch_size=None, num_workers=workers, multiprocessing_context=context, pin_memory=pin)
        )

    def _given(self, name: str) -> Any:
        if name not in self._loaders:
            raise UsageError(f"the {name} loader is asked for before it is made", cure="Call setup() first.")
        return self._loaders[name]

    # What Lightning counts.

    @property
    def _progress(self) -> Any:
        """Lightning's count of the training batches of the epoch."""
        return self.trainer.fit_loop.epoch_loop.batch_progress

    def _epoch_is_over(self) -> bool:
        return self.trainer is not None and bool(self._progress.is_last_batch)

    def recount(self, loader: Loader, state: Mapping[str, Any]) -> None:
        """Let Lightning have counted what a loaded place comes to in batches of now. See the module."""
        if self.trainer is None:
            return
        _, world_size, _ = self._place or (None, None, False)
        size = self._training.get("global_batch_size") or self._training["batch_size"] * (world_size or 1)
        current = self._progress.current
        at_end = state["position"] == 0 and current.processed > 0  # its loops have yet to leave the epoch
        left = 0 if at_end else loader.plan.batches(size, position=state["position"])
        more = loader.plan.batches(size) - left - current.processed
        for name in ("ready", "started", "processed", "completed"):
            setattr(current, name, getattr(current, name) + more)
        self._progress.is_last_batch = left == 0


class TrainLoader:
    """The training batches as Lightning iterates them: with the data module's state, by which its own checks go too."""

    def __init__(self, loader: Loader, module: ShardDataModule) -> None:
        self.loader = loader
        self._module = module

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Any:
        return iter(self.loader)

    def state_dict(self) -> dict[str, Any]:
        """As the data module's, and of the form that a bare loader's has."""
        state: dict[str, Any] = self._module.state_dict()["train"]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As the data module's, which may have loaded it before; Lightning has its own counts now."""
        self._module.load_state_dict({"train": state_dict})
        self._module.recount(self.loader, state_dict)

    def close(self) -> None:
        """End the threads and workers."""
        self.loader.close()

    def __repr__(self) -> str:
        return repr(self.loader)


def _still(image: ImageSpec) -> ImageSpec:
    """The same for evaluation: nothing random."""
    if isinstance(image, Mapping):
        return {
            field: CenterCrop(each.size) if isinstance(each, RandomResizedCrop) else each
            for field, each in image.items()
        }
    return CenterCrop(image.size) if isinstance(image, RandomResizedCrop) else image
