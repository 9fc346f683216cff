"""The demo's training: a small CNN on shards, and what a person wants to see of it, epoch by epoch.

It is the loop that a user writes, with nothing hidden: a loader for training, one with `tail="exact"` for evaluation,
so that each held-out picture counts once, `Normalize` as the model's first layer on the device, `to_device` around
the batches. "waiting" is the share of the epoch's wall clock in which the loop had no batch to work on: what the
loader costs the training. On a CPU the two share the cores, so the decoding also slows the model.

The net (five convolutions, batch norm, 0.4 million weights) and AdamW with one warm cycle are small enough to reach
about 80 % on the demo's 24 classes in six epochs of two seconds on two cores, where guessing gives 4 %.

The command is hidden and asks no hosts for headers or stores: `wds demo` calls it on the shards that it has packed into
a folder of this machine a moment before.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass

import click
import torch
from torch import nn
from torch.nn import functional

from loaders import CenterCrop, RandomResizedCrop
from loaders.torch import Normalize, ShardLoader, to_device
from wds_tools.commands.options import SEED
from wds_tools.cores import usable_cores
from wds_tools.dataset import open_dataset
from wds_tools.errors import UsageError

__all__ = ["train"]

SIDE = 96
"""Pixels of the training pictures' sides: enough to tell an owl from a panda, and 60 % faster than 128."""
BATCH = 32
LEARNING_RATE = 4e-3
FIELDS = ("jpg", "cls")


@dataclass(frozen=True, kw_only=True)
class _Epoch:
    """One line of the table."""

    number: int
    pictures_per_second: float
    waiting: float
    loss: float
    accuracy: float

    def __str__(self) -> str:
        return (
            f"{self.number:>5}  {self.pictures_per_second:>10,.0f}  {self.waiting:>7.0%}  {self.loss:>5.2f}"
            f"  {self.accuracy:>17.1%}"
        )


HEAD = "epoch  pictures/s  waiting   loss  held-out accuracy"


EPILOG = """\b
Examples:
  wds demo-train demo/shards/train demo/shards/val

Exit status: 0 the model has learned, 1 it has not, or a shard cannot be read, 2 used wrongly.
"""


@click.command("demo-train", hidden=True, epilog=EPILOG)
@click.argument("train_urls", metavar="TRAIN")
@click.argument("held_out_urls", metavar="HELD_OUT")
@click.option("--epochs", type=click.IntRange(min=1), default=6, show_default=True, help="Passes over the pictures.")
@click.option(
    "--device", type=click.Choice(["cpu", "cuda"]), help="Where the model runs [default: cuda if there is one]."
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of the order, the crops and the model's start.")
def train(train_urls: str, held_out_urls: str, *, epochs: int, device: str | None, seed: int) -> None:
    """Train the demo's model on TRAIN and try it on HELD_OUT."""
    classes = _classes(train_urls, held_out_urls)
    place = _device(device)
    torch.manual_seed(seed)
    # One core is left to the decoding. With a thread more, torch's threads wait for the one that was put aside: a tenth
    # of the speed, measured on a busy machine with two cores.
    torch.set_num_threads(max(1, usable_cores() - 1))
    with contextlib.ExitStack() as stack:
        ours, held_out = (stack.enter_context(loader) for loader in _loaders(train_urls, held_out_urls, seed))
        click.echo(
            f"training on pictures of {classes} classes, {len(ours)} batches of {BATCH} an epoch, on {place.type}"
            f" (threads: {torch.get_num_threads()} for the model, {ours.report().threads} for {ours.report().backend})"
        )
        click.echo(HEAD)
        last = _run(ours, held_out, _model(classes).to(place), epochs, place)
    chance = 1 / classes
    click.echo(f"held-out accuracy {last.accuracy:.1%}, {last.accuracy / chance:.0f} times chance ({chance:.1%})")


def _classes(train_urls: str, held_out_urls: str) -> int:
    names = open_dataset(train_urls).classes
    if not names or names != open_dataset(held_out_urls).classes:
        raise UsageError(
            "the two listings do not hold the same class names",
            cure="Pack both with `wds pack` from folders with the same class folders.",
        )
    return len(names)


def _device(name: str | None) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("this torch sees no CUDA device", cure="Leave --device out, or install a CUDA build of torch.")
    return torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))


def _loaders(train_urls: str, held_out_urls: str, seed: int) -> tuple[ShardLoader, ShardLoader]:
    crop = RandomResizedCrop(SIDE, scale=(0.25, 1.0))
    ours = ShardLoader(train_urls, batch_size=BATCH, fields=FIELDS, image=crop, seed=seed)
    held_out = ShardLoader(
        held_out_urls, batch_size=2 * BATCH, fields=FIELDS, image=CenterCrop(SIDE), shuffle=False, tail="exact"
    )
    return ours, held_out


def _model(classes: int) -> nn.Module:
    widths = (24, 48, 96, 192)
    layers: list[nn.Module] = [Normalize()]
    for before, width in zip((3, *widths), widths, strict=False):
        layers += [
            nn.Conv2d(before, width, 5 if before == 3 else 3, stride=2, padding=2 if before == 3 else 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
        ]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(widths[-1], classes)
    )


def _run(ours: ShardLoader, held_out: ShardLoader, model: nn.Module, epochs: int, place: torch.device) -> _Epoch:
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=epochs * len(ours))
    for number in range(1, epochs + 1):
        began, before = time.perf_counter(), ours.report()
        loss = _learn(ours, model, optimizer, schedule, place)
        seconds, after = time.perf_counter() - began, ours.report()
        line = _Epoch(
            number=number,
            pictures_per_second=(after.samples - before.samples) / seconds,
            waiting=(after.wait_seconds - before.wait_seconds) / seconds,
            loss=loss,
            accuracy=_accuracy(held_out, model, place),
        )
        click.echo(str(line))
    return line


def _learn(
    loader: ShardLoader,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    place: torch.device,
) -> float:
    model.train()
    total = torch.zeros((), device=place)  # summed on the device: a .item() a step would make a GPU wait for the CPU
    for pictures, labels in to_device(loader, place):
        loss = functional.cross_entropy(model(pictures), labels, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        total += loss.detach()
    return float(total) / len(loader)


@torch.inference_mode()
def _accuracy(loader: ShardLoader, model: nn.Module, place: torch.device) -> float:
    model.eval()
    right = seen = torch.zeros((), dtype=torch.int64, device=place)
    for pictures, labels in to_device(loader, place):
        right = right + (model(pictures).argmax(1) == labels).sum()
        seen = seen + labels.numel()
    return float(right) / float(seen)
