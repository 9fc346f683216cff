import gzip
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

import loaders
from shardwriter import ShardWriter, pack
from shardwriter.inputs.shards import Shards, open_shards
from tests.builders import picture, write_shard, write_tar
from tests.servers.faulty import FaultyServer
from wds_tools.dataset import open_dataset
from wds_tools.errors import (
    FieldError,
    FieldRefusedError,
    KeyRefusedError,
    NoShardsError,
    ShardError,
    StaleIndexError,
    UsageError,
)

Rows = dict[str, dict[str, bytes]]


@pytest.fixture
def made(tmp_path: Path) -> Rows:
    """Three shards in old/ of samples that differ, and what is in them."""
    rows: Rows = {
        f"k{number:02d}": {
            "jpg": picture(number, width=40 + number, height=30),
            "cls": b"%d" % (number % 3),
            "json": b'{"n": %d}' % number,
        }
        for number in range(10)
    }
    items = list(rows.items())
    for shard, (begin, end) in enumerate([(0, 4), (4, 5), (5, 10)]):
        write_shard(tmp_path / f"old/s-{shard}.tar", items[begin:end])
    return rows


def test_samples_pass_as_they_are(tmp_path: Path, made: Rows, packed: Callable[..., Any]) -> None:
    with open_shards(tmp_path / "old") as samples:
        done = packed(samples, max_samples=3)
        assert [samples.key(index) for index in range(10)] == list(made)
    assert done.rows == made
    assert list(done.rows) == list(made)
    assert done.summary.shards == 4


def test_the_whole_is_shuffled_across_shards(tmp_path: Path, made: Rows, packed: Callable[..., Any]) -> None:
    with open_shards(tmp_path / "old") as samples:
        done = packed(samples, shuffle=True, seed=1)
    assert done.rows == made
    assert list(done.rows) != list(made)


def test_several_datasets_become_one(tmp_path: Path, made: Rows, packed: Callable[..., Any]) -> None:
    write_shard(tmp_path / "more/t.tar", [("other", {"txt": b"x"})])
    with open_shards([tmp_path / "old", tmp_path / "more"]) as samples:
        assert packed(samples).rows == {**made, "other": {"txt": b"x"}}


def test_a_condition_chooses(tmp_path: Path, made: Rows, packed: Callable[..., Any]) -> None:
    told: list[int] = []
    with open_shards(
        tmp_path / "old", where="cls == 1 and json.n > 1 and jpg.width < 49", progress=told.append
    ) as samples:
        assert (len(samples), samples.skipped, told) == (2, {"not chosen": 8}, [4, 1, 5])
        assert packed(samples).rows == {key: made[key] for key in ("k04", "k07")}


def test_what_cannot_be_decided_is_reported(tmp_path: Path, packed: Callable[..., Any]) -> None:
    write_shard(
        tmp_path / "s.tar", [("a", {"cls": b"1"}), ("b", {"cls": b"one"}), ("c", {"cls": b"2"}), ("d", {"txt": b""})]
    )
    with open_shards(tmp_path / "s.tar", where="cls < 2") as samples:
        done = packed(samples)
    assert list(done.rows) == ["a"]
    (failure,) = done.failures
    assert "a whole number is expected" in failure
    assert "key b" in failure


def test_conditions_on_what_is_not_there_are_refused(tmp_path: Path, made: Rows) -> None:
    with pytest.raises(UsageError, match=r"names 'clss', and no sample has.*There are cls, jpg, json"):
        open_shards(tmp_path / "old", where="clss == 1")
    with pytest.raises(UsageError, match="none of 10 samples fulfils 'cls == 7'"):
        open_shards(tmp_path / "old", where="cls == 7")
    with pytest.raises(UsageError, match="does not parse"):
        open_shards(tmp_path / "old", where="cls ==")


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({"drop": ["json"]}, {"jpg", "cls"}),
        ({"keep": ["jpg"]}, {"jpg"}),
        ({"rename": {"jpg": "image.jpg", "json": "meta.json"}}, {"image.jpg", "cls", "meta.json"}),
        ({"keep": ["cls", "json"], "rename": {"json": "cls.json"}}, {"cls", "cls.json"}),
        ({"rename": {"cls": "index", "json": "cls.json"}}, {"jpg", "index", "cls.json"}),
    ],
)
def test_fields_are_chosen_and_renamed(
    tmp_path: Path, made: Rows, options: dict[str, Any], fields: set[str], packed: Callable[..., Any]
) -> None:
    with open_shards(tmp_path / "old", **options) as samples:
        done = packed(samples)
    assert {frozenset(row) for row in done.rows.values()} == {frozenset(fields)}
    renamed = options.get("rename", {})
    for key, row in done.rows.items():
        assert row == {renamed.get(name, name): made[key][name] for name in made[key] if renamed.get(name, name) in row}


