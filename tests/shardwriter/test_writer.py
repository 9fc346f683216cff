import errno
import gc
import hashlib
import json
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwriter import ShardWriter
from wds_tools.dataset import open_dataset
from wds_tools.errors import FieldRefusedError, KeyRefusedError, TargetError, UnavailableError, UsageError
from wds_tools.shard import scan
from wds_tools.sources.local import LocalFile

Members = Callable[[Path], list[tuple[str, bytes]]]


def shards(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name.endswith(".tar"))


def sample(number: int, size: int = 100) -> dict[str, Any]:
    return {"__key__": f"{number:05d}", "bin": bytes([number % 256]) * size, "cls": number}


def digest(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_the_example_of_the_documentation(tmp_path: Path, picture: Callable[..., bytes], members: Members) -> None:
    with ShardWriter(tmp_path / "out/train-%06d.tar", max_samples=1000, max_bytes=1_000_000_000) as writer:
        writer.write({"__key__": "n01440764/00001", "jpg": picture(), "cls": 3})
    assert members(tmp_path / "out/train-000000.tar") == [
        ("n01440764/00001.jpg", picture()),
        ("n01440764/00001.cls", b"3"),
    ]


def test_other_readers_read_what_was_written(
    tmp_path: Path,
    members: Members,
    gnu_tar: Callable[[Path], list[str]],
    webdataset_samples: Callable[..., list[dict[str, Any]]],
) -> None:
    keys = ["a", "Case/Kept", "dir.v1/b", "ünï/çödé 猫", "k" * 99, "f" * 120 + "/" + "g" * 90, "é" * 100, "x" * 250]
    with ShardWriter(tmp_path / "s-%04d.tar") as writer:
        for key in keys:
            writer.write({"__key__": key, "jpg": key.encode(), "seg.png": b"", "cls": 7})
    shard = tmp_path / "s-0000.tar"
    wanted = [
        (f"{key}.{field}", data)
        for key in keys
        for field, data in (("jpg", key.encode()), ("seg.png", b""), ("cls", b"7"))
    ]
    assert members(shard) == wanted
    assert gnu_tar(shard) == [name for name, _ in wanted]
    assert [
        (found["__key__"], found["jpg"], found["seg.png"], found["cls"]) for found in webdataset_samples(shard)
    ] == [(key, key.encode(), b"", b"7") for key in keys]


SAMPLES = st.lists(
    st.dictionaries(st.sampled_from(["jpg", "txt", "seg.png", "bin"]), st.binary(max_size=3000), min_size=1),
    max_size=25,
)


@given(SAMPLES, st.one_of(st.none(), st.integers(1, 6)), st.one_of(st.none(), st.integers(1, 12_000)))
@settings(max_examples=40, deadline=None)
def test_samples_come_back_whole_and_shards_keep_their_limits(
    tmp_path_factory: pytest.TempPathFactory,
    members: Members,
    samples: list[dict[str, bytes]],
    max_samples: int | None,
    max_bytes: int | None,
) -> None:
    folder = tmp_path_factory.mktemp("limits")
    with ShardWriter(folder / "s-%03d.tar", max_samples=max_samples, max_bytes=max_bytes) as writer:
        sizes = [writer.write({"__key__": str(number), **fields}) for number, fields in enumerate(samples)]
    found = [member for name in shards(folder) for member in members(folder / name)]
    assert found == [(f"{n}.{field}", data) for n, fields in enumerate(samples) for field, data in fields.items()]

    # Exactly as full as the limits allow: neither over a limit, nor closed while the next sample had room.
    place = 0
    for number, record in enumerate(writer.records):
        size = (folder / f"s-{number:03d}.tar").stat().st_size
        own = sizes[place : place + record.samples]
        assert size == record.bytes == sum(own) + 1024
        assert max_samples is None or record.samples <= max_samples
        assert max_bytes is None or size <= max_bytes or record.samples == 1
        place += record.samples
        if place < len(sizes):
            assert record.samples == max_samples or (max_bytes is not None and size + sizes[place] > max_bytes)
    assert place == len(samples)


def test_nothing_is_made_before_the_first_sample_or_without_one(tmp_path: Path) -> None:
    with ShardWriter(tmp_path / "out/s-%03d.tar"):
        assert not (tmp_path / "out").exists()
    assert os.listdir(tmp_path) == []


def test_as_many_samples_as_fit_leave_no_empty_shard(tmp_path: Path) -> None:
    with ShardWriter(tmp_path / "s-%03d.tar", max_samples=4) as writer:
        for number in range(8):
            writer.write(sample(number))
    assert shards(tmp_path) == ["s-000.tar", "s-001.tar"]
    assert [record.samples for record in writer.records] == [4, 4]


def test_a_sample_larger_than_max_bytes_has_a_shard_of_its_own(tmp_path: Path) -> None:
    with ShardWriter(tmp_path / "s-%03d.tar", max_bytes=10_000) as writer:
        for number, size in enumerate((100, 50_000, 100)):
            writer.write(sample(number, size))
    assert [record.samples for record in writer.records] == [1, 1, 1]


def test_max_bytes_is_the_size_of_the_file_to_the_byte(tmp_path: Path) -> None:
    one = 512 + 512 + 512 + 512
    for room, counts in ((4 * one + 1024, [4]), (4 * one + 1023, [3, 1])):
        with ShardWriter(tmp_path / f"{room}-%03d.tar", max_bytes=room, listing=None) as writer:
            for number in range(4):
                writer.write(sample(number))
        assert [record.samples for record in writer.records] == counts


def test_the_listing_leads_to_every_sample(tmp_path: Path) -> None:
    with ShardWriter(
        tmp_path / "train-%03d.tar", max_samples=3, extra={"classes": ["a", "b"], "shuffled": True}
    ) as writer:
        for number in range(8):
            writer.write(sample(number))
    dataset = open_dataset(tmp_path / "dataset.json")
    assert len(dataset) == 8
    assert dataset.counts.tolist() == [3, 3, 2]
    assert dataset.sizes.tolist() == [(tmp_path / name).stat().st_size for name in shards(tmp_path)]
    assert dataset.classes == ("a", "b")
    assert dataset.shuffled is True
    listing = json.loads((tmp_path / "dataset.json").read_text())
    assert listing["name"] == "train"
    assert listing["fields"] == {"bin": 8, "cls": 8}
    assert [entry["url"] for entry in listing["shardlist"]] == shards(tmp_path)


def test_offsets_are_those_that_a_scan_finds(tmp_path: Path) -> None:
    with ShardWriter(tmp_path / "s-%03d.tar", max_samples=4) as writer:
        for number in range(10):
            writer.write({"__key__": f"{'long' * 40 * (number % 2)}{number}", "bin": bytes(number * 300)})
    for record in writer.records:
        with LocalFile(str(tmp_path / record.url)) as source:
            np.testing.assert_array_equal(scan(source).offsets, record.offsets)


def test_a_listing_may_be_left_out_or_have_another_name(tmp_path: Path) -> None:
    for name, listing in (("a", None), ("b", "b.json")):
        with ShardWriter(tmp_path / f"{name}-%03d.tar", listing=listing) as writer:
            writer.write(sample(0))
    assert sorted(os.listdir(tmp_path)) == ["a-000.tar", "b-000.tar", "b.json", "b.offsets.npy"]


def test_the_listing_has_the_checksums_that_were_asked_for(tmp_path: Path) -> None:
    for kind in ("xxh3", "sha256", None):
        with ShardWriter(tmp_path / f"{kind}/s-%03d.tar", max_samples=2, checksum=kind) as writer:
            for number in range(5):
                writer.write({"__key__": str(number), "cls": number})
    shards = json.loads((tmp_path / "sha256/dataset.json").read_bytes())["shardlist"]
    assert len(shards) == 3
    for shard in shards:
        data = (tmp_path / "sha256" / shard["url"]).read_bytes()
        assert shard["checksum"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
    xxh3 = json.loads((tmp_path / "xxh3/dataset.json").read_bytes())["shardlist"]
    assert all(shard["checksum"].startswith("xxh3:") for shard in xxh3)
    assert b"checksum" not in (tmp_path / "None/dataset.json").read_bytes()


def test_equal_samples_give_equal_bytes(tmp_path: Path) -> None:
    for run in ("one", "two"):
        with ShardWriter(tmp_path / run / "s-%03d.tar", max_samples=3) as writer:
            for number in range(10):
                writer.write(
                    sample(number)
                    | {
                        "json": {"b": number, "a": [1.5]},
                        "npy": np.arange(number),
                        "jpg": np.full((9, 9, 3), number, np.uint8),
                    }
                )
    assert digest(tmp_path / "one") == digest(tmp_path / "two")


def test_the_order_of_fields_is_kept(tmp_path: Path, members: Members) -> None:
    with ShardWriter(tmp_path / "s-%03d.tar") as writer:
        writer.write({"txt": "t", "__key__": "a", "cls": 1, "bin": b""})
    assert [name for name, _ in members(tmp_path / "s-000.tar")] == ["a.txt", "a.cls", "a.bin"]


def test_a_refused_sample_leaves_no_trace_and_the_writer_goes_on(tmp_path: Path, members: Members) -> None:
    with ShardWriter(tmp_path / "s-%03d.tar") as writer:
        writer.write(sample(0))
        for bad, kind in (
            ({"__key__": "a", "bin": b"good", "cls": "bad"}, FieldRefusedError),
            ({"__key__": "a.b", "bin": b""}, KeyRefusedError),
            ({"__key__": "a"}, FieldRefusedError),
            (sample(0), KeyRefusedError),
        ):
            with pytest.raises(kind):
                writer.write(bad)
        writer.write({"__key__": "a", "bin": b"now"})
    assert [name for name, _ in members(tmp_path / "s-000.tar")] == ["00000.bin", "00000.cls", "a.bin"]


def test_a_key_of_an_earlier_shard_is_refused_too(tmp_path: Path) -> None:
    with ShardWriter(tmp_path / "s-%03d.tar", max_samples=2) as writer:
        for number in range(7):
            writer.write(sample(number))
        with pytest.raises(KeyRefusedError, match=r"written before.*key 00001"):
            writer.write(sample(1))


def test_sync_ends_a_shard_and_makes_no_empty_ones(tmp_path: Path, members: Members) -> None:
    with ShardWriter(tmp_path / "s-%03d.tar") as writer:
        writer.sync()
        for number in range(4):
            writer.write(sample(number))
            if number % 2:
                writer.sync()
                writer.sync()
                assert [record.samples for record in writer.records] == [2] * (number // 2 + 1)
    assert [len(members(tmp_path / name)) for name in shards(tmp_path)] == [4, 4]


class StopError(Exception):
    pass


@pytest.mark.parametrize("kind", [StopError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_block_that_raises_leaves_the_finished_shards_and_no_listing(
    tmp_path: Path, kind: type[BaseException], members: Members
) -> None:
    threads = set(threading.enumerate())
    gc.collect()  # what earlier tests left to the collector is none of this one's
    descriptors = set(os.listdir("/proc/self/fd"))
    with pytest.raises(kind), ShardWriter(tmp_path / "s-%03d.tar", max_samples=3) as writer:
        for number in range(8):
            writer.write(sample(number))
        raise kind
    assert sorted(os.listdir(tmp_path)) == ["s-000.tar", "s-001.tar"]
    assert [len(members(tmp_path / name)) for name in shards(tmp_path)] == [6, 6]
    assert [record.samples for record in writer.records] == [3, 3]
    assert set(threading.enumerate()) <= threads
    assert set(os.listdir("/proc/self/fd")) == descriptors


def test_an_interrupt_inside_write_ends_the_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ctrl-C between two system calls may leave half a sample: nothing may follow it, even if it is caught."""

    def interrupted(*arguments: object) -> int:
        raise KeyboardInterrupt

    with (
        pytest.raises(UnavailableError, match="ended at an earlier error"),
        ShardWriter(tmp_path / "s-%03d.tar") as writer,
    ):
        writer.write(sample(0))
        with monkeypatch.context() as patch:
            patch.setattr(os, "writev", interrupted)
            with pytest.raises(KeyboardInterrupt):
                writer.write(sample(1, 1 << 20))
        writer.write(sample(2))
    assert os.listdir(tmp_path) == []


def test_close_without_with_and_twice(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path / "s-%03d.tar")
    writer.write(sample(0))
    writer.close()
    before = digest(tmp_path)
    writer.close()
    writer.abort()
    assert digest(tmp_path) == before
    assert sorted(before) == ["dataset.json", "dataset.offsets.npy", "s-000.tar"]


def test_use_after_close_is_refused(tmp_path: Path) -> None:
    with ShardWriter(tmp_path / "s-%03d.tar") as writer:
        writer.write(sample(0))
    with pytest.raises(UsageError, match="closed"):
        writer.write(sample(1))
    with pytest.raises(UsageError, match="closed"), writer:
        pass


def test_a_folder_that_holds_shards_is_refused_before_anything_is_encoded(tmp_path: Path) -> None:
    with ShardWriter(tmp_path / "s-%03d.tar") as writer:
        writer.write(sample(0))
    before = digest(tmp_path)
    with pytest.raises(TargetError, match="overwrite"), ShardWriter(tmp_path / "s-%03d.tar"):
        pytest.fail("the block was entered")
    late = ShardWriter(tmp_path / "s-%03d.tar")
    with pytest.raises(TargetError, match="overwrite"):
        late.write(sample(0))
    late.abort()
    assert digest(tmp_path) == before


def test_overwriting_replaces_the_dataset_with_all_its_shards(tmp_path: Path) -> None:
    for count in (9, 4):
        with ShardWriter(tmp_path / "s-%03d.tar", max_samples=2, overwrite=True) as writer:
            for number in range(count):
                writer.write(sample(number))
    assert shards(tmp_path) == ["s-000.tar", "s-001.tar"]
    assert len(open_dataset(tmp_path / "dataset.json")) == 4


def test_overwriting_touches_nothing_until_the_first_sample(tmp_path: Path) -> None:
    with ShardWriter(tmp_path / "s-%03d.tar") as writer:
        writer.write(sample(0))
    before = digest(tmp_path)
    with ShardWriter(tmp_path / "s-%03d.tar", overwrite=True) as writer, pytest.raises(KeyRefusedError):
        writer.write({"__key__": "a.b", "bin": b""})
    assert digest(tmp_path) == before


def test_a_second_writer_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    with ShardWriter(tmp_path / "s-%03d.tar") as first:
        first.write(sample(0))
        second = ShardWriter(tmp_path / "s-%03d.tar", overwrite=True)
        with pytest.raises(TargetError, match="another writer"):
            second.write(sample(0))
        second.abort()
        first.write(sample(1))
    assert len(open_dataset(tmp_path / "dataset.json")) == 2


def test_two_writers_of_different_names_share_a_folder(tmp_path: Path) -> None:
    with (
        ShardWriter(tmp_path / "a-%03d.tar", listing="a.json") as a,
        ShardWriter(tmp_path / "b-%03d.tar", listing="b.json") as b,
    ):
        for number in range(3):
            a.write(sample(number))
            b.write(sample(number))
    assert len(open_dataset(tmp_path / "a.json")) == len(open_dataset(tmp_path / "b.json")) == 3


def test_on_shard_is_told_of_each_shard_once_in_order_when_it_is_whole(tmp_path: Path, members: Members) -> None:
    told: list[tuple[str, int]] = []
    with ShardWriter(
        tmp_path / "s-%03d.tar", max_samples=2, on_shard=lambda path: told.append((path.name, len(members(path))))
    ) as writer:
        for number in range(5):
            writer.write(sample(number))
    assert told == [("s-000.tar", 4), ("s-001.tar", 4), ("s-002.tar", 2)]


def test_an_error_of_the_committing_thread_comes_out_of_a_later_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with (
        pytest.raises(UnavailableError, match=r"Input/output error.*s-000.tar"),
        ShardWriter(tmp_path / "s-%03d.tar", max_samples=1) as writer,
    ):
        monkeypatch.setattr(os, "fsync", fail)
        for number in range(3):
            writer.write(sample(number))
    assert os.listdir(tmp_path) == []


def test_an_error_of_the_last_commit_comes_out_of_close(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    writer = ShardWriter(tmp_path / "s-%03d.tar")
    writer.write(sample(0))
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(UnavailableError, match="Input/output error"):
        writer.close()
    writer.close()
    assert os.listdir(tmp_path) == []


def test_at_most_one_shard_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a shard is being synced one more is written; the writer then waits instead of piling up shards."""
    real, entered, go = os.fsync, threading.Event(), threading.Event()

    def slow(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            entered.set()
            assert go.wait(60)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    writer = ShardWriter(tmp_path / "s-%03d.tar", max_samples=1)
    writer.write(sample(0))
    writer.write(sample(1))
    assert entered.wait(60)
    assert [*writer.records] == []
    assert len([name for name in os.listdir(tmp_path) if name.endswith(".tmp")]) == 2
    third = threading.Thread(target=writer.write, args=[sample(2)])
    third.start()
    third.join(0.05)
    assert third.is_alive()
    go.set()
    third.join(60)
    writer.close()
    assert [record.url for record in writer.records] == ["s-000.tar", "s-001.tar", "s-002.tar"]


@pytest.mark.parametrize(
    "options",
    [
        {"max_samples": 0}, {"checksum": "md5"},
        {"max_samples": 1.5}, {"max_samples": True}, {"max_bytes": -1}, {"max_bytes": "1GB"},
        {"quality": 0}, {"quality": 101}, {"quality": 9.5},
        {"extra": {"a": object()}}, {"extra": {"a": float("nan")}},
        {"extra": {"shardlist": []}}, {"extra": {"name": "x"}},
    ],
)  # fmt: skip
def test_options_that_cannot_be_are_refused_at_once(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        ShardWriter(tmp_path / "s-%03d.tar", **options)


def test_pickles_are_written_only_when_asked_for(tmp_path: Path, members: Members) -> None:
    with ShardWriter(tmp_path / "s-%03d.tar", allow_pickle=True) as writer:
        writer.write({"__key__": "a", "pkl": {"a": 1}})
    assert members(tmp_path / "s-000.tar")[0][0] == "a.pkl"


def test_a_folder_without_permission_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    writer = ShardWriter(tmp_path / "file/out/s-%03d.tar")
    with pytest.raises((UnavailableError, TargetError), match="file"):
        writer.write(sample(0))
    writer.abort()
