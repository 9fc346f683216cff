"""What becomes of a writer that nobody closes: at the end of the process, when it is collected, in a forked child."""

import gc
import logging
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from shardwriter import ShardWriter
from shardwriter.sink import Sink

Start = Callable[..., "subprocess.Popen[str]"]

TWENTY = """
import sys
from shardwriter import ShardWriter
writer = ShardWriter(sys.argv[1], max_samples=int(sys.argv[2]))
for number in range(20):
    writer.write({"__key__": str(number), "cls": number})
"""
CHILD = """
import os
if (child := os.fork()) == 0:
    sys.exit()
os.waitpid(child, 0)
print(sorted(os.path.splitext(name)[1] for name in os.listdir(os.path.dirname(sys.argv[1]))))
writer.close()
"""


def run(script: Start, code: str, *arguments: object) -> tuple[int, str, str]:
    process = script(code, *arguments)
    out, said = process.communicate(timeout=60)
    return process.returncode, out, said


def test_the_end_of_the_process_names_what_is_lost_and_leaves_nothing_half(tmp_path: Path, script: Start) -> None:
    _, _, said = run(script, TWENTY, tmp_path / "s-%03d.tar", 100)
    assert (
        f"{tmp_path}/s-%03d.tar was never closed: its last 20 samples are lost, and there is no dataset.json." in said
    )
    assert "`with ShardWriter(...) as writer:`, or call close()" in said
    assert said.count("\n") == 1
    assert os.listdir(tmp_path) == []


def test_whole_shards_stay(tmp_path: Path, script: Start) -> None:
    _, _, said = run(script, TWENTY, tmp_path / "s-%03d.tar", 19)
    assert "its last sample is lost" in said
    assert os.listdir(tmp_path) == ["s-000.tar"]


def test_a_closed_writer_is_silent_at_the_end(tmp_path: Path, script: Start) -> None:
    assert run(script, TWENTY + "writer.close()", tmp_path / "s-%03d.tar", 7) == (0, "", "")
    assert run(script, TWENTY + "writer.abort()", tmp_path / "other/s-%03d.tar", 7) == (0, "", "")
    _, _, said = run(script, TWENTY, tmp_path / "s-%03d.tar", 7)
    assert "TargetError" in said
    assert "never closed" not in said


def test_a_forked_child_that_ends_takes_nothing_from_its_parent(tmp_path: Path, script: Start) -> None:
    code, out, said = run(script, TWENTY + CHILD, tmp_path / "s-%03d.tar", 100)
    assert (code, said) == (0, "")
    assert out == "['.lock', '.lock', '.tmp']\n"
    assert sorted(os.listdir(tmp_path)) == ["dataset.json", "dataset.offsets.npy", "s-000.tar"]


def test_a_writer_that_is_collected_gives_its_folder_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    writer = ShardWriter(tmp_path / "s-%03d.tar")
    writer.write({"__key__": "a", "cls": 1})
    del writer
    gc.collect()
    (record,) = caplog.records
    assert (record.levelno, "its last sample is lost" in record.getMessage()) == (logging.ERROR, True)
    assert os.listdir(tmp_path) == []
    with ShardWriter(tmp_path / "s-%03d.tar") as again:
        again.write({"__key__": "a", "cls": 1})
    assert len(caplog.records) == 1


def test_a_writer_without_samples_has_nothing_to_lose(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ShardWriter(tmp_path / "s-%03d.tar")
    gc.collect()
    assert not caplog.records


def test_a_shard_that_waits_for_the_disk_comes_through_and_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begun, go, real, threads = threading.Event(), threading.Event(), Sink.commit, []

    def commit(sink: Sink) -> None:
        threads.append(threading.current_thread())
        begun.set()
        assert go.wait(60)
        real(sink)

    monkeypatch.setattr(Sink, "commit", commit)
    writer = ShardWriter(tmp_path / "s-%03d.tar", max_samples=2, listing=None)
    for number in range(3):
        writer.write({"__key__": str(number), "cls": number})
    del writer
    gc.collect()
    assert not caplog.records
    assert any(name.endswith(".lock") for name in os.listdir(tmp_path))
    go.set()
    assert begun.wait(60)  # the thread may begin only now
    threads[0].join(60)
    assert "its last sample is lost. Write" in caplog.text
    assert os.listdir(tmp_path) == ["s-000.tar"]