def test_a_sample_with_nothing_left_or_a_field_twice_is_reported(tmp_path: Path) -> None:
    write_shard(tmp_path / "s.tar", [("a", {"cls": b"1"}), ("b", {"cls": b"1", "txt": b""})])
    with open_shards(tmp_path / "s.tar", drop=["cls"]) as samples:
        with pytest.raises(FieldRefusedError, match="no field is left"):
            samples.sample(0)
    with open_shards(tmp_path / "s.tar", rename={"cls": "txt"}) as samples:
        with pytest.raises(FieldRefusedError, match="which the sample has already"):
            samples.sample(1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"drop": ["a"], "keep": ["b"]}, "either kept or dropped"),
        ({"rename": {"a": "c", "b": "c"}}, "renamed alike"),
        ({"rename": {"a": "b"}, "drop": ["a"]}, "renamed and left out"),
        ({"rename": {"a": "B"}}, "upper-case"),
        ({"keys": "name"}, "keys is"),
    ],
)
def test_options_that_cannot_be(tmp_path: Path, made: Rows, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        open_shards(tmp_path / "old", **options)


def test_keys_that_begin_anew_in_each_shard_are_refused_with_the_cure(
    tmp_path: Path, packed: Callable[..., Any]
) -> None:
    for shard in range(3):
        write_shard(tmp_path / f"old/{shard}.tar", [(f"{number:04d}", {"cls": b"%d" % shard}) for number in range(3)])
    with pytest.raises(KeyRefusedError, match=r"'0000' is in .*0\.tar and in .*1\.tar.*--keys number"):
        open_shards(tmp_path / "old")
    with pytest.raises(KeyRefusedError, match=r"4 samples would get the key of another"):
        open_shards(tmp_path / "old", where="key != '0000'")
    with open_shards(tmp_path / "old", keys="hash") as hashed, open_shards(tmp_path / "old", keys="number") as numbered:
        assert len({hashed.key(index) for index in range(9)}) == 9
        assert hashed.original(4) == "1.tar/0001"
        assert list(packed(numbered).rows) == [f"{number:08d}" for number in range(9)]
        assert [hashed.sample(index)["__key__"] for index in range(9)] == [hashed.key(index) for index in range(9)]


def test_compressed_shards_are_unpacked_in_between(tmp_path: Path, made: Rows, packed: Callable[..., Any]) -> None:
    old = tmp_path / "old"
    (old / "s-0.tar.gz").write_bytes(gzip.compress((old / "s-0.tar").read_bytes()))
    (old / "s-1.tar.zst").write_bytes(zstandard.compress((old / "s-1.tar").read_bytes()))
    (old / "s-0.tar").unlink()
    (old / "s-1.tar").unlink()
    with open_shards(old) as samples:
        with pytest.raises(UsageError, match="cannot be sent to another process"):
            pickle.dumps(samples)
        assert packed(samples, shuffle=True).rows == made
    with open_shards(old, where="cls == 0") as samples:
        assert len(samples) == 4
    (old / "s-2.tar").write_bytes(gzip.compress((old / "s-2.tar").read_bytes()))  # a name that says nothing of it
    with open_shards(old / "s-2.tar") as samples:
        assert len(samples) == 5


def test_a_compressed_shard_that_is_cut_off_is_an_error_and_leaves_nothing_open(tmp_path: Path, made: Rows) -> None:
    data = gzip.compress((tmp_path / "old/s-0.tar").read_bytes())
    (tmp_path / "cut.tar.gz").write_bytes(data[: len(data) // 2])
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ShardError, match="end too early"):
        open_shards(tmp_path / "cut.tar.gz")
    assert len(os.listdir("/proc/self/fd")) == before


def test_links_long_names_and_folders_in_shards_are_read(tmp_path: Path) -> None:
    import tarfile

    long = "f/" + "x" * 150
    write_tar(tmp_path / "s.tar", [(f"{long}.cls", b"1"), (f"{long}.txt", b"words")], form=tarfile.PAX_FORMAT)
    with tarfile.open(tmp_path / "s.tar", "a", format=tarfile.PAX_FORMAT) as archive:
        link = tarfile.TarInfo("z.txt")
        link.type, link.linkname = tarfile.SYMTYPE, f"{long}.txt"
        archive.addfile(link)
    for where in (None, "len(key) > 0"):
        with open_shards(tmp_path / "s.tar", where=where) as samples:
            assert [samples.key(index) for index in range(2)] == [long, "z"]
            assert bytes(samples.sample(0)["txt"]) == bytes(samples.sample(1)["txt"]) == b"words"


def test_classes_of_the_old_listing_go_on(tmp_path: Path, packed: Callable[..., Any]) -> None:
    with ShardWriter(tmp_path / "old/a-%06d.tar", extra={"classes": ["cat", "dog"]}) as writer:
        writer.write({"__key__": "a", "cls": 1})
    with open_shards(tmp_path / "old/dataset.json") as samples:
        assert packed(samples).summary.classes == ("cat", "dog")
    with open_shards(tmp_path / "old/dataset.json", rename={"cls": "label.txt"}) as samples:
        assert samples.facts() == {"classes": ["cat", "dog"]}
    with open_shards(tmp_path / "old/dataset.json", keep=["txt"]) as samples:
        assert samples.facts() == {}


def test_a_shard_that_changed_since_it_was_indexed_is_found_out(tmp_path: Path, made: Rows) -> None:
    with open_shards(tmp_path / "old") as samples:
        write_shard(tmp_path / "old/s-2.tar", [("new", {"cls": b"1"})])
        samples.close()
        with pytest.raises(StaleIndexError):
            samples.sample(9)


def test_shards_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(NoShardsError):
        open_shards(tmp_path / "nothing-*.tar")


def test_fields_come_without_a_copy_and_cannot_be_changed(tmp_path: Path, made: Rows) -> None:
    with open_shards(tmp_path / "old") as samples:
        sample = samples.sample(3)
    assert isinstance(sample["jpg"], memoryview)
    assert sample["jpg"].readonly
    assert sample["jpg"].obj is sample["cls"].obj


def test_pickles_and_says_what_it_is(tmp_path: Path, made: Rows) -> None:
    with open_shards(tmp_path / "old", where="cls != 0", drop=["json"]) as samples:
        again: Shards = pickle.loads(pickle.dumps(samples))
        with again:
            assert [again.sample(index) for index in range(len(again))] == [
                samples.sample(index) for index in range(len(samples))
            ]
            assert again.fingerprint() == samples.fingerprint()
    with open_shards(tmp_path / "old", where="cls != 1", drop=["json"]) as other:
        changed = {name for name, value in other.fingerprint().items() if value != samples.fingerprint()[name]}
        assert changed == {"samples", "where", "chosen"}


def test_the_loaders_read_what_came_of_it(tmp_path: Path, made: Rows) -> None:
    with open_shards(tmp_path / "old") as samples:
        pack(samples, tmp_path / "new", max_samples=2, seed=3)
    assert {s["__key__"]: bytes(s["jpg"]) for s in loaders.samples(tmp_path / "new")} == {
        key: row["jpg"] for key, row in made.items()
    }
    assert len(open_dataset(tmp_path / "new/dataset.json")) == 10
    with pytest.raises(FieldError), open_shards(tmp_path / "old", where="json.n.deeper > 1 or cls > 7") as samples:
        samples.sample(0)


def test_remote_shards_are_read_by_ranges_a_sample_each(tmp_path: Path, made: Rows, packed: Callable[..., Any]) -> None:
    with open_shards(tmp_path / "old") as samples:
        pack(samples, tmp_path / "indexed", shuffle=False, max_samples=4)
    files = {f"/d/{path.name}": path.read_bytes() for path in (tmp_path / "indexed").iterdir() if path.is_file()}
    with FaultyServer(files) as server:
        url = f"http://{server.name}:{server.port}/d/dataset.json"
        with open_shards(url, where="cls == 1") as samples:
            done = packed(samples)
            assert samples.original(0).endswith("train-000000.tar/k01")
        asked = len(server.requests)
        with open_shards(url) as samples:
            assert samples.sample(9)["cls"] == made["k09"]["cls"]
        assert len(server.requests) - asked < 8
    assert done.rows == {key: row for key, row in made.items() if row["cls"] == b"1"}
