"""Verify: a sound dataset has no problems, each fault is one problem with its place, and none hides another."""

import threading
from pathlib import Path

import pytest

from tests.builders import picture, settle, write_labels, write_pictures, write_shard, write_tar
from tests.servers.faulty import FaultyServer
from wds_tools.contents import contents
from wds_tools.errors import NoShardsError
from wds_tools.make_index import make_index
from wds_tools.sources.http import close_idle
from wds_tools.sources.resolve import open_source
from wds_tools.verify import Problem, verify


def offset_of(shard: Path, key: str) -> int:
    with open_source(str(shard)) as source:
        return next(entry.offset for entry in contents(source) if entry.key == key)


def test_a_sound_dataset_has_no_problems_and_is_counted_whole(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path, [20, 13])
    make_index(folder)
    moved: list[int] = []
    result = verify(folder, decode=True, advance=moved.append)
    assert (result.problems, result.notes) == ([], {})
    assert (result.shards, result.samples, sum(moved)) == (2, 33, 33)
    assert result.bytes == sum(path.stat().st_size for path in tmp_path.glob("*.tar"))


def test_every_field_that_does_not_decode_is_a_problem_with_its_place(tmp_path: Path) -> None:
    samples = [(f"{n:03d}", {"jpg": picture(n), "cls": b"%d" % n}) for n in range(100)]
    samples[7] = ("007", {"jpg": picture(7)[:-20], "cls": b"seven"})
    samples[90] = ("090", {"jpg": picture(90), "json": b'{"a":'})
    shard = write_shard(tmp_path / "a.tar", samples)
    assert verify(shard).problems == []
    result = verify(shard, decode=True, jobs=2)
    assert [(each.kind, each.url, each.offset, each.key, each.field) for each in result.problems] == [
        ("TruncatedPictureError", str(shard), offset_of(shard, "007"), "007", "jpg"),
        ("FieldError", str(shard), offset_of(shard, "007"), "007", "cls"),
        ("FieldError", str(shard), offset_of(shard, "090"), "090", "json"),
    ]
    assert result.samples == 100


def test_damage_inside_a_picture_is_found_by_decoding(tmp_path: Path) -> None:
    whole = picture(1, form="PNG")
    damaged = whole[: len(whole) // 2] + bytes(20) + whole[len(whole) // 2 + 20 :]
    shard = write_shard(tmp_path / "a.tar", [("a", {"png": damaged})])
    assert verify(shard).problems == []
    assert [each.field for each in verify(shard, decode=True).problems] == ["png"]


def test_faults_of_grouping_do_not_end_the_shard(tmp_path: Path) -> None:
    shard = write_tar(
        tmp_path / "a.tar",
        [("a.txt", b"1"), ("b.txt", b"2"), ("a.cls", b"3"), ("c.txt", b"4"), ("c.TXT", b"5"), ("d.txt", b"6")],
    )
    told: list[Problem] = []
    result = verify(shard, found=told.append)
    assert [(each.kind, each.key, each.offset) for each in result.problems] == [
        ("GroupingError", "a", 2048),
        ("GroupingError", "c", 4096),
    ]
    assert told == result.problems
    assert result.samples == 3


def test_a_cut_shard_is_a_problem_and_the_next_one_is_read(tmp_path: Path) -> None:
    folder = write_labels(tmp_path, [10, 10, 10])
    cut = tmp_path / "s-0001.tar"
    cut.write_bytes(cut.read_bytes()[: 4 * 1024 + 700])
    result = verify(folder)
    assert [(each.kind, each.url) for each in result.problems] == [("TruncatedShardError", str(cut))]
    assert (result.shards, result.samples) == (3, 24)


def test_what_lies_before_the_cut_is_decoded_all_the_same(tmp_path: Path) -> None:
    shard = write_shard(tmp_path / "a.tar", [("a", {"cls": b"x"}), ("b", {"cls": b"1"}), ("c", {"cls": b"1"})])
    shard.write_bytes(shard.read_bytes()[: 2048 + 100])
    kinds = [(each.kind, each.key) for each in verify(shard, decode=True).problems]
    assert kinds == [("FieldError", "a"), ("TruncatedShardError", None)]


def test_no_tar_and_no_file_are_problems_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(b"<html>not found</html>" * 100)
    result = verify(str(tmp_path / "{a,b,c}.tar"))
    assert [each.kind for each in result.problems] == ["NotATarError", "ShardMissingError", "ShardMissingError"]


def test_what_other_readers_trip_over_is_a_note(tmp_path: Path) -> None:
    shard = write_tar(tmp_path / "a.tar", [("README", b"x"), ("a.txt", b"1")])
    shard.write_bytes(shard.read_bytes()[:2048])  # no end of archive
    result = verify(shard)
    assert result.problems == []
    (notes,) = result.notes.values()
    assert len(notes) == 2
    assert "README" in notes[0]


def test_urls_that_match_nothing_are_the_callers_mistake(tmp_path: Path) -> None:
    with pytest.raises(NoShardsError):
        verify(tmp_path / "none.tar")


def test_a_problem_reads_as_one_line() -> None:
    problem = Problem(
        kind="FieldError", problem="no int", url="a.tar", offset=512, key="a\nb", field="cls", cure="Mend it."
    )
    assert str(problem) == "FieldError: no int (shard a.tar, offset 512, key 'a\\nb', field cls). Mend it."


def test_what_is_found_comes_in_the_order_of_the_shards_whatever_the_jobs(tmp_path: Path) -> None:
    for number in range(12):
        samples = [(f"{number}-{n}", {"cls": b"%d" % n if n % 5 else b"x"}) for n in range(3 + 40 * (number % 3))]
        write_shard(tmp_path / f"s-{number:02d}.tar", samples)
    told: list[Problem] = []
    one = verify(tmp_path, decode=True, jobs=1, found=told.append)
    assert told == one.problems
    assert [each.url for each in one.problems] == sorted(str(each.url) for each in one.problems)
    assert verify(tmp_path, decode=True, jobs=5) == one


def test_an_interrupt_leaves_no_thread(tmp_path: Path) -> None:
    write_labels(tmp_path, [300] * 6)
    settle()
    before = threading.active_count()

    def stop(count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verify(tmp_path, advance=stop, jobs=3)
    assert threading.active_count() == before


def test_remote_shards_are_held_against_their_listing(tmp_path: Path) -> None:
    folder = Path(write_labels(tmp_path / "d", [7, 5]))
    make_index(folder)
    objects = {f"/d/{path.name}": path.read_bytes() for path in folder.iterdir()}
    with FaultyServer(objects) as server:
        for urls in (server.url("/d/"), server.url("/d/s-{0000..0001}.tar")):
            server.requests.clear()
            sound = verify(urls)
            assert (sound.shards, sound.samples, sound.problems) == (2, 12, [])
            assert [request.range for request in server.requests if request.path.endswith(".tar")] == [None, None]
        server.put("/d/s-0001.tar", objects["/d/s-0000.tar"])
        found = verify(server.url("/d/"))
        assert {problem.kind for problem in found.problems} == {"StaleIndexError"}
        assert {problem.url for problem in found.problems} >= {server.url("/d/s-0001.tar")}
        server.put("/d/s-0001.tar", objects["/d/s-0001.tar"][:1000])
        assert "TruncatedShardError" in {problem.kind for problem in verify(server.url("/d/")).problems}
    close_idle()
