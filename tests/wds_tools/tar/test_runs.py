"""The two walks over plain members: what they return, and that it is the same from C and from Python."""

from __future__ import annotations

import random
import sys
import tarfile
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.wds_tools.tar.archives import archive, entry, patched
from tests.wds_tools.tar.test_walk import SEEDS, mutated
from wds_tools.names import is_litter, is_metadata, split_name
from wds_tools.tar import plain, runs

both = pytest.mark.skipif(not runs.COMPILED, reason="the walk in C was not built")
BOTH: tuple[Any, ...] = (runs, plain)
SAMPLES = archive([(f"d/{i}.{field}", b"%d" % i * i) for i in range(40) for field in ("jpg", "cls")])


def said(walk: ModuleType | Any, content: bytes) -> tuple[Any, ...]:
    """What the three functions say about the bytes from several places on, in comparable form."""
    view = memoryview(content)
    found: list[Any] = []
    for begin in range(0, min(len(view), 4097), 512):
        samples, *rest = walk.plain_samples(view[begin:], "u", 7)
        found.append((walk.plain_members(view, begin, len(view)), _plainly(samples), rest))
        found.extend(_plainly([walk.plain_sample(view[begin:end], "u")]) for end in (begin + 1024, begin + 2048))
    return tuple(found)


def _plainly(samples: list[dict[str, Any] | None]) -> list[Any]:
    return [
        sample
        and [(name, type(value), value if isinstance(value, str) else bytes(value)) for name, value in sample.items()]
        for sample in samples
    ]


@both
@settings(max_examples=600)
@given(st.integers(0, len(SEEDS)), st.integers(0))
def test_changed_archives_are_walked_alike(seed: int, change: int) -> None:
    content = mutated([*SEEDS, SAMPLES][seed], change)
    assert said(runs, content) == said(plain, content)


@both
@settings(max_examples=600)
@given(st.binary(max_size=100))
@example(b"__a__.jpg")
@example(b"__a.b__\n")
@example(b"__.__\n")
@example(b"___.jpg")
@example(b"__a__/b.jpg")
@example(b"a/__b__/c.jpg")
@example(b"__MACOSX/a.jpg")
@example(b"./__MACOSX/a.jpg")
@example(b"a/._b.jpg")
@example(b"./a.jpg")
@example(b"v1.0/a.jpg")
@example(b"a.")
@example(b"/.jpg")
@example("É/ß.ÀẞİǅΣ".encode())
@example(b"a\xff.jpg")
@example(b"a.jp\xe9g")
@example(b"a.\xc3")
@example("a.\u017f\u212a".encode())
def test_names_are_split_by_the_one_rule(raw: bytes) -> None:
    header = patched(entry("a.jpg", b"data"), 0, raw.ljust(100, b"\0"))
    found = [walk.plain_members(header, 0, len(header)) for walk in BOTH]
    assert found[0] == found[1]
    name = raw.partition(b"\0")[0].decode("utf-8", "surrogateescape")
    made = split_name(name)
    if made is None or is_metadata(name) or is_litter(name) or name != name.encode("utf-8", "replace").decode():
        assert found[0] == []
    else:
        assert found[0] == [(*made, 512, 516)]


NUMBERS = [
    *(b"00000000012", b"         12", b"12         ", b"+0000000012", b"0000_000012", b"0o000000012", b"0000000008 "),
    *(b"00000000\0\0\0", b"           ", b"\x80" + bytes(10), b"77777777777", b"\t        12", b"0000000000x"),
]


@both
@pytest.mark.parametrize("digits", NUMBERS)
@pytest.mark.parametrize("behind", [b"\0", b" ", b"1"])
def test_sizes_are_read_alike(digits: bytes, behind: bytes) -> None:
    header = patched(entry("a.jpg", b"data"), 124, digits + behind)
    assert runs.plain_members(header, 0, len(header)) == plain.plain_members(header, 0, len(header))


@both
@pytest.mark.parametrize(
    "form", [b"%06o\0 ", b"%06o \0", b"%7o\0", b"%08o", b"%o", b"+%06o\0", b"%06o\0\0", b"%06ox", b"%3o\0 "]
)
def test_checksums_are_read_alike(form: bytes) -> None:
    block = entry("a.jpg", b"data")
    for wrong in (0, 1, -1):
        total = sum(block[:148]) + 256 + sum(block[156:512]) + wrong
        header = block[:148] + (form % total).ljust(8, b" ")[:8] + block[156:]
        found = [walk.plain_members(header, 0, len(header)) for walk in BOTH]
        assert found[0] == found[1]
        if wrong:
            assert not found[0]


