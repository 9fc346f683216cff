"""describe: the whole from the index, the fields from a bounded look."""

from pathlib import Path

import pytest

from tests.builders import picture, write_labels, write_pictures, write_shard, write_tar
from wds_tools.describe import SAMPLES_A_SHARD, SHARDS_LOOKED_AT, describe
from wds_tools.make_index import make_index
from wds_tools.serve import serve
from wds_tools.sources.options import Remote


def test_counts_are_of_the_whole_and_fields_of_the_samples_looked_at(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path, [70, 3], width=64, height=32)
    found = describe(folder)
    assert (found.shards, found.samples, found.smallest, found.largest) == (2, 73, 3, 70)
    assert found.bytes == sum(path.stat().st_size for path in tmp_path.glob("*.tar"))
    assert found.looked_at == SAMPLES_A_SHARD + 3
    assert {name: (facts.kind, facts.samples) for name, facts in found.fields.items()} == {
        "jpg": ("picture", 67),
        "cls": ("int", 67),
    }
    assert found.fields["jpg"].pictures == {"formats": {"jpeg": 67}, "mean_width": 64, "mean_height": 32}
    assert (found.classes, found.shuffled, found.name, found.field_counts) == (None, None, None, {})


def test_the_look_is_bounded(tmp_path: Path) -> None:
    found = describe(write_labels(tmp_path, [SAMPLES_A_SHARD] * 9))
    assert found.looked_at == SHARDS_LOOKED_AT * SAMPLES_A_SHARD


def test_it_is_said_where_the_index_came_from(tmp_path: Path) -> None:
    folder = write_labels(tmp_path, [2, 2])
    assert "scan" in describe(folder).index
    for name, word in (("energon", "Energon"), ("dali", "DALI")):
        write_labels(tmp_path / name, [2])
        make_index(tmp_path / name, **{name: True})  # type: ignore[arg-type]
        (tmp_path / name / "dataset.json").unlink()
        assert word in describe(tmp_path / name).index
    make_index(folder)
    listed = describe(folder)
    assert str(tmp_path / "dataset.json") in listed.index
    assert listed.field_counts == {"cls": 4}


def test_oddities_are_noted_and_a_field_that_some_lack_is_counted(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", [("README", b""), ("a.txt", b"1234"), ("a.jpg", b"no picture"), ("b.txt", b"12")])
    found = describe(tmp_path / "a.tar")
    assert list(found.notes) == [str(tmp_path / "a.tar")]
    assert (found.fields["txt"].samples, found.fields["txt"].mean_bytes) == (2, 3)
    assert found.fields["jpg"].pictures == {"formats": {"unreadable": 1}}


def test_mixed_formats_are_counted(tmp_path: Path) -> None:
    shard = write_shard(tmp_path / "a.tar", [("a", {"jpg": picture(1)}), ("b", {"jpg": picture(2, form="PNG")})])
    assert describe(shard).fields["jpg"].pictures["formats"] == {"jpeg": 1, "png": 1}


def test_a_host_that_is_gone_is_asked_once_and_its_listing_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "data"
    make_index(write_labels(folder, [30, 30, 30]))
    remote = Remote(attempts=2)
    with serve(folder) as server:
        url = f"{server.url}/dataset.json"
        assert describe(url, remote=remote).looked_at == 90
    found = describe(url, remote=remote)
    assert (found.shards, found.samples, found.field_counts, found.looked_at) == (3, 90, {"cls": 90}, 0)
    ((shard, notes),) = found.notes.items()
    assert shard.endswith("0.tar")
    assert "not looked at" in notes[0]
