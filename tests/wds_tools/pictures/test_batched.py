"""Samples made by the chunk in C: the same pixels and fields as one by one, and left alone where they are not plain."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import write_tar
from tests.wds_tools.pictures.made import exif_block, jpeg, saved, scene, with_orientation, with_segment
from wds_tools.errors import PictureError
from wds_tools.fields.arrays import encode_npy
from wds_tools.pictures.batched import Batched, BatchedArrays, Made, entire, plain_name
from wds_tools.pictures.decode import Decoder
from wds_tools.pictures.facts import check_whole, read_facts
from wds_tools.pictures.kernel import Kernel, capability
from wds_tools.pictures.options import Pictures
from wds_tools.shard import scan
from wds_tools.sources.local import LocalFile

_pixels = pytest.importorskip("wds_tools.pictures._pixels", reason="nothing was compiled")

pytestmark = pytest.mark.skipif(not capability().jpeg, reason=capability().missing)

PLAIN = jpeg(61, 47)
SIDEWAYS = with_orientation(PLAIN, 6)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", [1, 3, 4])
@pytest.mark.parametrize("value", range(10))
def test_orientations_are_read_as_python_reads_them(value: int, kind: int, order: str) -> None:
    data = with_orientation(PLAIN, value, kind=kind, order=order)
    facts = read_facts(data)
    assert _pixels.Kernel().facts(data) == (facts.width, facts.height, facts.orientation)


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"II",
        b"MM\0*",
        exif_block(6)[:20],
        exif_block(6, count=2),
        exif_block(6, 2, raw=b"6"),
        b"Exif\0\0" + exif_block(8),
        exif_block(6).replace(b"*", b"+"),
        exif_block(6)[:4] + b"\xff\xff\xff\xff" + exif_block(6)[8:],
    ],
)
def test_odd_exif_means_what_python_says(block: bytes) -> None:
    data = with_segment(PLAIN, 0xE1, b"Exif\0\0" + block)
    assert _pixels.Kernel().facts(data) == (61, 47, read_facts(data).orientation)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xd8\xff\xd9",
        PLAIN[:-1],
        PLAIN[:-2],
        PLAIN + b"\0",
        with_segment(PLAIN, 0xFE, b"x", after=b"junk"),
        saved(scene(20, 20), "PNG"),
        saved(scene(20, 20), "WEBP"),
    ],
)
def test_what_is_not_plain_is_left(data: bytes) -> None:
    assert _pixels.Kernel().facts(data) is None


@settings(max_examples=400, deadline=None)
@given(st.sampled_from([PLAIN, SIDEWAYS, jpeg(33, 9, progressive=True)]), st.data())
def test_facts_of_changed_headers_are_those_of_python_or_none(data: bytes, draw: st.DataObject) -> None:
    changed = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 4))):
        changed[draw.draw(st.integers(2, min(700, len(data) - 1)))] = draw.draw(st.integers(0, 255))
    found = _pixels.Kernel().facts(bytes(changed))
    if found is not None:
        facts = read_facts(bytes(changed))
        check_whole(bytes(changed), facts)
        assert found == (facts.width, facts.height, facts.orientation)
        assert facts.mode in {"L", "RGB"}
        assert facts.bits == 8
        assert facts.coding in {"baseline", "sequential", "progressive"}


class Shard:
    """A shard on disk and where its samples lie."""

    def __init__(self, path: Path, members: list[tuple[str, bytes]], form: int = 0) -> None:
        self.source = LocalFile(str(write_tar(path, members, form=form))).open()
        self.offsets = scan(self.source).offsets.astype(np.int64)

    def made(self, out: Any, *, options: Pictures = Pictures(), pictures: tuple[str, ...] = ("jpg", "png")) -> Made:  # noqa: B008
        descriptor = self.source.lend()
        places = np.zeros((len(self.offsets) - 1, 4), np.int64)
        places[:, 0], places[:, 1] = np.arange(len(places)), descriptor or 0
        places[:, 2], places[:, 3] = self.offsets[:-1], self.offsets[1:]
        try:
            return Batched(Kernel(), pictures, ("cls", "txt"), entire(), options).make(places, None, out)
        finally:
            self.source.give_back()


@pytest.fixture
def closing() -> Iterator[list[LocalFile]]:
    opened: list[LocalFile] = []
    yield opened
    for source in opened:
        source.close()


@pytest.mark.parametrize("form", [0, 1, 2])  # ustar, GNU, PAX
def test_samples_come_as_they_are_decoded_one_by_one(tmp_path: Path, closing: list[LocalFile], form: int) -> None:
    pictures = [with_orientation(jpeg(40 + n, 31), n) for n in range(1, 9)]
    long = "k" * 120 if form else "k"
    members = [
        member
        for n, data in enumerate(pictures)
        for member in [(f"{long}{n}.CLS", b"%d" % n), (f"{long}{n}.jpg", data), (f"{long}{n}.other", b"x" * 3000)]
    ]
    shard = Shard(tmp_path / "a.tar", members, form)
    closing.append(shard.source)
    out, wanted = np.zeros((8, 20, 30, 3), np.uint8), np.zeros((8, 20, 30, 3), np.uint8)
    made = shard.made(out)
    for row, data in zip(wanted, pictures, strict=True):
        Decoder().decode(data, out=row, size=(20, 30))
    assert made.samples == [(f"{long}{n}", {"cls": b"%d" % n}) for n in range(8)]
    assert np.array_equal(out, wanted)
    assert (made.width, made.height) == (40 + 1, 31)
    assert made.nbytes == shard.offsets[-1] - shard.offsets[0]


def test_samples_in_memory_come_as_those_in_a_file(tmp_path: Path, closing: list[LocalFile]) -> None:
    members = [(f"k{n}.{field}", data) for n in range(4) for field, data in (("jpg", jpeg(40 + n, 31)), ("cls", b"7"))]
    shard = Shard(tmp_path / "a.tar", members, 1)
    closing.append(shard.source)
    out, wanted = np.zeros((4, 20, 30, 3), np.uint8), np.zeros((4, 20, 30, 3), np.uint8)
    expected = shard.made(wanted)
    whole, begins = (tmp_path / "a.tar").read_bytes(), shard.offsets
    one = [whole[begins[n] : begins[n + 1]] for n in range(4)]
    # two alone, two side by side in one piece of memory, one of no bytes
    places = [[0, -1, 0, len(one[0])], [2, -3, 0, len(one[2])], [3, -3, len(one[2]), len(one[2] + one[3])]]
    places += [[1, -2, 0, len(one[1])], [1, -2, 5, 5]]
    batched = Batched(Kernel(), ("jpg",), ("cls",), entire(), Pictures())
    made = batched.make(np.array(places), None, out, [one[0], bytearray(one[1]), memoryview(one[2] + one[3])])
    assert made.samples == [*(expected.samples[n] for n in (0, 2, 3, 1)), None]
    assert np.array_equal(out, wanted)
    for bad in ([0, -2, 0, 1], [0, -1, -1, 5], [0, -1, 3, 2], [0, -1, 0, len(one[0]) + 1]):
        with pytest.raises(ValueError, match="a place is"):
            batched.make(np.array([bad]), None, out, [one[0]])
    with pytest.raises(TypeError):
        batched.make(np.array([[0, -1, 0, 1]]), None, out, ["no bytes"])  # type: ignore[list-item]


def array_of(number: int) -> bytes:
    return encode_npy(np.full((7, 5), number, np.int32))


def test_arrays_are_read_to_their_rows_wherever_they_lie(tmp_path: Path, closing: list[LocalFile]) -> None:
    members = [
        ("a.npy", array_of(1)),
        ("a.cls", b"1"),
        ("b.txt", b"x" * 700),  # moves the array
        ("b.npy", array_of(2)),
        ("c.npy", encode_npy(np.full((7, 6), 3, np.int32))),  # of another shape
        ("d.npy", array_of(4)[:-1]),
        ("e.txt", b"no array"),
        ("f.npy", array_of(6)),
        ("f.txt", b"behind"),
        ("f.cls", b"6"),
    ]
    shard = Shard(tmp_path / "a.tar", members, 1)
    closing.append(shard.source)
    whole, ranges = (tmp_path / "a.tar").read_bytes(), np.stack([shard.offsets[:-1], shard.offsets[1:]], axis=1)
    head = array_of(1)[: -7 * 5 * 4]
    for begin in (512 + len(head), 0, 77, 10**9):
        for memories, first in [([], shard.source.lend()), ([whole], -1)]:
            out = np.zeros((6, 7 * 5 * 4), np.uint8)
            places = np.array([[at, first, *ranges[at]] for at in range(6)])
            batched = BatchedArrays(Kernel(), ("npy",), ("cls", "txt"))
            made = batched.make(places, out, head=head, begin=begin, memories=memories)
            assert [sample and sample[0] for sample in made.samples] == ["a", "b", None, None, None, "f"]
            assert made.samples[5] == ("f", {"cls": b"6", "txt": b"behind"})
            for row, number in ((0, 1), (1, 2), (5, 6)):
                assert (out[row].view(np.int32) == number).all()
            assert made.width == 0
        shard.source.give_back()


def test_wrong_arguments_for_arrays_are_refused() -> None:
    kernel, out = _pixels.Kernel(), np.zeros((2, 40), np.uint8)
    for places, memory, begin in [
        (np.zeros((1, 3), np.int64), out, 0),
        (np.array([[2, 0, 0, 9]]), out, 0),
        (np.array([[0, -1, 0, 9]]), out, 0),
        (np.zeros((1, 4), np.int64), np.zeros((2, 4, 4), np.uint8), 0),
        (np.zeros((1, 4), np.int64), np.zeros((2, 4), np.uint16), 0),
        (np.zeros((1, 4), np.int64), out, -1),
    ]:
        with pytest.raises(ValueError, match=r"places are|a place is|expected somewhere"):
            kernel.arrays(places, (), memory, ("npy",), (), b"head", begin)


def test_odd_samples_are_left_and_their_neighbours_made(tmp_path: Path, closing: list[LocalFile]) -> None:
    members = [
        ("a.jpg", PLAIN),
        ("b.jpg", PLAIN[: len(PLAIN) // 2]),
        ("c.jpg", saved(scene(20, 20), "PNG")),
        ("d.txt", b"no picture"),
        ("e.jpg", PLAIN),
        ("e.cl\u00e9", b"a field in another alphabet"),
        ("f.jpg", saved(scene(20, 20), "JPEG").replace(b"\xff\xda", b"\xff\xdb", 1)),
        ("g\u00e9.png", PLAIN),  # a JPEG by content, which is what counts
        *((f"h.{n}", b"") for n in range(20)),
        ("i.png", PLAIN),
        ("i.jpg", SIDEWAYS),  # the first of the alternatives, not of the members
    ]
    shard = Shard(tmp_path / "a.tar", members, 1)
    closing.append(shard.source)
    out = np.zeros((9, 47, 61, 3), np.uint8)
    samples = shard.made(out).samples
    assert [sample and sample[0] for sample in samples] == ["a", None, None, None, None, None, "g\u00e9", None, "i"]
    assert np.array_equal(out[0], Decoder().decode(PLAIN))
    assert np.array_equal(out[8], Decoder().decode(SIDEWAYS, size=(47, 61)))


def test_limits_hold_before_anything_is_decoded(tmp_path: Path, closing: list[LocalFile]) -> None:
    shard = Shard(tmp_path / "a.tar", [("a.jpg", PLAIN)], 1)
    closing.append(shard.source)
    out = np.zeros((1, 8, 8, 3), np.uint8)
    assert shard.made(out, options=Pictures(max_pixels=61 * 47 - 1)).samples == [None]
    assert not out.any()
    assert shard.made(out, options=Pictures(max_pixels=61 * 47)).samples == [("a", {})]


def test_a_shard_that_shrank_is_left(tmp_path: Path, closing: list[LocalFile]) -> None:
    shard = Shard(tmp_path / "a.tar", [("a.jpg", PLAIN), ("b.jpg", PLAIN)], 1)
    closing.append(shard.source)
    os.truncate(tmp_path / "a.tar", int(shard.offsets[1]) + 600)
    assert [sample is None for sample in shard.made(np.zeros((2, 8, 8, 3), np.uint8)).samples] == [False, True]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_changed_samples_are_left_or_come_as_python_makes_them(
    tmp_path_factory: pytest.TempPathFactory, draw: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("changed") / "a.tar"
    write_tar(path, [("a.jpg", SIDEWAYS), ("a.cls", b"7")])
    shard = bytearray(path.read_bytes())
    end = 512 + (len(SIDEWAYS) + 511) // 512 * 512 + 1024
    for _ in range(draw.draw(st.integers(0, 3))):
        shard[draw.draw(st.integers(0, end - 1))] = draw.draw(st.integers(0, 255))
    path.write_bytes(shard)
    out, wanted = np.zeros((2, 19, 23, 3), np.uint8)[:, None], np.zeros((19, 23, 3), np.uint8)
    with LocalFile(str(path)) as source:
        places = np.array([[0, source.lend() or 0, 0, end]], np.int64)
        made = Batched(Kernel(), ("jpg",), ("cls",), entire(), Pictures()).make(places, None, out[0])
        source.give_back()
    if made.samples[0] is not None:
        from wds_tools.shard import parse_sample

        raw = parse_sample(bytes(shard[:end]), url="a", offset=0)
        assert made.samples[0][0] == raw["__key__"]
        assert made.samples[0][1] == {name: raw[name] for name in ("cls",) if name in raw}
        Decoder().decode(raw["jpg"], out=wanted, size=(19, 23))
        assert np.array_equal(out[0, 0], wanted)


def test_wrong_arguments_are_refused() -> None:
    kernel, out = _pixels.Kernel(), np.zeros((2, 4, 4, 3), np.uint8)
    cut, random = entire(), (2, *([1.0] * 10))
    good = np.zeros((1, 4), np.int64)
    for places, draws, memory, how in [
        (np.zeros((1, 3), np.int64), None, out, cut),
        (np.zeros((1, 4), np.int32), None, out, cut),
        (np.array([[2, 0, 0, 9]]), None, out, cut),
        (np.array([[-1, 0, 0, 9]]), None, out, cut),
        (np.array([[0, -1, 0, 9]]), None, out, cut),
        (good, None, np.zeros((2, 4, 4), np.uint8), cut),
        (good, None, np.zeros((2, 4, 4, 4), np.uint8), cut),
        (good, None, out, random),
        (good, np.zeros((1, 43)), out, random),
        (good, np.zeros((2, 44), np.float32), out, random),
        (good, None, out, (3, *([1.0] * 10))),
        (good, None, out, [1]),
    ]:
        with pytest.raises(ValueError, match=r"places are|a place is|a cut is"):
            kernel.samples(places, (), draws, memory, ("jpg",), (), how, True, 1000, 0)
    with pytest.raises(ValueError, match="at most 16"):
        kernel.samples(good, (), None, out, tuple("abcdefghijklmnopq"), (), cut, True, 1000, 0)
    with pytest.raises((BufferError, ValueError)):
        kernel.samples(good, (), None, out[:, ::2], ("jpg",), (), cut, True, 1000, 0)


def test_names_that_c_compares() -> None:
    assert [name for name in ("jpg", "seg.png", "JPG", "", "caf\u00e9", "__key__", "x" * 65) if plain_name(name)] == [
        "jpg",
        "seg.png",
    ]


def test_damage_is_left_to_who_can_say_it() -> None:
    with pytest.raises(PictureError):
        Decoder().decode(PLAIN[:-2])
