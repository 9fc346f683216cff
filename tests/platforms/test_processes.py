"""Locale C, spawned and forked processes: the numpy loader, the writer and the commands, without torch's help."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import loaders
from loaders import CenterCrop, ShardLoader
from shardwriter import ShardWriter
from tests.builders import picture, write_pictures
from wds_tools.errors import UsageError

ROOT = Path(__file__).parents[2]
WDS = Path(sys.executable).with_name("wds")


# Processes


def epoch_of(loader: ShardLoader, results: Any) -> None:
    try:
        results.put([batch.cls.tolist() for batch in loader])
    except UsageError as error:
        results.put(str(error))


def in_a_child(loader: ShardLoader, method: str) -> Any:
    """What an epoch in another process gives, or what is said instead."""
    context: Any = multiprocessing.get_context(method)
    results = context.SimpleQueue()
    child = context.Process(target=epoch_of, args=(loader, results))
    child.start()
    found = results.get()
    child.join()
    assert child.exitcode == 0
    results.close()
    return found


METHODS = pytest.mark.parametrize("method", ["fork", "spawn", pytest.param("forkserver", marks=pytest.mark.long)])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@METHODS
def test_a_loader_goes_into_other_processes(tmp_path: Path, method: str) -> None:
    options: dict[str, Any] = {"batch_size": 8, "image": CenterCrop(8), "threads": 2}
    with ShardLoader(write_pictures(tmp_path, [20, 20]), **options) as loader:
        found = in_a_child(loader, method)
        assert found == [batch.cls.tolist() for batch in loader]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@METHODS
def test_so_does_one_that_runs_or_it_says_that_it_cannot(tmp_path: Path, method: str) -> None:
    """Pickled, it begins where this one stands; forked, it has no threads. Neither disturbs this one."""
    options: dict[str, Any] = {"batch_size": 8, "image": CenterCrop(8), "threads": 2}
    with ShardLoader(write_pictures(tmp_path, [20, 20]), **options) as loader:
        expected = [batch.cls.tolist() for batch in loader]
        loader.set_epoch(0)
        batches = iter(loader)
        assert next(batches).cls.tolist() == expected[0]
        found = in_a_child(loader, method)
        if method == "fork":
            assert "begun in another process" in found
        else:
            assert found == expected[1:]
        assert [batch.cls.tolist() for batch in batches] == expected[1:]


def write_some(folder: Path, first: int) -> None:
    with ShardWriter(folder / f"p{first}-%03d.tar", max_samples=4, listing=None) as writer:
        for number in range(first, first + 8):
            writer.write({"__key__": str(number), "cls": number})


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_writers_in_several_processes_share_a_folder(tmp_path: Path, method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    children = [context.Process(target=write_some, args=(tmp_path, first)) for first in (0, 8, 16)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0, 0]
    with ShardLoader(str(tmp_path), batch_size=24, fields=("cls",)) as loader:
        ((labels,),) = loader
    assert sorted(labels.tolist()) == list(range(24))


# Locale

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
"""A locale without any letters beyond ASCII, which Python is kept from mending: file names are bytes, output is too."""


def run(*arguments: object, locale: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))}
    return subprocess.run([WDS, *map(str, arguments)], env=kept | locale, capture_output=True, check=False)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset whose classes and keys go beyond ASCII, packed in locale C."""
    folder = tmp_path_factory.mktemp("locale")
    for number in range(4):
        path = folder / "bilder" / "größe-猫" / f"{number}-é.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number))
    done = run("pack", folder / "bilder", folder / "aus", "--no-shuffle", locale={"LC_ALL": "C"})
    assert done.returncode == 0, done.stderr.decode()
    return folder / "aus"


def test_names_beyond_ascii_are_packed_in_locale_c(packed: Path) -> None:
    assert json.loads((packed / "dataset.json").read_text(encoding="utf-8"))["classes"] == ["größe-猫"]
    with loaders.samples(packed) as samples:
        assert [sample["__key__"] for sample in samples] == [f"größe-猫/{n}-é" for n in range(4)]


def test_a_locale_of_ascii_alone_packs_the_same_bytes(packed: Path, tmp_path: Path) -> None:
    """Folders by the names that the disk holds, and `--classes`, sidecars and tables, whose names are UTF-8."""
    source = packed.parent / "bilder"
    (source.parent / "flach").mkdir()
    for path in source.glob("*/*.jpg"):
        (source.parent / "flach" / path.name).write_bytes(path.read_bytes())
    (source.parent / "liste.csv").write_text(
        "file\n" + "".join(f"bilder/größe-猫/{n}-é.jpg\n" for n in range(4)), "utf-8"
    )
    for name, words in (
        ("bilder", ()), ("bilder", ("--classes", packed / "classes.txt")), ("flach", ()),
        ("liste.csv", ("--image-column", "file")), ("bilder", ("--keys", "hash", "--parts", "2")),
    ):  # fmt: skip
        made = []
        for locale in ({"LC_ALL": "C.UTF-8"}, ASCII):
            out = tmp_path / f"{name}-{len(words)}-{len(locale)}"
            done = run("pack", source.parent / name, out, *words, locale=locale)
            assert done.returncode == 0, done.stderr.decode()
            made.append({path.name: path.read_bytes() for path in out.iterdir()})
        assert made[0] == made[1]


@pytest.mark.parametrize("locale", [{"LC_ALL": "C"}, ASCII], ids=["C", "ascii"])
def test_the_commands_show_names_beyond_ascii_in_any_locale(packed: Path, locale: dict[str, str]) -> None:
    for command in (["info"], ["ls"], ["verify"], ["plan", "--tail", "exact"]):
        done = run(*command, packed, locale=locale)
        assert done.returncode == 0, (command, done.stderr.decode())
    done = run("cat", packed, "#0", "cls", locale=locale)
    assert (done.returncode, done.stdout.strip()) == (0, b"0"), done.stderr.decode()
    missing = run("info", packed / "gibt-es-nicht-é.tar", locale=locale)
    assert missing.returncode in {1, 2}
    assert b"Traceback" not in missing.stderr
