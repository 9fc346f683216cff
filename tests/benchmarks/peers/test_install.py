"""Environments for peers: what each has, that it stands on ours, what is told when it cannot be made."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks.peers import PEERS
from benchmarks.peers import install as module
from benchmarks.peers.install import install, main, names


def test_each_environment_is_wanted_and_pinned() -> None:
    assert set(names()) == {peer.environment for peer in PEERS.values() if peer.environment}
    for name in names():
        lines = (module.FOLDER / f"requirements-{name}.txt").read_text().splitlines()
        assert all("==" in line for line in lines if not line.startswith("#"))
        assert not any(line.startswith("torch") for line in lines)


@pytest.mark.long
def test_its_own_packages_come_before_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    (tmp_path / "requirements-tiny.txt").write_text("# nothing\n")
    assert install("tiny", tmp_path / "tiny") == ""
    code = "import sys, numpy; own = [p for p in sys.path if 'site-packages' in p]; print(own[0], numpy.__file__)"
    done = subprocess.run(
        [tmp_path / "tiny" / "bin" / "python", "-c", code], capture_output=True, text=True, check=True
    )
    first, numpy = done.stdout.split()
    assert first.startswith(str(tmp_path))
    assert not numpy.startswith(str(tmp_path))


@pytest.mark.long
def test_what_cannot_be_installed_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    (tmp_path / "requirements-odd.txt").write_text(f"{tmp_path}/no-such-package\n")
    assert main(["odd", "--into", str(tmp_path / "made")]) == 1
    assert "no-such-package" in capsys.readouterr().out
    assert not (tmp_path / "made" / "odd").exists()
