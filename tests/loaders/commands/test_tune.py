"""`wds tune`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from loaders import CenterCrop, Reading
from loaders.commands.loading import Asked
from loaders.commands.tune import code_of
from loaders.tune import Candidate
from tests.builders import write_labels, write_pictures
from tests.loaders.remote_data import indexed, served
from wds_tools.cli import root
from wds_tools.cores import usable_cores


def tune(*args: str) -> Result:
    return CliRunner().invoke(root, ["tune", *args])


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_pictures(tmp_path_factory.mktemp("some pictures"), [30, 20])


def printed_code(done: Result) -> str:
    return done.stdout[done.stdout.index("from loaders") :]


def runs(code: str, name: str) -> str:
    """Run the code as a script that takes one batch, and say what that is."""
    script = (
        f"{code}\nif __name__ == '__main__':\n    print(type({name}).__name__, [len(c) for c in next(iter({name}))])\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{code}\n{done.stderr}"
    return done.stdout.strip()


def test_a_table_a_reason_and_code_that_runs(pictures: str) -> None:
    done = tune(pictures, "--batch-size", "8", "--image", "center:24", "--budget", "2s", "--no-workers")
    assert done.exit_code == 0, done.output
    rows = [line for line in done.stdout.splitlines() if line[:1] in "* " and line[2:9].strip().isdigit()]
    assert {int(line.split()[1 if line[0] == "*" else 0]) for line in rows} >= {1, usable_cores(), 2 * usable_cores()}
    assert sum(line.startswith("*") for line in rows) == 1
    assert "the noise (" in done.stdout, "whatever won, it says what differences mean nothing"
    assert "change the order" in done.stdout
    assert runs(printed_code(done), "loader") == "ShardLoader [8, 8]"


@pytest.mark.long
def test_workers_are_tried_and_end(pictures: str) -> None:
    done = tune(pictures, "--batch-size", "4", "--field", "cls", "--budget", "15s", "--json")
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    (workers,) = [tried for tried in facts["tried"] if tried["candidate"]["workers"]]
    assert workers["rates"]
    assert workers["held_bytes"] > 50e6
    assert facts["code"].startswith("from loaders")
    import torch.multiprocessing as processes

    assert processes.active_children() == []


def test_small_budgets_leave_worker_processes_alone(pictures: str) -> None:
    done = tune(pictures, "--batch-size", "4", "--field", "cls", "--budget", "1s")
    assert done.exit_code == 0, done.output
    assert "Worker processes, which take seconds to start, are tried from --budget 10s on" in done.stdout
    assert "ShardDataset" not in done.stdout


def test_workers_over_remote_shards_are_left_out_where_they_share_no_cache(tmp_path: Path) -> None:
    with served(indexed(write_pictures(tmp_path / "shards", [30]))) as server:
        urls = server.url("/d/dataset.json")
        options = ("--batch-size", "4", "--field", "cls", "--budget", "0.1s")
        alone = tune(urls, *options)
        assert alone.exit_code == 0, alone.output
        assert "Worker processes were not tried" in alone.stdout
        assert "--cache-dir" in alone.stdout
        assert "--cache-dir" not in tune(urls, *options, "--cache-dir", str(tmp_path / "cache")).stdout


def test_a_moment_is_too_short_for_a_recommendation_and_it_says_so(pictures: str) -> None:
    done = tune(pictures, "--batch-size", "4", "--field", "cls", "--budget", "0.01s", "--no-workers")
    assert done.exit_code == 0, done.output
    assert " once " in done.stdout
    assert "Some were measured only once" in done.stdout


def test_too_little_memory(tmp_path: Path) -> None:
    done = tune(write_labels(tmp_path, [70]), "--field", "cls", "--memory", "1KB", "--budget", "1s", "--no-workers")
    assert done.exit_code == 2
    assert "nothing fits into 1,000 bytes" in done.output


@pytest.mark.parametrize(
    ("candidate", "said"),
    [
        (Candidate(threads=usable_cores()), "batch_size=8, image=CenterCrop(24))"),
        (Candidate(threads=1000), "batch_size=8, image=CenterCrop(24), threads=1000)"),
        (Candidate(threads=1000, prefetch=5), "threads=1000, read=Reading(prefetch=5))"),
        (Candidate(threads=usable_cores(), lanes=240, block_bytes=1 << 20), "read=Reading(block_bytes=1048576))"),
    ],
)
def test_the_code_says_what_is_not_the_default(candidate: Candidate, said: str) -> None:
    asked = Asked(urls=("x/",), batch_size=8, image=CenterCrop(24))
    last = code_of(asked, candidate).splitlines()[-1]
    assert last.endswith(said)
    assert ("lanes=240" in last) == (candidate.lanes is not None)


def test_the_code_with_workers_runs(pictures: str) -> None:
    asked = Asked(urls=(pictures, pictures + "/s-0000.tar")[:1], batch_size=8, fields=("jpg", "cls"), read=Reading())
    code = code_of(Asked(**{**vars(asked), "image": CenterCrop(24)}), Candidate(threads=1, workers=1))
    assert "threads" not in code
    assert runs(code, "loader") == "ResumableLoader [8, 8]"
    resumed = f"{code}\nloader.load_state_dict(loader.state_dict())"
    assert runs(resumed, "loader") == "ResumableLoader [8, 8]"
