"""The short way of plain samples: the same batches, errors and counts as without it."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loaders import CenterCrop, Mask, RandomResizedCrop, Reading, Resize, ShardLoader
from loaders.fields import parse_fields
from loaders.quick import Quick, cut_of
from loaders.read import SampleReader, Scratch
from tests.builders import picture, write_labels, write_tar
from tests.loaders.remote_data import indexed, served
from tests.wds_tools.pictures.made import saved, scene, with_orientation
from wds_tools.dataset import open_dataset
from wds_tools.errors import DataError
from wds_tools.fields.arrays import encode_npy
from wds_tools.pictures.batched import Batched, BatchedArrays
from wds_tools.pictures.kernel import capability
from wds_tools.pictures.options import Pictures
from wds_tools.pictures.orientation import Box, inside

_pixels = pytest.importorskip("wds_tools.pictures._pixels", reason="nothing was compiled")

pytestmark = pytest.mark.skipif(not capability().jpeg, reason=capability().missing)

SIDES = st.integers(1, 4000)


@settings(max_examples=500, deadline=None)
@given(
    SIDES,
    SIDES,
    st.tuples(st.floats(0.001, 1), st.floats(0.001, 1)).map(sorted),
    st.tuples(st.floats(0.01, 50), st.floats(0.01, 50)).map(sorted),
    st.integers(0, 2**32),
)
def test_random_crops_are_pythons_to_the_last_bit(
    width: int, height: int, scale: list[float], ratio: list[float], seed: int
) -> None:
    crop = RandomResizedCrop(224, scale=(scale[0], scale[1]), ratio=(ratio[0], ratio[1]))
    draws = np.random.default_rng(seed).random(44)
    box, flip = crop.place(width, height, draws.tolist())
    assert box is not None
    cut = cut_of(crop)
    assert cut is not None
    assert _pixels.Kernel().place(cut, width, height, draws) == (*box, flip)


@given(SIDES, SIDES, st.integers(1, 500), st.integers(1, 500), st.integers(0, 300))
def test_centre_crops_are_pythons_to_the_last_bit(width: int, height: int, wide: int, high: int, more: int) -> None:
    crop = CenterCrop((high, wide), resize=max(wide, high) + more)
    box, _ = crop.place(width, height, ())
    cut = cut_of(crop)
    assert box is not None
    assert cut is not None
    assert _pixels.Kernel().place(cut, width, height, np.zeros(44)) == (*inside(box, width, height), False)


def test_the_whole_picture() -> None:
    cut = cut_of(Resize(9))
    assert cut is not None
    assert _pixels.Kernel().place(cut, 5, 7, np.zeros(44)) == (*Box(0, 0, 5, 7), False)


def quick(*fields: str, image: Any, **options: Any) -> Quick | None:
    return Quick.of(parse_fields(fields, image), Pictures(**options))


def test_where_it_is_taken() -> None:
    crop = RandomResizedCrop(32)
    assert quick("jpg;png", "cls", "txt?", "__key__", image=crop)
    assert not quick("jpg", "cls", image=None)
    assert not quick("jpg?", "cls", image=crop)
    assert not quick("jpg", "seg.png", image={"jpg": crop, "seg.png": Mask()})
    assert not quick("jpg", "npy", image=crop)
    assert not quick("jpg", "cls", image=crop, icc="srgb")
    assert not quick("caf\u00e9.jpg", "cls", image=crop)
    narrow: Any = np.float32(0.5)
    assert not quick("jpg", "cls", image=RandomResizedCrop(32, scale=(narrow, 1.0)))
    assert not quick("cls", image=None)


def odd_shards(folder: Path) -> str:
    """Forty-eight samples of all that is usual, and of some that is not."""
    folder.mkdir(exist_ok=True)
    for shard in range(2):
        members: list[tuple[str, bytes]] = []
        for number in range(shard * 24, shard * 24 + 24):
            key = {3: "caf\u00e9", 5: "k" * 130}.get(number % 12, "key") + f"{number:03d}"
            data = picture(number, width=60 + number, height=50)
            if number % 12 == 1:
                data = with_orientation(data, 1 + number % 8)
            if number % 12 == 7:
                data = saved(scene(50, 40), "PNG")
            if number % 24 == 9:
                data = saved(scene(50, 40), "TIFF")
            members += [(f"{key}.jpg", data), (f"{key}.cls", b"%d" % number)]
            members += [(f"{key}.json", b"{}")] if number % 3 else []
        write_tar(folder / f"{shard}.tar", members, form=tarfile.PAX_FORMAT if shard else tarfile.GNU_FORMAT)
    return str(folder)


def spoiled(folder: Path) -> str:
    """The same with a few that are bad: cut off, no number, no field."""
    urls = odd_shards(folder)
    good = picture(1)
    bad = [
        ("b0.jpg", good[:-9]),
        ("b0.cls", b"1"),
        ("b1.jpg", good),
        ("b1.cls", b"one"),
        ("b2.jpg", good),
        ("b2.txt", b"no label"),
        ("b3.jpg", b"<html>"),
        ("b3.cls", b"3"),
    ]
    write_tar(
        folder / "2.tar",
        [*bad, *((f"c{n}.{field}", data) for n in range(8) for field, data in (("jpg", good), ("cls", b"5")))],
    )
    return urls


def facts_of(urls: str, **options: Any) -> list[Any]:
    """All that comes out of two epochs."""
    every = {
        "batch_size": 8,
        "lanes": 4,
        "threads": 2,
        "fields": ("jpg", "cls", "json?", "__key__", "__url__", "__index__"),
    }
    facts: list[Any] = []
    with ShardLoader(urls, **{**every, **options}) as loader:
        for _ in range(2):
            facts += [[hashlib.sha1(b[0].tobytes()).hexdigest(), b[1].tolist(), *map(list, b[2:])] for b in loader]
        report = loader.report()
        return [*facts, report.samples, sorted(report.skipped)]


CROPS = [
    RandomResizedCrop(40),
    RandomResizedCrop((33, 65), scale=(0.9, 1), ratio=(2, 3)),
    CenterCrop(48),
    Resize((20, 31)),
]


@pytest.mark.parametrize("crop", CROPS, ids=str)
@pytest.mark.parametrize(
    "more", [{}, {"shuffle": False}, {"exclude": [0, 1, 17]}, {"tail": "pad", "batch_size": 7}], ids=str
)
def test_batches_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crop: Any, more: dict[str, Any]) -> None:
    urls = odd_shards(tmp_path)
    short = facts_of(urls, image=crop, **more)
    monkeypatch.setattr(Quick, "of", lambda *_: None)
    assert facts_of(urls, image=crop, **more) == short


@pytest.mark.parametrize("tail", ["drop", "pad", "exact"])
def test_bad_samples_are_skipped_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tail: str) -> None:
    urls = spoiled(tmp_path)
    (tmp_path / "lists").mkdir()
    found = []
    for name in ("short", "long"):
        path = tmp_path / "lists" / name
        facts = facts_of(urls, image=CROPS[0], tail=tail, on_error="skip", quarantine=path)
        found.append((facts, sorted(map(json.dumps, map(json.loads, path.read_text().splitlines())))))
        monkeypatch.setattr(Quick, "of", lambda *_: None)
    assert found[0] == found[1]
    assert len(found[0][1]) == 4


def test_errors_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    urls = spoiled(tmp_path)
    said = []
    for _ in range(2):
        with pytest.raises(DataError) as caught:
            facts_of(urls, image=CROPS[0], shuffle=False, threads=1)
        said.append(str(caught.value))
        monkeypatch.setattr(Quick, "of", lambda *_: None)
    assert said[0] == said[1]
    assert "b0" in said[0]


def places_of(urls: Any, *, batched: Any = Batched, **options: Any) -> tuple[list[Any], set[str]]:
    """What comes out, the urls of samples apart, and where the short way found the bytes."""
    used: set[str] = set()
    make = batched.make

    def watched(self: Any, places: Any, *rest: Any, **named: Any) -> Any:
        used.update("memory" if place[1] < 0 else "file" for place in places.tolist() if place[3] > place[2])
        return make(self, places, *rest, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batched, "make", watched)
        facts = facts_of(urls, **options)
    return [[*each[:4], *each[5:]] if isinstance(each, list) else each for each in facts], used


@pytest.mark.parametrize("more", [{}, {"exclude": [0, 1, 17]}, {"tail": "pad", "batch_size": 7}], ids=str)
def test_what_was_fetched_is_made_where_it_came_to_lie(tmp_path: Path, more: dict[str, Any]) -> None:
    urls = indexed(odd_shards(tmp_path / "data"))
    local, _ = places_of(urls, image=CROPS[0], **more)
    with served(urls) as server:
        remote = server.url("/d/dataset.json")
        assert places_of(remote, image=CROPS[0], **more) == (local, {"memory"})
        read = Reading(cache_dir=tmp_path / "cache")
        assert places_of(remote, image=CROPS[0], read=read, **more) == (local, {"file"})


def test_bad_samples_of_a_server_are_skipped_alike(tmp_path: Path) -> None:
    urls = indexed(spoiled(tmp_path / "data"))
    local, _ = places_of(urls, image=CROPS[0], on_error="skip")
    with served(urls) as server:
        for read in (Reading(), Reading(cache_dir=tmp_path / "cache")):
            found, _ = places_of(server.url("/d/dataset.json"), image=CROPS[0], on_error="skip", read=read)
            assert found == local


def test_what_a_cache_has_damaged_is_left_and_comes_anew(tmp_path: Path) -> None:
    urls = indexed(odd_shards(tmp_path / "data"))
    local, _ = places_of(urls, image=CROPS[0])
    with served(urls) as server:
        read = Reading(cache_dir=tmp_path / "cache")
        places_of(server.url("/d/dataset.json"), image=CROPS[0], read=read)
        entries = [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.stat().st_size > 30_000]
        assert entries
        for path in entries:
            content = bytearray(path.read_bytes())
            content[2000] ^= 1
            path.write_bytes(content)
        assert places_of(server.url("/d/dataset.json"), image=CROPS[0], read=read) == (local, {"file"})


def test_plain_samples_leave_nothing_to_be_made_singly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    members = [(f"{n:02d}.{field}", data) for n in range(32) for field, data in (("jpg", picture(n)), ("cls", b"4"))]
    write_tar(tmp_path / "0.tar", members)
    left: list[int] = []
    make = Quick.make

    def watched(self: Quick, *arguments: Any) -> Any:
        rest = make(self, *arguments)
        left.append(len(rest))
        return rest

    monkeypatch.setattr(Quick, "make", watched)
    with ShardLoader(str(tmp_path), batch_size=16, image=RandomResizedCrop(24)) as loader:
        assert [batch[1].tolist() for batch in loader] == [[4] * 16] * 2
        assert loader.report().looked_at
    assert left
    assert not any(left)


def alike(folder: Path, *, more: int = 0) -> str:
    """Ninety-six samples with arrays in one place, and with `more` every eighth in another."""
    folder.mkdir(exist_ok=True)
    for shard in range(3):
        members: list[tuple[str, bytes]] = []
        for number in range(shard * 32, shard * 32 + 32):
            array = encode_npy(np.full((20, 30), number, np.float32))
            before = [(f"{number:03d}.a", b"x" * (number % 8 == 0) * more)] if more else []
            members += [*before, (f"{number:03d}.npy", array), (f"{number:03d}.cls", b"%d" % number)]
        write_tar(folder / f"{shard}.tar", members)
    return str(folder)


@pytest.mark.parametrize(("more", "threads"), [(0, 2), (600, 1)])
def test_arrays_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int, threads: int) -> None:
    # A thread gives up after three wrong guesses in a row: which come in a row to one of two is up to the scheduler.
    urls = alike(tmp_path, more=more)
    options = {"fields": ("npy", "cls", "a?", "__key__", "__url__", "__index__"), "threads": threads}
    short, used = places_of(urls, batched=BatchedArrays, **options)
    assert used == {"file"}
    monkeypatch.setattr(Quick, "of", lambda *_: None)
    assert places_of(urls, batched=BatchedArrays, **options) == (short, set())


def test_arrays_that_were_fetched_go_the_short_way_too(tmp_path: Path) -> None:
    urls = indexed(alike(tmp_path / "data"))
    fields = ("npy", "cls", "a?", "__key__", "__url__", "__index__")
    local, _ = places_of(urls, fields=fields)
    with served(urls) as server:
        remote = server.url("/d/dataset.json")
        assert places_of(remote, fields=fields, batched=BatchedArrays) == (local, {"memory"})
        read = Reading(cache_dir=tmp_path / "cache")
        assert places_of(remote, fields=fields, read=read, batched=BatchedArrays) == (local, {"file"})


def test_what_is_never_plain_is_not_tried_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    png = saved(scene(30, 20), "PNG")
    write_tar(tmp_path / "0.tar", [(f"{n:03d}.png", png) for n in range(128)])
    tries: list[int] = []
    make = Batched.make

    def watched(self: Batched, *arguments: Any) -> Any:
        tries.append(len(arguments[0]))
        return make(self, *arguments)

    monkeypatch.setattr(Batched, "make", watched)
    with ShardLoader(str(tmp_path), batch_size=16, fields=("png",), image=Resize(8), threads=1) as loader:
        assert len(list(loader)) == 8
    assert len(tries) == 3


def test_what_python_cannot_place_is_left_to_it() -> None:
    crop = RandomResizedCrop(8, ratio=(1e-320, 1e300))
    cut = cut_of(crop)
    assert cut is not None
    with pytest.raises(OverflowError):
        crop.place(10, 10, [1e-9] * 44)
    assert _pixels.Kernel().place(cut, 10, 10, np.full(44, 1e-9)) is None


def test_few_descriptors_are_held_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what a process may have open, the half: a thread of its own would hold sixteen, and there may be many."""
    dataset = open_dataset(write_labels(tmp_path, [1] * 40))
    monkeypatch.setattr("resource.getrlimit", lambda _: (48, 48))
    reader = SampleReader(dataset)
    try:
        with reader.lent(np.arange(40)) as lent:
            assert (lent.places[:, 3] > 0).tolist() == [True] * 24 + [False] * 16
        encoded = reader.read(np.arange(40), Scratch())
        assert [int(each.parse()["cls"]) for each in encoded] == list(range(40))
    finally:
        reader.close()


def test_an_error_that_was_kept_leaves_no_shard_open(tmp_path: Path) -> None:
    class Failed:
        def data(self) -> None:
            raise MemoryError

    dataset = open_dataset(write_labels(tmp_path, [2]))
    claims: Any = [None, Failed()]
    reader = SampleReader(dataset)
    with pytest.raises(MemoryError):
        reader.lent(np.arange(2), None, claims)
    reader.close()
    gc.collect()
    assert not [link for link in open_files() if link.startswith(str(tmp_path))]


def open_files() -> list[str]:
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(str(each.readlink()))
    return found
