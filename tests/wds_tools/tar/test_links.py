from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest

from tests.wds_tools.tar.archives import END, Memory, contents, entry, gnu_tar, read
from wds_tools.errors import DataError, MemberError
from wds_tools.shard import ShardNotes, iter_samples, link_targets, parse_sample, scan
from wds_tools.sources.local import LocalFile

pytestmark = pytest.mark.usefixtures("each_walk")

HARD, SOFT = b"1", b"2"


def _link(name: str, to: str, kind: bytes = HARD) -> bytes:
    return entry(name, type=kind, linkname=to)


FILE = entry("d/0.jpg", b"picture" * 1000) + entry("d/0.cls", b"0")


@pytest.mark.parametrize(
    "link",
    [
        _link("d/1.jpg", "d/0.jpg"),
        _link("d/1.jpg", "./d/0.jpg"),
        _link("d/1.jpg", "0.jpg", SOFT),
        _link("d/1.jpg", "../d/0.jpg", SOFT),
        _link("d/1.jpg", "d/0.jpg") + _link("d/1.png", "1.jpg", SOFT),
    ],
)
def test_a_link_has_the_data_of_its_target(link: bytes) -> None:
    first, second = read(FILE + link + entry("d/1.cls", b"1") + END)
    assert second["jpg"] == first["jpg"] == b"picture" * 1000
    assert second["cls"] == b"1"


def test_a_link_may_come_before_its_target() -> None:
    first, second = read(_link("d/9.jpg", "d/0.jpg") + entry("d/9.cls", b"9") + FILE + END)
    assert (first["__key__"], first["jpg"]) == ("d/9", second["jpg"])


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        (_link("d/4.jpg", "/etc/passwd", SOFT), "nothing in this archive"),
        (_link("d/4.jpg", "../../etc/passwd", SOFT), "out of the archive"),
        (_link("d/4.jpg", "/etc/passwd"), "nothing in this archive"),
        (_link("d/4.jpg", "missing.jpg"), "nothing in this archive"),
        (_link("d/4.jpg", "d/4.jpg"), "circle"),
        (_link("d/4.jpg", "4.png", SOFT) + _link("d/4.png", "4.jpg", SOFT), "circle"),
        (entry("d/5", type=b"5") + _link("d/4.jpg", "5", SOFT), "'dir'"),
    ],
)
def test_a_link_that_leads_to_no_file_makes_its_sample_a_bad_one(link: bytes, problem: str) -> None:
    shard = FILE + link + entry("d/4.cls", b"4") + entry("d/6.cls", b"6") + END
    with pytest.raises(MemberError, match=problem) as caught:
        read(shard)
    assert "d/4.jpg" in caught.value.problem
    assert caught.value.key == "d/4"
    assert "dereference" in (caught.value.cure or "")
    faults: list[DataError] = []
    kept = [sample["__key__"] for sample in iter_samples(Memory(shard), on_bad=faults.append)]
    assert kept == ["d/0", "d/6"]
    assert [fault.key for fault in faults] == ["d/4"]


def test_links_of_real_files_are_read_as_gnu_tar_stores_them(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/0.jpg").write_bytes(b"picture" * 1000)
    for number in range(3):
        (tmp_path / f"d/{number}.cls").write_bytes(b"%d" % number)
    os.link(tmp_path / "d/0.jpg", tmp_path / "d/1.jpg")
    (tmp_path / "d/2.jpg").symlink_to("0.jpg")
    os.mkfifo(tmp_path / "d/pipe.jpg")
    gnu_tar("--sort=name", "-cf", "made.tar", "./d", folder=tmp_path)
    notes = ShardNotes()
    with LocalFile(str(tmp_path / "made.tar")).open() as source:
        samples = [contents(sample) for sample in iter_samples(source, notes=notes)]
    assert [(s["__key__"], s["jpg"], s["cls"]) for s in samples] == [
        (f"./d/{number}", b"picture" * 1000, b"%d" % number) for number in range(3)
    ]
    assert (notes.links, notes.devices, notes.folders) == (2, 1, 1)


def test_a_sample_on_its_own_follows_links_inside_it() -> None:
    shard = entry("a.jpg", b"x" * 600) + _link("a.png", "a.jpg")
    sample = parse_sample(shard, url="s.tar", offset=4096)
    assert contents(sample) == {"__key__": "a", "jpg": b"x" * 600, "png": b"x" * 600}


def test_a_sample_on_its_own_follows_links_out_of_it_with_the_shards_targets() -> None:
    shard = FILE + _link("d/1.jpg", "d/0.jpg") + entry("d/1.cls", b"1") + END
    source = Memory(shard)
    begin, end = (int(offset) for offset in scan(source).offsets[1:])
    with pytest.raises(MemberError, match="nothing in this archive") as caught:
        parse_sample(shard[begin:end], url="s.tar", offset=begin)
    assert (caught.value.url, caught.value.key, caught.value.field) == ("s.tar", "d/1", "jpg")
    sample = parse_sample(shard[begin:end], url="s.tar", offset=begin, targets=link_targets(source))
    assert bytes(sample["jpg"]) == b"picture" * 1000


def test_targets_are_looked_up_once() -> None:
    shard = FILE + b"".join(_link(f"d/{n}.jpg", "d/0.jpg") for n in range(1, 50)) + END
    source = Memory(shard)
    targets = link_targets(source)
    offsets = [int(offset) for offset in scan(source).offsets]
    source.reads.clear()
    for begin, end in pairwise(offsets[1:]):
        parse_sample(shard[begin:end], url="s.tar", offset=begin, targets=targets)
    assert len(source.reads) < 49 + 10  # the target's data each time, the headers once
