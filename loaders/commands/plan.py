"""`wds plan URLS`: what an epoch will be, before it is run."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from loaders import advice, plot, quality
from loaders.commands.loading import BATCH_SIZE
from loaders.forecast import Forecast, Run, forecast
from loaders.plan import TAILS, Plan, Tail
from loaders.selection import OpenedDataset, Options, default_openness
from wds_tools.commands import options
from wds_tools.commands.labels import read_shown
from wds_tools.commands.remote import remote_options
from wds_tools.dataset import open_dataset
from wds_tools.errors import TooFewSamplesError
from wds_tools.sources.options import Remote

__all__ = ["plan_command"]

EPILOG = """\b
Examples:
  wds plan data/train --world-size 8 --batch-size 256
  wds plan data/train --world-size 64 --batch-size 64 --labels cls --plot order.png
  wds plan --json data/val --tail exact --no-shuffle | jq .batches

Without --labels, and where no listing says that the shards were packed in shuffled order, mixing is judged as if the
dataset were sorted into 1,000 classes.

Exit status: 0 done, 1 a shard or listing cannot be read, 2 used wrongly, too few samples for a batch too.
"""


@click.command("plan", epilog=EPILOG)
@options.urls
@click.option("--world-size", "world", type=click.IntRange(min=1), default=1, show_default=True, help="Ranks.")
@click.option(
    "--batch-size",
    "batch",
    type=click.IntRange(min=1),
    default=BATCH_SIZE,
    show_default=True,
    help="Samples of a rank's batch.",
)
@click.option("--tail", type=click.Choice(TAILS), default="drop", show_default=True, help="As for ShardLoader.")
@click.option("--seed", type=options.SEED, default=0, show_default=True, help="As for ShardLoader.")
@click.option("--epoch", type=click.IntRange(min=0), default=0, show_default=True, help="Which epoch is looked at.")
@click.option(
    "--lanes", type=click.IntRange(min=1), help="Runs open at once.  [default: 960; shuffled and remote: 240]"
)
@click.option(
    "--block-bytes",
    type=options.ByteSize(),
    help="Of consecutive samples that are read in one go.  [default: 256KiB; shuffled and remote: 4MiB]",
)
@click.option("--no-shuffle", is_flag=True, help="Dataset order.")
@click.option("--labels", metavar="FIELD", help="The field with the class, such as cls: read once, then kept.")
@click.option(
    "--side", type=click.IntRange(min=1), default=224, show_default=True, help="Pixels of a batch's pictures."
)
@click.option(
    "--plot", "picture", type=options.Target(dir_okay=False, path_type=Path), help="Draw the order to a file."
)
@remote_options
@options.as_json
def plan_command(
    urls: tuple[str, ...],
    *,
    world: int,
    batch: int,
    tail: Tail,
    seed: int,
    epoch: int,
    lanes: int | None,
    block_bytes: int | None,
    no_shuffle: bool,
    labels: str | None,
    side: int,
    picture: Path | None,
    remote: Remote | None,
    as_json: bool,
) -> None:
    """Say what an epoch will be: batches, reading, mixing, memory.

    The order of ShardLoader with these options is made and looked at, nothing is read but the index. How well it mixes
    stands beside what a perfect shuffle of the same samples gives.
    """
    if block_bytes is not None and block_bytes < 1:
        raise click.BadParameter("expected at least 1 byte.", param_hint="'--block-bytes'")
    if picture is not None:
        plot.check_plot(picture)
    dataset = open_dataset(list(urls), remote=remote)
    default = default_openness(dataset)
    asked = Options(
        lanes=lanes or default.lanes,
        block_bytes=block_bytes or default.block_bytes,
        seed=seed,
        shuffle=not no_shuffle,
        tail=tail,
    )
    plan = OpenedDataset(dataset).plan(asked)
    begun = time.perf_counter()
    order = plan.epoch(epoch)
    seconds = time.perf_counter() - begun
    _check_enough(plan, batch * world)
    run = Run(dataset=dataset, plan=plan, order=order, batch_size=batch, world_size=world)
    looked_at = None
    if plan.samples >= batch * world:
        looked_at = quality.batches_of_plan(plan, order, batch_size=batch, world_size=world)
    facts = forecast(run, side=side, looked_at=looked_at)
    if looked_at is not None and labels is not None:
        read_shown(dataset, labels)  # with a bar; kept, and so at hand below
    found = advice.judge(run, looked_at, labels=labels) if looked_at is not None else None
    drawn = picture is not None and found is not None
    if picture is not None and found is not None:
        _draw(picture, run, found)
    if as_json:
        options.echo_json(_json(run, facts, found, seconds))
        return
    for name, text in [*_lines(run, facts, seconds, side), *(_mixing_lines(found, run) if found else ())]:
        click.echo(f"{name:<9}  {text}".rstrip())
    if picture is not None:
        click.echo(
            f"{'picture':<9}  {f'written to {picture}' if drawn else 'none: there is no whole batch to look at'}"
        )


def _check_enough(plan: Plan, global_batch: int) -> None:
    """The plan's own check, with the cure in this command's words."""
    try:
        plan.check(global_batch)
    except TooFewSamplesError as error:
        if plan.samples:
            error.cure = (
                "Lower --batch-size or --world-size, or pass --tail pad (repeats, marked) or --tail exact (short "
                "batches)."
            )
        raise


def _draw(picture: Path, run: Run, found: advice.Judgement) -> None:
    source = found.sources[-1]
    plan = run.plan
    order = f"{plan.lanes} lanes, blocks of {plan.block}" if plan.shuffle else "dataset order"
    plot.draw(
        picture,
        found.batches,
        quality.perfect(found.batches, samples=plan.samples),
        source.source_of,
        of=source.of,
        samples=plan.samples,
        title=f"{plan.samples:,} samples, {run.world_size} ranks with batches of {run.batch_size}, {order}",
    )


def _lines(run: Run, facts: Forecast, seconds: float, side: int) -> Iterator[tuple[str, str]]:
    plan = run.plan
    samples, shards = options.counted(facts.samples, "sample"), options.counted(facts.shards, "shard")
    yield "dataset", f"{samples} in {shards}, {options.size(facts.bytes)}"
    ranks = options.counted(run.world_size, "rank")
    yield "batches", f"{facts.batches:,} on each of {ranks}, of {run.batch_size}: {facts.global_batch:,} samples a step"
    yield "tail", _tail(plan, facts)
    if plan.shuffle:
        blocks, block = options.counted(facts.blocks, "block"), options.counted(facts.block, "sample")
        yield "order", f"{plan.lanes:,} lanes, {blocks} of {block}"
        yield "", _readers(run, facts)
    else:
        yield "order", "dataset order"
    yield "reads", _reads(facts)
    if facts.requests is not None:
        yield "requests", f"{facts.requests:,} an epoch, of all ranks together"
    memory, page_cache = facts.memory, "" if run.dataset.remote_shards.any() else " (in the page cache)"
    yield "memory", f"of a rank: {options.size(memory.slabs)} of batches ({side}x{side} pixels), "
    yield "", f"{options.size(memory.order)} of order, {options.size(memory.read_ahead)} read ahead{page_cache}"
    yield "", f"and {options.size(memory.offsets)} of offsets, mapped and shared"
    yield "start", f"making the order took {seconds:.2f} s; the first batch comes after that and its decoding"


def _tail(plan: Plan, facts: Forecast) -> str:
    if plan.tail == "drop":
        return f"drop: {options.counted(facts.dropped, 'sample')} at the end of the epoch in no batch"
    if plan.tail == "pad":
        return f"pad: {options.counted(facts.repeated, 'sample')} a second time to fill the last batch, not `valid`"
    return f"exact: the last batch has {options.counted(facts.last_batch, 'sample')} on all ranks together"


def _readers(run: Run, facts: Forecast) -> str:
    if facts.ranks_per_block == 1:
        return "each block is read by one rank"
    return (
        f"each block is read by {facts.ranks_per_block} ranks, since {run.world_size} do not divide {run.plan.lanes} "
        f"lanes: --lanes {facts.nearest_lanes} avoids that"
    )


def _reads(facts: Forecast) -> str:
    reads = facts.reads
    about, least = ("", "") if reads.counted else ("about ", "at least ")
    nbytes, shards = options.size(reads.least_bytes), f"{reads.least_shards:,}"
    if options.size(reads.most_bytes) != nbytes:
        nbytes += f" to {options.size(reads.most_bytes)}"
    if reads.most_shards != reads.least_shards:
        shards += f" to {reads.most_shards:,}"
    return f"{about}{nbytes} a rank, from {least}{shards} {'shard' if reads.most_shards == 1 else 'shards'}"


def _mixing_lines(found: advice.Judgement, run: Run) -> Iterator[tuple[str, str]]:
    batches = found.batches
    seen = "all" if batches.looked_at == batches.of else f"{batches.looked_at:,} of {batches.of:,}"
    yield "mixing", f"of {seen} batches, and [of a perfect shuffle]"
    for each in found.mixings:
        yield "", f"different {each.of}, of {each.kinds:,} in the dataset:"
        for name, mean, worst in (
            ("in a batch", each.batch, each.batch_worst),
            ("in one rank's batch", each.rank, each.rank_worst),
            ("in ten batches", each.window, each.window_worst),
        ):
            if name != "in one rank's batch" or run.world_size > 1:
                yield "", f"  {name:<20} {_beside(mean, '.1f')}, at worst {_beside(worst, '.0f')}"
        yield "", f"  from batch to batch  {_beside(each.consecutive, '.2f')} correlation of the counts"
    yield "", f"place in the epoch and in the dataset: {_beside(found.places.drift, '.3f')} correlation"
    yield "", f"neighbours in a batch and in the dataset: {_beside(found.places.neighbours, '.3f')} correlation"
    yield "verdict", _verdict(found, run)
    for text in found.complaints:
        yield "", f"- {text}"
    yield from (("", f"try {_proposal(each)}") for each in found.proposals)
    if found.complaints:
        pack = "pack the samples in shuffled order, as `wds pack` does: then every order mixes, and blocks may be long"
        yield "", f"or {pack}" if found.proposals else pack


def _beside(figure: quality.Figure, form: str) -> str:
    return f"{figure.value:{form}} [{figure.perfect:{form}}]"


def _verdict(found: advice.Judgement, run: Run) -> str:
    if not run.plan.shuffle:
        return "nothing is mixed: for evaluation, not for training"
    if found.by is None:
        return "mixes well: the listing says that the shards were packed in shuffled order"
    of = found.by
    assumed = " for sorted data, which this may be (see --labels)" if of == "runs" else ""
    return f"{'poor' if found.complaints else 'mixes well'}{assumed}"


def _proposal(each: advice.Proposal) -> str:
    return (
        f"--lanes {each.lanes} --block-bytes {each.block_bytes} (blocks of {options.counted(each.block, 'sample')}): "
        f"a batch {each.batch:.0%} of perfect, a rank's {each.rank:.0%}, ten batches {each.window:.0%}"
    )


def _json(run: Run, facts: Forecast, found: advice.Judgement | None, seconds: float) -> dict[str, Any]:
    plan = run.plan
    asked = {"world": run.world_size, "batch": run.batch_size, "tail": plan.tail, "seed": plan.seed}
    asked |= {"epoch": run.order.epoch, "lanes": plan.lanes, "shuffle": plan.shuffle}
    result = asked | dataclasses.asdict(facts) | {"order_seconds": round(seconds, 3), "mixing": None}
    if found is not None:
        result["mixing"] = {
            "batches_looked_at": found.batches.looked_at,
            **{each.of: _of_mixing(each) for each in found.mixings},
            **dataclasses.asdict(found.places),
            "judged_by": found.by,
            "complaints": found.complaints,
            "proposals": [dataclasses.asdict(each) for each in found.proposals],
        }
    return result


def _of_mixing(each: quality.Mixing) -> dict[str, Any]:
    return {key: value for key, value in dataclasses.asdict(each).items() if key != "of"}
