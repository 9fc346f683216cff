"""What the tests of all inputs share: packing one end to end, and files to pack."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shardwriter import Input, PackSummary, pack

Rows = dict[str, dict[str, bytes]]


class Packed:
    """What came of packing: the samples as tarfile reads them, the summary, the failures' reasons."""

    def __init__(self, out: Path, summary: PackSummary) -> None:
        self.out = out
        self.summary = summary
        self.rows: Rows = {}
        for shard in sorted(out.glob("*.tar")):
            with tarfile.open(shard) as archive:
                for member in archive:
                    folder, slash, base = member.name.rpartition("/")
                    key, _, field = base.partition(".")
                    file = archive.extractfile(member)
                    assert file is not None
                    self.rows.setdefault(folder + slash + key, {})[field] = file.read()

    @property
    def failures(self) -> list[str]:
        return (self.out / "failures.jsonl").read_text().splitlines() if self.summary.failures else []


@pytest.fixture
def packed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Packed]:
    """Pack an input, in its order unless told otherwise, and read the shards back."""

    def run(samples: Input, **options: Any) -> Packed:
        out = tmp_path_factory.mktemp("packed") / "out"
        summary = pack(samples, out, **{"shuffle": False, **options})
        return Packed(out, summary)

    return run


@pytest.fixture(scope="session")
def fill() -> Callable[..., Path]:
    """Write files below a folder: path to content."""

    def write(root: Path, files: dict[str, bytes]) -> Path:
        for name, data in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return root

    return write
