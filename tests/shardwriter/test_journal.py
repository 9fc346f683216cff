from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwriter.failures import Failure
from shardwriter.journal import Journal, ShardLine, read_journal
from wds_tools.errors import TargetError, UnavailableError
from wds_tools.index.listing import ShardRecord
from wds_tools.tally import Tally

HEAD = {"settings": {"seed": 0}, "input": {"samples": 9}}


def line(number: int, *, leg: int = 0, samples: int = 3) -> ShardLine:
    """A shard that ends the places 10 * number to 10 * number + 9."""
    tally = Tally()
    for label in range(samples):
        tally.add([("cls", b"%d" % label)])
    offsets = np.arange(samples + 1, dtype=np.uint64) * np.uint64(1024)
    record = ShardRecord(
        url=f"s-{number:03d}.tar", samples=samples, bytes=samples * 1024 + 1024, offsets=offsets, checksum="xxh3:ab"
    )
    return ShardLine(
        leg=leg,
        next=10 * (number + 1),
        record=record,
        tally=tally,
        misnamed=number,
        contents=np.arange(samples, dtype=np.uint64) + np.uint64(1 << 63),
    )


def write(path: Path, shards: int = 3) -> list[ShardLine]:
    """A failure before each shard's end, and one behind the last."""
    lines = [line(number) for number in range(shards)]
    journal = Journal.begin(path, HEAD)
    for number, each in enumerate(lines):
        journal.failed(0, 10 * number + 4, Failure(f"{number}.jpg", "truncated", "cut"))
        journal.shard(each)
    journal.failed(0, 10 * shards + 4, Failure("late.jpg", "duplicate", "again", "0.jpg"))
    journal.close()
    return lines


def same(one: ShardLine, other: ShardLine) -> bool:
    return one.json() == other.json() and np.array_equal(one.record.offsets, other.record.offsets)


@given(st.integers(1, 400), st.integers(0, 5))
@settings(max_examples=25)
def test_a_line_comes_back_as_it_was(samples: int, number: int) -> None:
    written = line(number, samples=samples)
    read = ShardLine.of(written.json())
    assert same(read, written)
    assert read.record.url == written.record.url
    assert read.contents.tolist() == written.contents.tolist()
    assert read.tally.facts() == written.tally.facts()


def test_says_where_the_run_was(tmp_path: Path) -> None:
    lines = write(tmp_path / "j")
    kept = read_journal(tmp_path / "j")
    assert kept is not None
    assert kept.head == HEAD
    assert kept.position == (0, 30)
    assert all(map(same, kept.shards, lines))
    assert kept.failed == {0: {4, 14, 24}}


def test_none_and_an_empty_one_are_no_run(tmp_path: Path) -> None:
    assert read_journal(tmp_path / "j") is None
    (tmp_path / "j").write_bytes(b"")
    assert read_journal(tmp_path / "j") is None
    (tmp_path / "j").write_bytes(b'{"journal": 1, "set')
    assert read_journal(tmp_path / "j") is None


def test_cut_at_any_byte_it_says_what_the_whole_lines_say(tmp_path: Path) -> None:
    lines = write(tmp_path / "j", shards=2)
    data = (tmp_path / "j").read_bytes()
    ends = [place + 1 for place, byte in enumerate(data) if byte == 10]
    for cut in range(ends[0], len(data) + 1):
        (tmp_path / "cut").write_bytes(data[:cut])
        kept = read_journal(tmp_path / "cut")
        assert kept is not None
        whole = sum(end <= cut for end in ends)  # head, failure, shard, failure, shard, failure
        assert len(kept.shards) == (whole - 1) // 2
        assert all(map(same, kept.shards, lines))


@pytest.mark.parametrize(
    "damage", [b"\x00" * 400, b'{"shard": {"leg": 0}}\n', b'{"shard": {"blocks": "AAAA"}}\n', b"[]\n"]
)
def test_nothing_is_believed_from_the_first_damaged_line_on(tmp_path: Path, damage: bytes) -> None:
    write(tmp_path / "j", shards=1)
    good = (tmp_path / "j").read_bytes()
    write(tmp_path / "other", shards=3)
    (tmp_path / "j").write_bytes(good + damage + (tmp_path / "other").read_bytes())
    kept = read_journal(tmp_path / "j")
    assert kept is not None
    assert len(kept.shards) == 1


def test_going_on_drops_what_comes_behind_the_last_shard(tmp_path: Path) -> None:
    write(tmp_path / "j")
    kept = read_journal(tmp_path / "j")
    assert kept is not None
    journal = Journal.resume(tmp_path / "j", kept)
    assert [failure.path for failure in journal.failures(0)] == ["0.jpg", "1.jpg", "2.jpg"]
    journal.failed(0, 33, Failure("new.jpg", "truncated", "cut"))
    journal.shard(line(3))
    assert [failure.path for failure in journal.failures(0)] == ["0.jpg", "1.jpg", "2.jpg", "new.jpg"]
    assert [*journal.failures(1)] == []
    journal.close()
    again = read_journal(tmp_path / "j")
    assert again is not None
    assert (again.position, len(again.shards)) == ((0, 40), 4)
    journal.remove()
    journal.remove()
    assert not (tmp_path / "j").exists()


def test_a_failure_of_the_next_leg_is_not_of_this(tmp_path: Path) -> None:
    """The last shard of a leg may come through when the next leg has begun."""
    journal = Journal.begin(tmp_path / "j", HEAD)
    journal.failed(1, 2, Failure("b.jpg", "truncated", "cut"))
    journal.shard(line(0))
    journal.close()
    kept = read_journal(tmp_path / "j")
    assert kept is not None
    assert (kept.position, kept.failed) == ((0, 10), {})


def test_a_journal_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "j").write_bytes(b'{"journal": 99}\n')
    with pytest.raises(TargetError, match=r"version 99.*--overwrite"):
        read_journal(tmp_path / "j")


def test_a_folder_that_is_gone_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="No such file"):
        Journal.begin(tmp_path / "missing/j", HEAD)
