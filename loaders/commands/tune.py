"""`wds tune URLS`: settings of a loader, found by measuring on the user's own shards."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import click

from loaders.commands.loading import Asked, loader_options
from loaders.footprint import children_of, held_bytes
from loaders.loader import ShardLoader
from loaders.spelled import arguments, imports_of, spelled
from loaders.tune import WORKERS_START_S, Candidate, Tried, Tuned, first_field, neighbours
from loaders.tune import tune as search
from wds_tools import progress
from wds_tools.commands import options
from wds_tools.cores import usable_cores

__all__ = ["tune"]

EPILOG = """\b
Examples:
  wds tune data/train --batch-size 256
  wds tune data/train --budget 2min --memory 8GB --simulate-step 80ms
  wds tune https://host/train/dataset.json --cache-dir /nvme/cache --try-order

With --simulate-step the cheapest settings that keep up with the training win.

Exit status: 0 measured, 1 a sample cannot be read or decoded, 2 used wrongly.
"""


@click.command("tune", epilog=EPILOG)
@loader_options
@click.option("--budget", type=options.Duration(), default="60s", show_default=True, help="How long it may take.")
@click.option("--memory", type=options.ByteSize(), metavar="SIZE", help="That the loader may hold.  [default: any]")
@click.option("--simulate-step", "step", type=options.Duration(), default="0", help="Of the training, as 50ms.")
@click.option("--no-workers", is_flag=True, help="Threads only: no worker processes, and no torch.")
@click.option("--try-order", is_flag=True, help="Try longer blocks too, which make another order.")
@options.as_json
def tune(
    *,
    asked: Asked,
    budget: float,
    memory: int | None,
    step: float,
    no_workers: bool,
    try_order: bool,
    as_json: bool,
) -> None:
    """Find a loader's settings on your own shards, by measuring.

    Candidates are measured in turn, again and again. Of those within the noise of the fastest the simplest wins.
    """
    left_out = "" if no_workers else _why_no_workers(asked, budget)
    workers = not no_workers and not left_out
    if workers:
        importlib.import_module("loaders.torch")  # now, so that neither time nor memory of it count for a candidate
    with contextlib.ExitStack() as stack, progress.bar("measuring", unit="measurements") as bar:
        found = search(
            first_field(usable_cores(), workers=workers),
            _Batches(asked, stack),
            budget_seconds=budget,
            memory_bytes=memory,
            more=lambda leader: neighbours(leader, order=try_order),
            step=(lambda: time.sleep(step)) if step else None,
            held=_held,
            progress=bar.advance,
        )
    code = code_of(asked, found.winner.candidate)
    if as_json:
        facts = {"tried": [tried.as_dict() for tried in found.tried], "winner": vars(found.winner.candidate)}
        options.echo_json({**facts, "noise": found.noise, "hurried": found.hurried, "why": found.why, "code": code})
        return
    for line in _table(found):
        click.echo(line)
    click.echo(f"\n{found.why}")
    if left_out:
        click.echo(left_out)
    if found.winner.candidate.reordered:
        click.echo(
            "Its order of samples is another one than the default's: a state of the one is refused by the other."
        )
    elif not try_order:
        click.echo("Blocks and lanes were left alone, since they change the order of samples (--try-order).")
    click.echo(f"\n{code}")


def _why_no_workers(asked: Asked, budget: float) -> str:
    """Why worker processes are not tried, a sentence; "" where they are."""
    if asked.read.cache_dir is None:
        with ShardLoader(asked.place, **asked.arguments()) as loader:
            remote = loader.dataset.remote_shards.any()
        if remote:
            return "Worker processes were not tried: over remote shards they need a disk to share (--cache-dir)."
    if budget <= WORKERS_START_S:
        return f"Worker processes, which take seconds to start, are tried from --budget {WORKERS_START_S:.0f}s on."
    return ""


@dataclass
class _Batches:
    """Opens what a candidate means. Worker processes, which take seconds to start, stay until the stack ends."""

    asked: Asked
    stack: contextlib.ExitStack
    running: dict[Candidate, Iterator[Any]] = field(default_factory=dict)

    def __call__(self, candidate: Candidate) -> contextlib.AbstractContextManager[Iterator[Any]]:
        if not candidate.workers:
            return self._threads(candidate)
        if candidate not in self.running:
            self.running[candidate] = self.stack.enter_context(self._workers(candidate))
        return contextlib.nullcontext(self.running[candidate])

    @contextlib.contextmanager
    def _threads(self, candidate: Candidate) -> Iterator[Iterator[Any]]:
        asked = _settled(self.asked, candidate)
        with ShardLoader(asked.place, **asked.arguments()) as loader:
            yield itertools.chain.from_iterable(itertools.repeat(loader))

    def _workers(self, candidate: Candidate) -> contextlib.AbstractContextManager[Iterator[Any]]:
        asked = _settled(self.asked, candidate)
        dataset = importlib.import_module("loaders.torch").ShardDataset(asked.place, **asked.arguments())
        opened: contextlib.AbstractContextManager[Iterator[Any]] = importlib.import_module(
            "loaders.torch.endless"
        ).endless_batches(dataset, workers=candidate.workers)
        return opened


def _held(candidate: Candidate) -> int | None:
    """Of this process, and of the workers where they are measured."""
    return held_bytes([os.getpid(), *(children_of() if candidate.workers else ())])


def _settled(asked: Asked, candidate: Candidate) -> Asked:
    read = replace(asked.read, prefetch=candidate.prefetch)
    if candidate.block_bytes is not None:
        read = replace(read, block_bytes=candidate.block_bytes)
    lanes = asked.lanes if candidate.lanes is None else candidate.lanes
    return replace(asked, threads=candidate.threads, lanes=lanes, read=read)


def code_of(asked: Asked, candidate: Candidate) -> str:
    """The lines to paste."""
    settled = _settled(asked, candidate)
    default = 1 if candidate.workers else usable_cores()
    if candidate.threads == default:
        settled = replace(settled, threads=None)
    named = settled.arguments()
    imports = imports_of(named)
    made = f"({spelled(settled.place)}, {arguments(named)})"
    if not candidate.workers:
        return "\n".join([*imports, "from loaders.torch import ShardLoader", "", f"loader = ShardLoader{made}"])
    return "\n".join(
        [
            *imports,
            "from loaders.torch import ShardDataset, resumable",
            "from torch.utils.data import DataLoader",
            "",
            f"dataset = ShardDataset{made}",
            f"workers = DataLoader(dataset, batch_size=None, num_workers={candidate.workers}, persistent_workers=True)",
            "loader = resumable(workers)  # has state_dict() and load_state_dict(), as a ShardLoader has",
        ]
    )


def _table(found: Tuned) -> Iterator[str]:
    """All that were tried, the winner marked."""
    yield f"  {'threads':>7}  {'workers':>7}  {'ahead':>5}  {'samples/s':>9}  {'spread':>6}  {'memory':>8}"
    for tried in sorted(found.tried, key=lambda tried: tried.candidate.effort):
        yield _row(tried, winner=tried is found.winner)


def _row(tried: Tried, *, winner: bool) -> str:
    candidate = tried.candidate
    rate, spread = (f"{tried.rate:,.0f}", f"{tried.half_spread:.0%}") if tried.rates else ("", "")
    spread = "once" if len(tried.rates) == 1 else spread
    memory = options.size(tried.held_bytes) if tried.held_bytes else ""
    order = ""
    if candidate.reordered:
        order = f"  blocks of {options.size(candidate.block_bytes or 0)}, {candidate.lanes} lanes: another order"
    note = f"  {tried.dropped}" if tried.dropped else "  <- take this" if winner else ""
    return (
        f"{'*' if winner else ' '} {candidate.threads:>7}  {candidate.workers:>7}  {candidate.prefetch:>5}  {rate:>9}  "
        f"{spread:>6}  {memory:>8}{order}{note}"
    )
