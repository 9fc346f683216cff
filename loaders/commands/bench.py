"""`wds bench URLS`: how fast a loader gives the user's own shards, where its time goes, and what sets the pace."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import click

from loaders.bench import Bench
from loaders.bench import bench as measure
from loaders.commands.loading import Asked, loader_options
from loaders.loader import ShardLoader
from loaders.plot import check_plot
from loaders.timeline import draw_timeline
from loaders.trace import Trace
from wds_tools import progress
from wds_tools.commands import options

__all__ = ["bench"]

EPILOG = """\b
Examples:
  wds bench data/train
  wds bench data/train --batch-size 256 --simulate-step 50ms
  wds bench data/train --seconds 30s --trace trace.json --plot run.png
  wds bench data/train --field npy --json | jq .samples_per_second

The trace opens in https://ui.perfetto.dev. `wds bench codecs` compares picture formats.

Exit status: 0 measured, 1 a sample cannot be read or decoded, 2 used wrongly.
"""


@click.command("bench", epilog=EPILOG)
@loader_options
@click.option("--threads", type=click.IntRange(min=1), help="Decode threads.  [default: the cores]")
@click.option("--prefetch", type=click.IntRange(min=1), default=2, show_default=True, help="Batches made ahead.")
@click.option("--seconds", type=options.Duration(), default="10s", show_default=True, help="How long is measured.")
@click.option("--warmup", type=options.Duration(), default="2s", show_default=True, help="How long before that.")
@click.option("--batches", type=click.IntRange(min=1), help="End after so many.")
@click.option("--simulate-step", "step", type=options.Duration(), default="0", help="Of the training, as 50ms.")
@click.option("--trace", "trace_file", type=options.Target(dir_okay=False, path_type=Path), help="Write what each did.")
@click.option("--plot", "picture", type=options.Target(dir_okay=False, path_type=Path), help="Draw speed and queue.")
@options.as_json
def bench(
    *,
    asked: Asked,
    threads: int | None,
    prefetch: int,
    seconds: float,
    warmup: float,
    batches: int | None,
    step: float,
    trace_file: Path | None,
    picture: Path | None,
    as_json: bool,
) -> None:
    """Measure a loader on your own shards, and name its bottleneck.

    Without --simulate-step nothing is done with the batches: that is the most which this machine gives. With it, a step
    of that length follows each batch, and the table says whether the training would wait.
    """
    if picture is not None:
        check_plot(picture)
    asked = dataclasses.replace(asked, threads=threads, read=dataclasses.replace(asked.read, prefetch=prefetch))
    trace = Trace() if trace_file is not None or picture is not None else None
    with ShardLoader(asked.place, **asked.arguments()) as loader:
        if trace is not None:
            loader.observe(trace)
        with progress.bar("measuring", total=batches, unit="batches") as bar:
            found = measure(
                loader, seconds=seconds, warmup=warmup, batches=batches, step_seconds=step, progress=bar.advance
            )
        samples, shards = len(loader.dataset), len(loader.dataset.urls)
    if trace is not None and trace_file is not None:
        trace.write(trace_file)
    if trace is not None and picture is not None:
        draw_timeline(picture, trace, title=_title(asked, found), prefetch=prefetch)
    if as_json:
        options.echo_json({"shards": shards, **found.as_dict()})
        return
    sizes = f"{options.counted(samples, 'sample')} in {options.counted(shards, 'shard')}"
    for name, text in [("dataset", sizes), *_lines(asked, found)]:
        click.echo(f"{name:<12}  {text}".rstrip())
    for line in _table(found):
        click.echo(line)
    click.echo(f"\n{found.verdict}")
    if found.report.missing:
        click.echo(found.report.missing)


def _title(asked: Asked, found: Bench) -> str:
    threads = options.counted(found.report.threads, "thread")
    if asked.image is None:
        return f"{threads}, batches of {asked.batch_size}"
    height, width = asked.image.shape
    return f"{threads}, batches of {asked.batch_size}, {type(asked.image).__name__} to {width} x {height}"


def _lines(asked: Asked, found: Bench) -> Iterator[tuple[str, str]]:
    report = found.report
    yield "loader", f"{_title(asked, found)}, {report.backend}"
    yield "first batch", f"after {found.first_batch_seconds:.2f} s"
    rate = f"{report.samples_per_second:,.0f} samples a second ({found.slow:,.0f} to {found.fast:,.0f})"
    yield "speed", f"{rate}, {options.size(report.bytes_per_second)} a second, over {report.seconds:.1f} s"
    if found.step_seconds:
        wait, step = found.step_wait_seconds * 1000, found.step_seconds * 1000
        yield "step", f"{step:g} ms, and {wait:.1f} ms of waiting for a batch: {found.step_share:.0%} of its full speed"
    yield "queue", f"{report.queue:.1f} of {options.counted(report.prefetch, 'batch', 'batches')} ready, on average"
    yield "cores", f"{report.cores_used:.1f} of {report.cores} used"
    slabs = f"{report.slabs_made:,} batches' memory made, {report.slabs_reused:,} used again"
    yield "memory", slabs
    if report.requests:
        yield "fetched", f"{options.size(report.fetched_bytes)} in {options.counted(report.requests, 'request')}"
    if report.skipped:
        yield "skipped", ", ".join(f"{count} {kind}" for kind, count in sorted(report.skipped.items()))
    if found.smaller is not None:
        tried = found.smaller
        seconds, small = (1e3 * each / tried.pictures for each in (tried.seconds, tried.small_seconds))
        yield (
            "smaller",
            f"{tried.pictures} pictures made {tried.side} pixels: {seconds:.2f} ms each becomes {small:.2f} ms",
        )


def _table(found: Bench) -> Iterator[str]:
    """The stages: those of the threads, the planning, and the consumer."""
    yield f"\n{'':<24}  {'seconds':>8}  {'share':>6}  {'us a sample':>11}"
    for stage in found.report.stages:
        if stage.seconds or stage.name != "waiting for remote bytes":
            yield f"{stage.name:<24}  {stage.seconds:>8.2f}  {stage.share:>6.1%}  {stage.microseconds:>11,.1f}"
