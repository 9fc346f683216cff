"""`wds view`: sheets and pages as files, facts as JSON, statuses; and the server as a process that Ctrl-C ends."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from PIL import Image

from tests.builders import write_pictures
from tests.loaders.view.conftest import CUT, hostile  # noqa: F401 - the fixture
from tests.wds_tools.show.test_markup import Parsed
from wds_tools.cli import root
from wds_tools.make_index import make_index
from wds_tools.serve import serve


def run(*args: object) -> Result:
    return CliRunner().invoke(root, ["view", *map(str, args)], prog_name="wds")


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return write_pictures(tmp_path / "shards", [30, 30], width=120, height=90)


def test_a_sheet_and_a_page(folder: str, tmp_path: Path) -> None:
    sheet, page = tmp_path / "sheet.png", tmp_path / "page.html"
    done = run(folder, "--out", sheet, "--html", page, "--count", 12, "--side", 64, "--columns", 4)
    assert done.exit_code == 0, done.output
    with Image.open(sheet) as image:
        assert (image.format, image.size) == ("PNG", (360, 430))
    parsed = Parsed(page.read_text("utf-8"))
    cards = [has for tag, has in parsed.tags if tag == "details" and "card" in str(has.get("class"))]
    assert len(cards) == 12
    assert done.stdout.splitlines()[0].startswith("60 samples in 2 shards, ")
    assert done.stdout.splitlines()[1:] == [f"written to {sheet}", f"written to {page}"]
    assert "looking: 60 samples" in done.stderr


def test_without_a_name_a_sheet_lies_in_the_folder(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(folder, "--count", 4).exit_code == 0
    with Image.open("wds-view.png") as image:
        assert image.format == "PNG"


def test_json_says_what_was_seen(folder: str, tmp_path: Path) -> None:
    out = tmp_path / "a.png"
    facts = json.loads(run(folder, "--json", "--out", out, "--count", 3, "--labels", "cls").stdout)
    assert (facts["samples"], facts["shards"], facts["looked_at"], facts["broken"]) == (60, 2, 60, [])
    assert facts["written"] == [str(out)]
    assert facts["classes"] == {str(n): 1 for n in range(60)}
    assert facts["classes_of_all"] is True
    assert facts["fields"] == {"jpg": {"kind": "picture", "samples": 60}, "cls": {"kind": "int", "samples": 60}}
    assert len({each["key"] for each in facts["shown"]}) == 3


def test_the_seed_decides_what_is_shown(folder: str, tmp_path: Path) -> None:
    def shown(seed: int) -> list[int]:
        done = run(folder, "--json", "--out", tmp_path / "a.png", "--count", 5, "--seed", seed)
        return [each["number"] for each in json.loads(done.stdout)["shown"]]

    assert shown(1) == shown(1) != shown(2)


@pytest.mark.parametrize("name", ["owl", "2"])
def test_only_one_class(hostile: Path, tmp_path: Path, name: str) -> None:  # noqa: F811 - the fixture
    done = run(hostile, "--json", "--out", tmp_path / "a.png", "--class", name)
    assert [each["number"] for each in json.loads(done.stdout)["shown"]] == [2, 5, 8, 11, 14]


def test_what_is_broken_is_told_and_a_status(hostile: Path, tmp_path: Path) -> None:  # noqa: F811
    done = run(hostile, "--out", tmp_path / "a.png")
    assert done.exit_code == 1
    assert f"broken: sample {CUT} of " in done.stdout
    assert "key plain-6, field jpg: JPEG picture cut off" in done.stdout
    (broken,) = json.loads(run(hostile, "--out", tmp_path / "a.png", "--json").stdout)["broken"]
    assert (broken["number"], broken["field"], broken["key"]) == (CUT, "jpg", f"plain-{CUT}")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["missing/"], "missing"),
        (["FOLDER", "--class", "owl"], "no sample is of the class 'owl'"),
        (["FOLDER", "--live", "--json"], "--live serves pages"),
        (["FOLDER", "--labels", "jpg", "--class", "1"], "holds picture"),
        (["FOLDER", "--side", "3"], "16<=x<=2048"),
        (["FOLDER", "--live", "--host", "192.0.2.1"], "cannot be listened at"),
    ],
)
def test_used_wrongly(folder: str, args: list[str], message: str) -> None:
    done = run(*(folder if arg == "FOLDER" else arg for arg in args))
    assert (done.exit_code, message in done.stderr) == (2, True), done.output


def test_a_page_that_cannot_be_written_is_an_error(folder: str, tmp_path: Path) -> None:
    done = run(folder, "--html", tmp_path / "missing" / "page.html")
    assert (done.exit_code, "cannot be written" in done.stderr) == (1, True)


def test_over_http(folder: str, tmp_path: Path) -> None:
    make_index(folder)
    with serve(folder) as server:
        done = run(f"{server.url}/dataset.json", "--out", tmp_path / "a.png", "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["samples"] == 60


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_server_says_its_url_and_ctrl_c_ends_it(folder: str, number: signal.Signals) -> None:
    command = [sys.executable, "-c", "from wds_tools.cli import main; main()", "view", "--live", folder]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        with urllib.request.urlopen(f"{url}/?class=7", timeout=60) as answer:
            assert answer.status == 200
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == {signal.SIGINT: 0, signal.SIGTERM: 143}[number]
    assert "showing 60 samples of shards" in said
    assert "Traceback" not in said


def test_an_address_for_others_is_warned_of(folder: str) -> None:
    command = [
        sys.executable,
        "-c",
        "from wds_tools.cli import main; main()",
        "view",
        "--live",
        "--host",
        "0.0.0.0",
        folder,
    ]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert "warning: whoever reaches 0.0.0.0" in said
