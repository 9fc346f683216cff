"""Runs in parts on a real Ray of this machine: the same bytes, whatever dies on the way."""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shardwriter import pack
from tests.s3 import running
from tests.shardwriter.engines.packed import OPTIONS, Rows, digest
from wds_tools.errors import TargetError, UnavailableError, UsageError

pytestmark = [pytest.mark.long, pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]  # Ray's own warnings

PARTS = 4
ROWS = 40

Picture = Callable[..., bytes]


def processes(word: str) -> list[int]:
    """Those whose command line names the word, this one left out."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdecimal() and word.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return [number for number in found if number != os.getpid()]


def await_end(number: int, seconds: float = 60.0) -> bool:
    """Whether a process ends within that time."""
    try:
        descriptor = os.pidfd_open(number)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a Ray of two CPUs, on loopback, whose processes all end with the tests."""
    before = dict(os.environ)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # short: sockets lie in it
    os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"  # of the workers
    import ray

    try:
        context = ray.init(
            num_cpus=2,
            object_store_memory=100_000_000,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            _temp_dir=folder,
            _node_ip_address="127.0.0.1",
        )
        yield str(context.address_info["gcs_address"])
    finally:
        begun = processes(folder)
        ray.shutdown()
        left = [number for number in begun if not await_end(number)]
        for number in left:
            os.kill(number, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
        os.environ.clear()
        os.environ.update(before)
        assert not left


@pytest.fixture
def whole(tmp_path: Path) -> dict[str, str]:
    """What the local engine makes of the rows."""
    pack(Rows(ROWS), tmp_path / "whole", parts=PARTS, shuffle=False, **OPTIONS)
    return digest(tmp_path / "whole")


@pytest.mark.usefixtures("cluster")
def test_pictures_become_the_bytes_of_the_local_run(
    tmp_path: Path, picture: Picture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(50):
        path = tmp_path / "pictures" / ("ant", "bee")[number % 2] / f"{number:03d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number)[: -9 if number in {3, 30} else None])
    options: dict[str, Any] = {"parts": PARTS, "max_samples": 4, "split": {"val": 0.3}, "resize": 12}
    monkeypatch.chdir(tmp_path)  # a relative source means the same in the workers
    local = pack("pictures", "local", **options)
    told: list[str] = []
    done: list[int] = []
    there = pack("pictures", "ray", engine="ray", told=told.append, progress=done.append, **options)
    assert digest(tmp_path / "ray") == digest(tmp_path / "local")
    assert (there.packed, there.failed, there.classes) == (local.packed, local.failed, local.classes)
    assert there.failed == {"truncated": 2}
    assert told[-1].startswith(f"{PARTS} of {PARTS} parts")
    assert sum(done) == 50


@pytest.mark.usefixtures("cluster")
def test_a_worker_that_is_killed_is_made_good(tmp_path: Path, whole: dict[str, str]) -> None:
    samples = Rows(ROWS, at=28, mark=tmp_path / "mark")  # the ninth of part 2
    summary = pack(samples, tmp_path / "out", parts=PARTS, shuffle=False, engine="ray", **OPTIONS)
    killed = int((tmp_path / "mark").read_text())
    assert killed != os.getpid()
    assert await_end(killed, 0)
    assert digest(tmp_path / "out") == whole
    assert summary.packed == ROWS
    assert summary.resumed in {3, 6}  # of that part: the first shard was on the disk, the second perhaps


@pytest.mark.usefixtures("cluster")
def test_a_part_that_fails_is_named_and_the_others_are_whole(tmp_path: Path, whole: dict[str, str]) -> None:
    samples = Rows(ROWS, at=28, mark=tmp_path / "mark", what="full")
    with pytest.raises(UnavailableError, match=r"part 2 of 4: sample 28 cannot be read") as caught:
        pack(samples, tmp_path / "out", parts=PARTS, shuffle=False, engine="ray", **OPTIONS)
    assert "goes on where this one ended: 3 parts of 4 are whole" in str(caught.value)
    summary = pack(samples, tmp_path / "out", parts=PARTS, shuffle=False, engine="ray", **OPTIONS)
    assert digest(tmp_path / "out") == whole
    assert summary.resumed == 36


@pytest.mark.usefixtures("cluster")
def test_a_bug_in_a_worker_comes_back_with_its_place_and_the_part(tmp_path: Path, whole: dict[str, str]) -> None:
    samples = Rows(ROWS, at=5, mark=tmp_path / "mark", what="bug")
    with pytest.raises(ZeroDivisionError, match="a bug of the user's") as caught:
        pack(samples, tmp_path / "out", parts=PARTS, shuffle=False, engine="ray", **OPTIONS)
    assert "in sample" in str(caught.value)
    assert any("part 0 of 4" in note and "goes on" in note for note in caught.value.__notes__)
    pack(samples, tmp_path / "out", parts=PARTS, shuffle=False, **OPTIONS)  # and the local engine ends it
    assert digest(tmp_path / "out") == whole


@pytest.mark.usefixtures("cluster")
def test_an_interrupt_cancels_the_parts_and_the_same_call_goes_on(tmp_path: Path, whole: dict[str, str]) -> None:
    def stop(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack(Rows(ROWS), tmp_path / "out", parts=PARTS, shuffle=False, engine="ray", progress=stop, **OPTIONS)
    assert not [name for name in os.listdir(tmp_path / "out") if name.endswith((".tmp", ".lock"))]
    pack(Rows(ROWS), tmp_path / "out", parts=PARTS, shuffle=False, engine="ray", **OPTIONS)
    assert digest(tmp_path / "out") == whole


@pytest.mark.usefixtures("cluster")
def test_other_settings_are_refused_by_the_workers(tmp_path: Path) -> None:
    samples = Rows(ROWS, at=28, mark=tmp_path / "mark", what="full")
    with pytest.raises(UnavailableError):
        pack(samples, tmp_path / "out", parts=PARTS, shuffle=False, engine="ray", **OPTIONS)
    with pytest.raises(TargetError, match=r"part 0 of 4: .*other settings.*4|; 3 other parts failed too"):
        pack(samples, tmp_path / "out", parts=PARTS, shuffle=True, engine="ray", **OPTIONS)


@pytest.mark.usefixtures("cluster")
def test_what_cannot_be_sent_is_refused(tmp_path: Path) -> None:
    from shardwriter.inputs import from_iterable

    with from_iterable({"__key__": str(n), "txt": "a"} for n in range(9)) as samples:
        with pytest.raises(UsageError, match="cannot be sent to another process"):
            pack(samples, tmp_path / "out", parts=2, engine="ray")
    opened = Rows(9)
    with (tmp_path / "open").open("w") as file:
        opened.file = file  # type: ignore[attr-defined]
        with pytest.raises(UsageError, match="cannot be sent to other machines"):
            pack(opened, tmp_path / "out", parts=2, engine="ray")


@pytest.mark.usefixtures("cluster")
def test_a_store_gets_what_a_folder_gets(tmp_path: Path, whole: dict[str, str]) -> None:
    with running() as server:
        bucket = server.bucket("ray")
        samples = Rows(ROWS, at=28, mark=tmp_path / "mark")
        summary = pack(
            samples, f"{bucket}/out", parts=PARTS, shuffle=False, engine="ray", remote=server.remote, **OPTIONS
        )
        assert summary.listing == f"{bucket}/out/dataset.json"
        for key in server.keys(bucket):
            path = tmp_path / "fetched" / key.removeprefix("out/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(server.get(f"{bucket}/{key}"))
    assert digest(tmp_path / "fetched") == whole


def test_the_command_joins_a_cluster_by_its_address(tmp_path: Path, cluster: str, picture: Picture) -> None:
    for number in range(12):
        path = tmp_path / "pictures" / ("ant", "bee")[number % 2] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number))
    command = [str(Path(sys.executable).with_name("wds")), "pack", "pictures"]
    ways: dict[str, list[str]] = {"local": [], "ray": ["--engine", "ray", "--address", cluster]}
    for out, more in ways.items():
        subprocess.run([*command, out, "--parts", "2", "--max-samples", "4", *more], cwd=tmp_path, check=True)
    assert digest(tmp_path / "ray") == digest(tmp_path / "local")


def test_no_cluster_is_said(tmp_path: Path) -> None:
    code = """if True:
        import sys
        from shardwriter import pack
        from tests.shardwriter.engines.packed import Rows
        from wds_tools.errors import UnavailableError
        try:
            pack(Rows(4), sys.argv[1], engine="ray", address="nowhere")
        except UnavailableError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "out")],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "no Ray cluster can be reached at 'nowhere'" in done.stdout
    assert "ray start --head" in done.stdout
