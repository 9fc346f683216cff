"""Memory by the kernel's books."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from loaders.footprint import children_of, held_bytes


def test_memory_that_is_touched_counts() -> None:
    before = held_bytes([os.getpid()])
    kept = np.ones(64_000_000, np.uint8)
    after = held_bytes([os.getpid()])
    assert before is not None
    assert after is not None
    assert 60e6 < after - before < 80e6
    assert kept[-1] == 1


def test_children_and_theirs() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"1\n"
        found = children_of()
        assert child.pid in found
        assert len(children_of(child.pid)) == 1
        assert set(children_of(child.pid)) < set(found)
        assert (held_bytes(found) or 0) > 5e6
        child.communicate(b"\n")
    assert child.pid not in children_of()
    assert held_bytes([child.pid]) is None


def test_a_system_that_says_nothing(tmp_path: Path) -> None:
    assert held_bytes([1], proc=tmp_path) is None
    assert children_of(1, proc=tmp_path) == []
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "smaps_rollup").write_bytes(b"Rss:  100 kB\nPss:   40 kB\nPss_Dirty: 12 kB\n")
    assert held_bytes([1, 7], proc=tmp_path) == 40 * 1024
