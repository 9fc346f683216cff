"""A dataset of 20 million samples, in 20,000 and in 100,000 shards: what starting, stepping and resuming cost.

The listing and its offsets are real, written to the scratch folder; shards there are none, and nothing asks for them.
Each figure is from a fresh process that has imported everything:

- planning starts: opening the dataset and making the order of an epoch, with the proportional set size (PSS) that this
  adds, and the resident one at its peak;
- a batch's positions: where one rank of eight finds the samples of its batch of 256, and what it announces; at the
  median and at worst of 200 batches in a row;
- resume at the middle, in a process that has done nothing yet: open, check the state, make the order, look up the first
  batch.

Limits are seconds, MB and milliseconds on one core. The median over the rounds is kept; a round after which the machine
turns out to be busy is taken again, a few times.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks.material import Material
from benchmarks.table import OURS, Row
from benchmarks.timing import ENOUGH, Watch, core_share
from wds_tools.dataset import ShardRecord, write_listing

__all__ = ["scale"]

SAMPLES, QUICK_SAMPLES = 20_000_000, 200_000
SHARDS = (20_000, 100_000)
SAMPLE_BYTES = 109 * 1024
LIMITS = {
    "start_s": ("planning starts", "s", 1.0),
    "start_cpu_s": ("planning starts, CPU time", "s", None),
    "start_mb": ("growth of memory (PSS)", "MB", 200.0),
    "peak_mb": ("growth of memory at its peak (RSS)", "MB", 200.0),
    "batch_ms": ("a batch's positions", "ms", 1.0),
    "worst_ms": ("a batch's positions, at worst", "ms", None),
    "resume_s": ("resume at the middle", "s", 1.0),
}

PREAMBLE = """
import json, re, statistics, sys, time
from pathlib import Path
import numpy as np
from loaders.job import Cursor
from loaders.plan import share
from loaders.selection import Access, Options, WholeDataset
from loaders.state import State, state_of
place, batch, ranks = sys.argv[1], 256, 8
def kb(file, name):
    return int(re.search(rf"^{name}:\\s+(\\d+) kB", Path(f"/proc/self/{file}").read_text(), re.M)[1]) / 1000
def pss():
    return kb("smaps_rollup", "Pss")
def opened():
    whole = WholeDataset(place).opened(Access())
    return whole.dataset, whole.plan(Options())
def looked_up(dataset, order, position):
    samples = order.plan.samples
    mine, _ = share(
        position, samples=samples, rank=3, world_size=ranks, batch_size=batch, shuffle=True, tail="drop"
    )
    return dataset.locate(order.samples(mine)), order.runs(mine)
"""
START = f"""{PREAMBLE}
Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here on
before, resident, begun, cpu = pss(), kb("status", "VmRSS"), time.perf_counter(), time.process_time()
dataset, plan = opened()
order = plan.epoch(0)
found = {{"start_s": time.perf_counter() - begun, "start_cpu_s": time.process_time() - cpu, "start_mb": pss() - before}}
found["peak_mb"] = kb("status", "VmHWM") - resident
times = []
for number in range(min(200, plan.batches(batch * ranks))):
    begun = time.perf_counter()
    looked_up(dataset, order, number * batch * ranks)
    times.append((time.perf_counter() - begun) * 1000)
found["batch_ms"], found["worst_ms"] = statistics.median(times), max(times)
middle = plan.batches(batch * ranks) // 2 * batch * ranks
print(json.dumps([found, state_of(plan, Cursor(3, middle)).as_dict()]))
"""
RESUME = f"""{PREAMBLE}
begun = time.perf_counter()
state = State.of_dict(json.loads(sys.argv[2]))
dataset, plan = opened()
state.check(plan)
looked_up(dataset, plan.epoch(state.epoch), state.position)
print(json.dumps({{"resume_s": time.perf_counter() - begun}}))
"""


def scale(material: Material, watch: Watch) -> list[Row]:
    """For both numbers of shards."""
    samples = SAMPLES if watch.machine else QUICK_SAMPLES
    rows = []
    for shards in SHARDS if watch.machine else [shards // 100 for shards in SHARDS]:
        folder = material.folder / f"scale-{shards}"
        shutil.rmtree(folder, ignore_errors=True)
        try:
            place = _write(folder, samples, shards)
            found = [_undisturbed(place, watch) for _ in range(watch.rounds)]
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        noisy = sum(disturbed for _, disturbed in found)
        rows += [
            _row(name, statistics.median(each[name] for each, _ in found), samples, shards, noisy) for name in LIMITS
        ]
    return rows


def _write(folder: Path, samples: int, shards: int) -> Path:
    folder.mkdir(parents=True)
    each = samples // shards
    offsets = np.arange(each + 1, dtype=np.uint64) * np.uint64(SAMPLE_BYTES)
    nbytes = each * SAMPLE_BYTES + 1024
    records = [
        ShardRecord(url=f"train-{shard:06d}.tar", samples=each, bytes=nbytes, offsets=offsets)
        for shard in range(shards)
    ]
    write_listing(folder / "dataset.json", records, name="scale", durable=False)
    return folder / "dataset.json"


def _undisturbed(place: Path, watch: Watch) -> tuple[dict[str, float], bool]:
    """The figures, and whether the machine was not ours in all tries; see `timing`."""
    for _ in range(watch.patience + 1):
        found = _measured(place)
        if not watch.machine or core_share() >= ENOUGH:
            return found, False
    return found, True


def _measured(place: Path) -> dict[str, float]:
    found, state = json.loads(_run(START, str(place)))
    return {**found, **json.loads(_run(RESUME, str(place), json.dumps(state)))}


def _run(code: str, *arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def _row(name: str, value: float, samples: int, shards: int, noisy: int) -> Row:
    what, unit, limit = LIMITS[name]
    return Row(
        work=f"{samples:,} samples in {shards:,} shards",
        who=f"{OURS}, {what}",
        value=value,
        unit=unit,
        ratio=None if limit is None else value / limit,
        goal=None if limit is None else 1.0,
        at_most=True,
        noisy=noisy,
    )
