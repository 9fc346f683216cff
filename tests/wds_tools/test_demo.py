"""`wds demo`: the whole main job, small; what it leaves behind opens everywhere, and its hints work."""

import shlex
import subprocess
import sys
import tarfile
from pathlib import Path

import click
import pytest
import webdataset
from click.testing import CliRunner, Result

from wds_tools import cli
from wds_tools.cli import root
from wds_tools.demo import README

PICTURES, HELD_OUT = 48, 19


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A demo of a few pictures and one epoch: its folder and what it printed."""
    folder = tmp_path_factory.mktemp("demo") / "here"
    line = ["demo", "--keep", str(folder), "--pictures", str(PICTURES), "--epochs", "1", "--device", "cpu"]
    code = "from wds_tools.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, *line], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def demo(*args: str) -> Result:
    return CliRunner().invoke(root, ["demo", *args])


def test_every_step_is_a_line_that_could_be_typed(ran: tuple[Path, str]) -> None:
    steps = [shlex.split(line)[2:] for line in ran[1].splitlines() if line.startswith("$ wds ")]
    assert [step[0] for step in steps] == ["demo-pictures"] * 2 + ["pack"] * 2 + ["verify"] * 2 + ["demo-train"]
    assert all(step[0] in cli.COMMANDS for step in steps)


def test_it_says_how_fast_and_how_well(ran: tuple[Path, str]) -> None:
    lines = ran[1].splitlines()
    head = next(at for at, line in enumerate(lines) if line.startswith("epoch"))
    assert lines[head].split() == ["epoch", "pictures/s", "waiting", "loss", "held-out", "accuracy"]
    epoch, rate, waiting, loss, accuracy = lines[head + 1].split()
    assert (epoch, waiting[-1], accuracy[-1]) == ("1", "%", "%")
    assert float(rate) > 0
    assert float(loss) > 0
    assert "all sound" in ran[1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # webdataset leaves its files open
def test_its_shards_open_in_tarfile_tar_and_webdataset(ran: tuple[Path, str]) -> None:
    for name, count in (("train", PICTURES), ("val", HELD_OUT)):
        shard = ran[0] / "shards" / name / f"{name}-000000.tar"
        with tarfile.open(shard) as archive:
            names = archive.getnames()
        assert len(names) == 2 * count
        listed = subprocess.run(["tar", "tf", shard], capture_output=True, text=True, check=True).stdout.splitlines()
        assert listed == names
        samples = list(webdataset.WebDataset(str(shard), shardshuffle=False).decode("pil"))
        assert len(samples) == count
        for sample in samples:
            assert sample["jpg"].size[0] > 20
            assert 0 <= sample["cls"] < 24


def test_the_hints_work_as_they_stand(ran: tuple[Path, str]) -> None:
    folder, output = ran
    hints = [line.strip() for line in output.partition("look around:")[2].splitlines() if line.strip()]
    assert len(hints) == 5
    assert all(hint in (folder / README).read_text() for hint in hints)
    for hint in hints:
        words = shlex.split(hint)
        if words[0] == "wds":
            done = CliRunner().invoke(root, words[1:])
            assert (done.exit_code, done.stderr) == (0, "")
        else:
            words[0] = sys.executable if words[0] == "python" else words[0]
            assert subprocess.run(words, capture_output=True, check=True).stdout


def test_it_can_be_run_again_and_stops_at_a_step_that_fails(
    ran: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ran[0]
    (folder / "mine.txt").write_text("kept")

    @click.command(context_settings={"ignore_unknown_options": True})
    @click.argument("args", nargs=-1)
    @click.pass_context
    def fail(ctx: click.Context, args: tuple[str, ...]) -> None:
        ctx.exit(7)

    load = cli._load
    monkeypatch.setattr(cli, "_load", lambda entry: fail if entry.target.endswith("demo_pictures") else load(entry))
    done = demo("--keep", str(folder))
    assert done.exit_code == 7
    assert done.output.count("$ wds") == 1
    assert not (folder / "shards").exists()
    assert (folder / "mine.txt").read_text() == "kept"


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "mine.jpg").write_bytes(b"mine")
    done = demo("--keep", str(tmp_path))
    assert done.exit_code == 2
    assert "--keep" in done.stderr
    assert (tmp_path / "pictures" / "mine.jpg").read_bytes() == b"mine"
