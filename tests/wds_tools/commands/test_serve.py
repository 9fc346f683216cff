"""`wds serve`: a real process that is asked over HTTP and stopped with signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3
from click.testing import CliRunner

from tests.builders import write_labels
from wds_tools.cli import root

WDS = [sys.executable, "-c", "from wds_tools.cli import main; main()"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(write_labels(tmp_path / "shards", [3]))


class Running:
    """`wds serve` on a free port, and what it has said."""

    def __init__(self, folder: Path, *options: str) -> None:
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3]), "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            [*WDS, "serve", str(folder), "--port", "0", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()

    def end(self, number: signal.Signals) -> tuple[int, str]:
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=60)
        return self.process.returncode, said


@pytest.fixture
def running(folder: Path) -> Iterator[Running]:
    running = Running(folder, "--verbose")
    yield running
    if running.process.poll() is None:
        running.end(signal.SIGTERM)


def test_it_serves_until_ctrl_c(running: Running, folder: Path) -> None:
    with urllib3.PoolManager() as pool:
        shard = (folder / "s-0000.tar").read_bytes()
        assert pool.request("GET", f"{running.url}/s-0000.tar").data == shard
        assert pool.request("GET", f"{running.url}/no\tne").status == 404
    status, said = running.end(signal.SIGINT)
    assert status == 0
    lines = said.splitlines()
    assert lines[0] == f"serving {folder}, read-only; Ctrl-C ends it"
    assert "`wds index`" in lines[1]
    assert lines[2].startswith("127.0.0.1 GET /s-0000.tar: 200, ")
    assert lines[3].startswith("127.0.0.1 GET /no%09ne: 404, ")
    assert lines[4].startswith("stopped; served 2 requests, ")
    assert len(lines) == 5


def test_a_schedulers_signal_ends_it_quietly(running: Running) -> None:
    assert urllib3.request("HEAD", f"{running.url}/s-0000.tar").status == 200
    status, said = running.end(signal.SIGTERM)
    assert status == 143
    assert "Traceback" not in said


@pytest.mark.parametrize("inner", ["", "train"])
def test_the_line_to_begin_with_names_the_listing(tmp_path: Path, inner: str) -> None:
    write_labels(tmp_path / inner, [3])
    (tmp_path / inner / "dataset.json").write_text("{}")
    running = Running(tmp_path)
    _, said = running.end(signal.SIGINT)
    place = f"{inner}/" if inner else ""
    assert f'ShardLoader("{running.url}/{place}dataset.json"' in said


def test_a_network_is_served_with_a_warning_only(folder: Path) -> None:
    running = Running(folder, "--host", "0.0.0.0")
    _, said = running.end(signal.SIGINT)
    assert "warning: whoever reaches 0.0.0.0" in said
    assert "no password" in said


def test_what_cannot_be_served_is_used_wrongly(folder: Path) -> None:
    done = CliRunner().invoke(root, ["serve", str(folder / "none")])
    assert done.exit_code == 2
    assert done.stderr.startswith("wds: ")
    assert "cannot be served" in done.stderr
