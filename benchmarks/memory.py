"""Whether memory stays flat over three epochs: the proportional set size (PSS) of a process that trains on nothing.

PSS and not RSS, since the mapped offsets are shared. Measured in a fresh process: after the imports, then after each
epoch of decoding and cropping. The limit on the growth from the first epoch to the last is what an allocator may keep.
"""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks.material import Material
from benchmarks.peers.peer import BATCH
from benchmarks.table import OURS, Row
from benchmarks.timing import Watch

__all__ = ["memory"]

EPOCHS = 3
GROWTH_MB = 20.0

CODE = f"""
import json, re, sys
from pathlib import Path
import loaders.torch
def pss():
    return int(re.search(r"^Pss:\\s+(\\d+) kB", Path("/proc/self/smaps_rollup").read_text(), re.M)[1]) / 1000
found = [pss()]
with loaders.torch.ShardLoader(
    sys.argv[1:], batch_size={BATCH}, fields=("jpg", "cls"), image=loaders.RandomResizedCrop(224)
) as loader:
    for epoch in range({EPOCHS}):
        for batch in loader:
            pass
        del batch
        found.append(pss())
print(json.dumps(found))
"""


def memory(material: Material, watch: Watch) -> list[Row]:
    """In MB. Nothing is timed, so the machine need not be quiet."""
    del watch
    done = subprocess.run([sys.executable, "-c", CODE, *material.shards], stdout=subprocess.PIPE, text=True, check=True)
    imports, *epochs = json.loads(done.stdout)
    rows = [Row(work="memory (PSS)", who=f"{OURS}, after the imports", value=imports, unit="MB")]
    rows += [
        Row(work="memory (PSS)", who=f"{OURS}, after epoch {number}", value=value, unit="MB")
        for number, value in enumerate(epochs, 1)
    ]
    growth = epochs[-1] - epochs[0]
    return [
        *rows,
        Row(
            work="memory (PSS)",
            who=f"{OURS}, growth from epoch 1 to {EPOCHS}",
            value=growth,
            unit="MB",
            ratio=growth / GROWTH_MB,
            goal=1.0,
            at_most=True,
        ),
    ]
