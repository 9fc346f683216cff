"""Searching keys: all that match, each once, in order, over many shards, damaged and remote ones too."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loaders.view import keys as module
from loaders.view.keys import Found, KeyIndex
from tests.builders import write_shard
from wds_tools.dataset import Dataset, open_dataset
from wds_tools.errors import UsageError
from wds_tools.make_index import make_index
from wds_tools.serve import serve


def search(dataset: Dataset, text: str, *, shards: range | None = None) -> Found:
    index = KeyIndex(dataset)
    try:
        return index.search(text, shards=range(len(dataset.urls)) if shards is None else shards, wait_s=60)
    finally:
        index.close()


def made(folder: Path, *shards: list[str]) -> Dataset:
    for at, keys in enumerate(shards):
        write_shard(
            folder / f"s-{at}.tar", [(key, {"cls": b"0", "txt": key.encode("utf-8", "replace")}) for key in keys]
        )
    return open_dataset(folder)


def test_a_part_or_the_beginning_of_a_key(tmp_path: Path) -> None:
    dataset = made(tmp_path, ["cat/1", "dog/1", "wildcat/2"], ["cat/3", "owl"])
    assert search(dataset, "cat") == ([0, 2, 3], 2, 2, True, 0, False)
    assert search(dataset, "^cat").numbers == [0, 3]
    assert search(dataset, "Cat").numbers == []
    assert search(dataset, "cat", shards=range(1, 2)) == ([3], 1, 1, True, 0, False)


def test_keys_of_all_scripts_and_of_bytes_that_are_no_text(tmp_path: Path) -> None:
    dataset = made(tmp_path, ["猫/一", "مفتاح", "\udcff\udcfe"])
    assert [search(dataset, text).numbers for text in ("猫", "تا", "\udcfe")] == [[0], [1], [2]]


@settings(max_examples=40)
@given(st.lists(st.text("ab", min_size=1, max_size=6), min_size=1, max_size=30, unique=True), st.text("ab", min_size=1))
def test_it_finds_what_a_loop_finds(tmp_path_factory: pytest.TempPathFactory, keys: list[str], text: str) -> None:
    dataset = made(tmp_path_factory.mktemp("keys"), keys)
    assert search(dataset, text).numbers == [at for at, key in enumerate(keys) if text in key]
    assert search(dataset, f"^{text}").numbers == [at for at, key in enumerate(keys) if key.startswith(text)]


def test_what_is_walked_is_not_walked_again(tmp_path: Path) -> None:
    dataset = made(tmp_path, ["a"], ["b"])
    index = KeyIndex(dataset)
    assert index.search("a", shards=range(2), wait_s=60).walked == 2
    for shard in tmp_path.glob("*.tar"):
        shard.unlink()
    assert index.search("b", shards=range(2)) == ([1], 2, 2, True, 0, False)
    index.close()


def test_a_shard_that_is_damaged_or_another_is_counted(tmp_path: Path) -> None:
    dataset = made(tmp_path, ["a1", "a2"], ["a3"], ["a4"])
    data = (tmp_path / "s-0.tar").read_bytes()
    (tmp_path / "s-0.tar").write_bytes(data[:1100] + b"x" * 200 + data[1300:])
    (tmp_path / "s-1.tar").unlink()
    found = search(dataset, "a")
    assert (found.numbers, found.walked, found.faults) == ([3], 3, 2)


def test_many_matches_are_cut_and_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FOUND", 3)
    found = search(made(tmp_path, [f"a{n}" for n in range(9)]), "a")
    assert (found.numbers, found.full) == ([0, 1, 2], True)


def test_keys_that_would_fill_the_memory_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1)
    found = search(made(tmp_path, ["a1"], ["a2"], ["a3"]), "a")
    assert (found.numbers, found.walked, found.of, found.ended) == ([0], 1, 3, True)


@pytest.mark.parametrize("text", ["", "^", "a\0b"])
def test_nothing_to_search_for_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="nothing to search for"):
        search(made(tmp_path, ["a"]), text)


def test_remote_shards_are_searched_one_at_a_time_where_they_are_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path, ["a1"], ["a2"])
    make_index(tmp_path)
    with serve(tmp_path) as server:
        dataset = open_dataset(f"{server.url}/dataset.json")
        assert search(dataset, "a").numbers == [0, 1]
        monkeypatch.setattr(module, "REMOTE_BYTES", 1000)
        with pytest.raises(UsageError, match=r"would fetch 20\.5 KB of remote shards"):
            search(dataset, "a")
        assert search(dataset, "a", shards=range(1, 2)).numbers == [1]
