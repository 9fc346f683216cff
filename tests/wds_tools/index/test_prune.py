"""What the index cache holds, and emptying it."""

from pathlib import Path

import numpy as np
import pytest

from wds_tools.errors import UnavailableError
from wds_tools.index.cache import FileFacts, IndexCache
from wds_tools.index.prune import clear_index, kept_index

ROW = np.array([0, 1024], dtype=np.uint64)


def test_it_is_counted_and_goes(tmp_path: Path) -> None:
    cache = IndexCache(tmp_path)
    facts = [FileFacts(f"/d/{number}.tar", 10240, number) for number in range(3)]
    for fact in facts:
        cache.save(fact, ROW)
    mapped = cache.joined("key", ROW)
    assert mapped is not None
    size = sum(path.stat().st_size for path in (tmp_path / "index").iterdir())
    assert kept_index(tmp_path) == (4, size)
    assert clear_index(tmp_path) == (4, size)
    assert kept_index(tmp_path) == (0, 0)
    assert mapped.array.tolist() == [0, 1024]  # who has it mapped keeps it
    assert cache.load(facts[0]) is None
    cache.save(facts[0], ROW)
    assert cache.load(facts[0]) is not None


def test_nothing_is_there_to_begin_with(tmp_path: Path) -> None:
    assert kept_index(tmp_path) == clear_index(tmp_path) == (0, 0)
    (tmp_path / "index").touch()
    assert kept_index(tmp_path) == clear_index(tmp_path) == (0, 0)


def test_a_file_that_cannot_go_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Root may remove anything, so the system's answer is given in its place.
    IndexCache(tmp_path).save(FileFacts("/d/a.tar", 10240, 1), ROW)

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(UnavailableError, match="Permission denied"):
        clear_index(tmp_path)
