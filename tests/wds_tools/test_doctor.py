"""What `examine` finds, and what it says of an installation or a machine that lacks something."""

import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from wds_tools import doctor
from wds_tools.doctor import Finding, examine
from wds_tools.errors import UsageError
from wds_tools.pictures.kernel import Capability


def findings(folder: Path | None = None) -> dict[str, Finding]:
    return {finding.name: finding for finding in examine(folder)}


def test_a_working_installation_is_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = findings()
    assert set(found) == {
        "versions", "extras", "decoding", "cores", "speed", "memory", "shared memory", "open files", "cache"
    }  # fmt: skip
    assert f"Python {sys.version_info.major}.{sys.version_info.minor}" in found["versions"].value
    assert found["cache"].value.startswith(f"{tmp_path}/shardstream, ")
    assert not any(finding.state == "wrong" for finding in found.values())
    assert all(finding.advice for finding in found.values() if finding.state != "fine")


def test_a_core_that_others_use_is_told_and_its_speed_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock) / 10)
    worked = iter([0.0, 0.125])
    monkeypatch.setattr(time, "thread_time", lambda: next(worked))
    found = doctor._decoding()  # four crops in 0.5 s, of which 0.125 s were ours
    assert found.value.startswith("32 crops ")
    assert "25% of a core" in found.advice


def test_a_kernel_that_was_not_built_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = Capability(jpeg=False, resize=True, version="", missing="the decode kernel was built without libjpeg.")
    monkeypatch.setattr(doctor, "capability", lambda: lacking)
    found = findings()["decoding"]
    assert (found.state, found.advice) == ("advice", "the decode kernel was built without libjpeg.")
    assert found.value.endswith("kernel: resize")


def test_few_open_files_are_named_with_the_cure() -> None:
    program = "from wds_tools.doctor import examine; print(*examine(), sep='\\n')"
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    answer = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard)),
    )
    line = next(line for line in answer.stdout.splitlines() if "'open files'" in line)
    assert "value='300', state='advice'" in line
    assert "`ulimit -n 65536`" in line


def test_a_cache_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/self")  # nobody writes there, root neither
    found = findings()["cache"]
    assert found.value == "/proc/self/shardstream cannot be written"
    assert found.state == "advice"


def test_the_largest_file_of_a_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "small.tar").write_bytes(bytes(1000))
    (tmp_path / "large.tar").write_bytes(bytes(10_000_000))
    found = findings(tmp_path)["disk"]
    assert f"MB/s from '{tmp_path}/large.tar'" in found.value
    assert found.advice.startswith("The file is small")


def test_files_in_class_folders_are_seen_too(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "1.jpg").write_bytes(bytes(100_000))
    (tmp_path / "notes.txt").write_bytes(b"hi")
    assert f"'{tmp_path}/cat/1.jpg'" in findings(tmp_path)["disk"].value


def test_a_folder_without_files_is_an_error_of_the_caller(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no file to read"):
        findings(tmp_path)
    with pytest.raises(UsageError, match="cannot be listed"):
        findings(tmp_path / "missing")