@pytest.mark.parametrize("walk", BOTH)
class TestEither:
    def test_samples_are_whole_and_closed_by_another_key(self, walk: Any) -> None:
        samples, begins, members, first, need = walk.plain_samples(memoryview(SAMPLES), "u.tar", 20)
        assert [sample["__key__"] for sample in samples] == [f"d/{i}" for i in range(39)]
        assert list(samples[30]) == ["__key__", "__url__", "jpg", "cls"]
        assert samples[30]["__url__"] == "u.tar"
        assert samples[30]["jpg"] == b"30" * 30
        assert [type(samples[i]["jpg"]) for i in (10, 11)] == [bytes, memoryview]
        assert members == 78
        assert SAMPLES[first:].startswith(b"d/39.jpg")
        assert SAMPLES[begins[7] :].startswith(b"d/7.jpg")
        assert need == 0  # what follows is no member

    @pytest.mark.parametrize("cut", [1, 511, 512, 600, 1024, 1500, 2047])
    def test_bytes_that_are_missing_are_asked_for(self, walk: Any, cut: int) -> None:
        content = archive([("a.jpg", b"x" * 10), ("a.cls", b"1"), ("b.cls", b"2")])[: 3 * 1024]
        samples, _, _, first, need = walk.plain_samples(memoryview(content)[:cut], "u", 9)
        assert (samples, first) == ([], 0)
        assert cut < need <= 2560
        assert len(walk.plain_samples(memoryview(content)[:2560], "u", 9)[0]) == 1

    @pytest.mark.parametrize("name", ["b.JPG", "b.__key__", "b.__url__"])
    def test_a_field_twice_is_not_passed(self, walk: Any, name: str) -> None:
        content = archive([("a.jpg", b""), ("b.jpg", b""), (name, b""), ("c.jpg", b"")])
        samples, _, members, first, need = walk.plain_samples(memoryview(content), "u", 9)
        assert [sample["__key__"] for sample in samples] == ["a"]
        assert (members, first, need) == (1, 512, 0)
        assert walk.plain_sample(memoryview(content)[512:1536], "u") is None

    def test_one_sample_that_fills_the_bytes(self, walk: Any) -> None:
        content = archive([("a.jpg", b"xyz"), ("a.cls", b""), ("b.cls", b"")])
        sample = walk.plain_sample(memoryview(content)[:1536], "u")
        assert {name: bytes(value) for name, value in list(sample.items())[2:]} == {"jpg": b"xyz", "cls": b""}
        assert all(type(value) is memoryview for value in list(sample.values())[2:])
        for begin, end in ((0, 2048), (0, 1024 - 1), (0, 512), (0, 0), (512, 1536), (0, len(content))):
            assert walk.plain_sample(memoryview(content)[begin:end], "u") is None

    def test_values_keep_their_bytes_alive(self, walk: Any) -> None:
        buffer = bytearray(archive([("a.jpg", b"x" * 999)]))
        before = sys.getrefcount(buffer)
        sample = walk.plain_sample(memoryview(buffer)[: 512 + 1024], "u")
        with pytest.raises(BufferError):
            buffer.append(0)
        del sample
        buffer.append(0)
        assert sys.getrefcount(buffer) == before


@both
@pytest.mark.parametrize(
    "call",
    [
        lambda: runs.plain_members(SAMPLES, -1, 512),
        lambda: runs.plain_members(SAMPLES, 0, len(SAMPLES) + 1),
        lambda: runs.plain_members("text", 0, 0),  # type: ignore[arg-type]
        lambda: runs.plain_sample(memoryview(SAMPLES), b"url"),  # type: ignore[arg-type]
        lambda: runs.plain_sample(1, "url"),  # type: ignore[arg-type]
        lambda: runs.plain_samples(memoryview(SAMPLES)[::2], "url", 0),
    ],
)
def test_arguments_that_make_no_sense_are_refused(call: Callable[[], object]) -> None:
    with pytest.raises((ValueError, TypeError, BufferError)):
        call()


@both
def test_nothing_is_left_behind() -> None:
    shards = [mutated(SAMPLES, seed) for seed in range(30)]

    def walk_all() -> int:
        for content in shards:
            said(runs, content)
        return sys.getallocatedblocks()

    walk_all()
    before = walk_all()
    assert walk_all() - before < 50


def test_a_pax_header_ends_the_run() -> None:
    content = archive([("a.jpg", b""), ("n" * 120 + ".jpg", b""), ("b.jpg", b"")], form=tarfile.PAX_FORMAT)
    for walk in BOTH:
        assert [name for name, *_ in walk.plain_members(content, 0, len(content))] == ["a"]


def test_random_places_between_headers_are_no_members() -> None:
    places = random.Random(0).sample(range(1, 512), 100)
    for walk in BOTH:
        assert not any(walk.plain_members(SAMPLES, place, len(SAMPLES)) for place in places)
