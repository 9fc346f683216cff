"""`wds bench`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from PIL import Image

from tests.builders import write_labels, write_pictures
from wds_tools.cli import root


def bench(*args: str) -> Result:
    return CliRunner().invoke(root, ["bench", *args])


QUICK = ("--seconds", "60", "--warmup", "0", "--batches", "6", "--batch-size", "8")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_pictures(tmp_path_factory.mktemp("pictures"), [30, 20], width=400, height=300)


def test_it_says_where_time_goes_and_what_sets_the_pace(pictures: str) -> None:
    done = bench(pictures, *QUICK, "--threads", "1", "--image", "center:64")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == "dataset       50 samples in 2 shards"
    assert lines[1].startswith("loader        1 thread, batches of 8, CenterCrop to 64 x 64, ")
    assert lines[2].startswith("first batch   after ")
    assert " samples a second (" in lines[3]
    names = [line[:24].strip() for line in lines]
    for name in ("reading", "decoding", "making batches", "without work", "planning", "consumer waiting"):
        assert name in names
    assert "waiting for remote bytes" not in names
    assert "-bound: " in lines[-1]
    assert "measuring: " in done.stderr


def test_json_has_the_same_facts(pictures: str) -> None:
    facts = json.loads(bench(pictures, *QUICK, "--json", "--prefetch", "3").stdout)
    assert (facts["batches"], facts["batch_size"], facts["prefetch"], facts["shards"]) == (6, 8, 3, 2)
    assert facts["smaller"]["side"] == 256
    assert facts["verdict"].startswith(facts["bound"][:4])


def test_a_step(pictures: str) -> None:
    done = bench(pictures, *QUICK, "--simulate-step", "20ms")
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("step ")]
    assert line.startswith("step          20 ms, and ")
    assert line.endswith("% of its full speed")


def test_a_trace_and_a_plot(pictures: str, tmp_path: Path) -> None:
    trace, plot = tmp_path / "trace.json", tmp_path / "run.png"
    done = bench(pictures, *QUICK, "--trace", str(trace), "--plot", str(plot))
    assert done.exit_code == 0, done.output
    events = json.loads(trace.read_text())["traceEvents"]
    assert sum(event["name"] == "wait" for event in events) == 7
    with Image.open(plot) as image:
        assert image.width == 900


def test_other_fields_have_no_crop(tmp_path: Path) -> None:
    done = bench(write_labels(tmp_path, [60]), *QUICK, "--field", "cls")
    assert done.exit_code == 0, done.output
    assert "Crop" not in done.output


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--image", "square:3"), "is no crop"),
        (("--image", "center:0"), "is no crop"),
        (("--seconds", "long"), "is no time"),
        (("--plot", "nowhere/run.png"), "is no folder"),
        (("--batch-size", "100"), "less than one"),
    ],
)
def test_wrong_use(pictures: str, args: tuple[str, ...], said: str) -> None:
    done = bench(pictures, "--batches", "2", *args)
    assert done.exit_code == 2
    assert said in done.output


def test_codecs_is_another_command() -> None:
    assert "Compare picture formats" in bench("codecs", "--help").output
    assert "name its bottleneck" in bench("--help").output
