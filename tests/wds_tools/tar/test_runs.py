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

from tests.wds_tools.tar.archives import Memory, archive, contents, entry, patched
from tests.wds_tools.tar.test_walk import SEEDS, mutated
from wds_tools.errors import DataError
from wds_tools.names import is_litter, is_metadata, split_name
from wds_tools.shard import ShardNotes, iter_samples, scan
from wds_tools.tar import member_header, padding, plain, runs

both = pytest.mark.skipif(not runs.COMPILED, reason="the walk in C was not built")
IN_C: Any = runs._module
BOTH: tuple[Any, ...] = (IN_C, plain)
TIMED = b"".join(  # as tarfile and webdataset write files whose time has a fraction: an extension each
    entry(f"{i // 2}.{'jpg' if i % 2 else 'cls'}", b"%d" % i * i, form=tarfile.PAX_FORMAT, mtime=i + 0.5)
    for i in range(40)
)
LONG = [(f"{'é' * 60}{i}/{'n' * 70}.{field}", b"%d" % i) for i in range(10) for field in ("Seg.PNG", "cls")]
SAMPLES = archive([(f"d/{i}.{field}", b"%d" % i * i) for i in range(40) for field in ("jpg", "cls")])
ALL = [
    *SEEDS,
    SAMPLES,
    TIMED + bytes(1024),
    archive(LONG, form=tarfile.PAX_FORMAT),
    archive(LONG, form=tarfile.GNU_FORMAT),
]


def said(walk: ModuleType | Any, content: bytes) -> tuple[Any, ...]:
    """What the four functions say about the bytes from several places on, in comparable form."""
    view = memoryview(content)
    found: list[Any] = []
    for begin in range(0, min(len(view), 4097), 512):
        samples, *rest = walk.plain_samples(view[begin:], "u", 7)
        found.append((walk.plain_members(view, begin, len(view)), _plainly(samples), rest))
        found.extend(_plainly([walk.plain_sample(view[begin:end], "u")]) for end in (begin + 1024, begin + 2048))
        found.extend(walk.as_written(view[begin:end]) for end in (begin + 1024, begin + 2048, len(view)))
    return tuple(found)


def _plainly(samples: list[dict[str, Any] | None]) -> list[Any]:
    return [
        sample
        and [(name, type(value), value if isinstance(value, str) else bytes(value)) for name, value in sample.items()]
        for sample in samples
    ]


@both
@settings(max_examples=600)
@given(st.integers(0, len(ALL) - 1), st.integers(0))
def test_changed_archives_are_walked_alike(seed: int, change: int) -> None:
    content = mutated(ALL[seed], change)
    assert said(IN_C, content) == said(plain, content)


WRITTEN = b"".join(
    member_header(name, len(data)) + data + padding(len(data))
    for name, data in [
        *(("a/b.jpg", bytes(range(256)) * 3), ("a/b.cls", b"7"), ("A_b/C.d", bytes(512)), ("d.v1/e.seg.png", b"")),
        ("n" * 96 + ".jpg", b"x"),
    ]
)


@both
@settings(max_examples=1500)
@given(st.integers(0, len(WRITTEN) - 1), st.integers(0, 255), st.booleans())
def test_what_was_written_otherwise_is_not_taken_for_ours(at: int, value: int, sound: bool) -> None:
    """Any byte changed, and the checksum put right again, as another writer of the same members has it."""
    changed = bytearray(WRITTEN)
    changed[at] = value
    header = max((begin for _, _, begin, _, _ in plain.plain_members(WRITTEN, 0, len(WRITTEN)) if begin <= at))
    if sound and at - header < 512:
        block = changed[header : header + 512]
        changed[header + 148 : header + 156] = b"%06o\0 " % (sum(block[:148]) + 256 + sum(block[156:]))
    found = plain.as_written(changed)
    assert IN_C.as_written(changed) == found
    members = plain.plain_members(changed, 0, len(changed))
    again = b"".join(
        member_header(f"{key}.{field}", stop - data) + changed[data:stop] + padding(stop - data)
        for key, field, _, data, stop in members
    )
    assert found == (again == changed)


@pytest.mark.parametrize("form", [b"%06o\0 ", b"%06o \0", b"%7o\0", b"%08o", b"%06o  "])
@pytest.mark.parametrize("digits", [b"%011o\0", b"%11o\0", b"%011o ", b"%o" + b" " * 9])
@pytest.mark.parametrize("walk", BOTH)
def test_numbers_in_another_form_are_not_ours(walk: Any, form: bytes, digits: bytes) -> None:
    block = bytearray(member_header("a.jpg", 64) + bytes(512))
    block[124:136] = (digits % 64).ljust(12)[:12]
    block[148:156] = form % (sum(block[:148]) + 256 + sum(block[156:512]))
    assert len(walk.plain_members(block, 0, len(block))) == 1
    assert walk.as_written(block) == ((form, digits) == (b"%06o\0 ", b"%011o\0"))


@pytest.mark.parametrize("walk", BOTH)
def test_only_whole_members_are_ours(walk: Any) -> None:
    ends = [0, *(stop + 511 & -512 for *_, stop in walk.plain_members(WRITTEN, 0, len(WRITTEN)))]
    for end in range(0, len(WRITTEN) + 1, 256):
        assert walk.as_written(memoryview(WRITTEN)[:end]) == (end in ends[1:])
    assert not walk.as_written(WRITTEN + bytes(512))
    assert not walk.as_written(SAMPLES[512:])
    for name in ("n" * 97 + ".jpg", "é.jpg"):  # which begin with an extension
        assert not walk.as_written(member_header(name, 0))


class _Nothing:
    """A walk to which nothing is plain."""

    plain_members: Any = staticmethod(lambda *_: [])
    plain_samples: Any = staticmethod(lambda *_: ([], [], 0, 0, 0))


@settings(max_examples=400)
@given(st.integers(0, len(ALL) - 1), st.integers(0))
def test_what_is_read_is_what_the_complete_walk_reads_alone(seed: int, change: int) -> None:
    content = mutated(ALL[seed], change)
    wanted = _read(_Nothing, content)
    for walk in BOTH:
        assert _read(walk, content) == wanted


def _read(walk: Any, content: bytes) -> tuple[Any, ...]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "plain_members", walk.plain_members)
        patch.setattr(runs, "plain_samples", walk.plain_samples)
        return _all_of(content)


def _all_of(content: bytes) -> tuple[Any, ...]:
    """Samples, faults, the error in the end, the notes, and what a scan says."""
    notes, faults, samples = ShardNotes(), [], []
    try:
        for sample in iter_samples(Memory(content), notes=notes, on_bad=lambda fault: faults.append(str(fault))):
            samples.append(contents(sample))
        scanned = scan(Memory(content))
    except DataError as error:
        return samples, faults, str(error)
    return samples, faults, notes, scanned.offsets.tolist(), scanned.fields


RECORDS = [
    *(
        b"11 mtime=1\n",
        b"9 path=\n",
        b"14 path=b.jpg\n",
        b"15 path=\xc3\xa9.jpg\n",
        b"14 path=b\xff.jp\n",
        b"14 path=b.jp\0\n",
    ),
    *(
        b"14 path=b.jpg\n14 path=c.png\n",
        b"14 path=b.jpg\n\0\0\0",
        b"9 size=4\n",
        b"18 linkpath=x.jpg\n",
        b"10 b=c=d=e\n",
    ),
    *(
        b"22 GNU.sparse.major=1\n",
        b"11 mtime=1",
        b"12 mtime=1\n",
        b"10 mtime=1\n",
        b"mtime=1\n",
        b"11  mtime=1\n",
        b"5 =x\n",
    ),
    *(
        b"011 mtime=1\n",
        b"00000000000000000012 mtime=1\n",
        b"0000000000000000025 mtime=1\n",
        b"6 a=\n\n",
        b"5 ab\n",
        b"0 a=b\n",
    ),
    *(
        b"",
        b"\0",
        b"14 path=__m__/b\n",
        b"16 path=a/b.c/d\n",
        b"99 path=b.jpg\n",
        b"-1 a=b\n",
        b"12 path=b/d\n",
        b"4 a=\n",
    ),
    b"13 path=d.jpg\n",
]


@pytest.mark.parametrize("data", RECORDS)
@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
@pytest.mark.parametrize("own", ["a.jpg", "a/"])
@pytest.mark.parametrize("of", [tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.SYMTYPE])
def test_extensions_say_what_the_complete_walk_reads(data: bytes, kind: bytes, own: str, of: bytes) -> None:
    last = patched(entry("x.jpg", b"data"), 156, of)
    last = patched(last, 0, own.encode().ljust(100, b"\0"))
    content = entry("0.jpg") + entry("././@Ext", data, type=kind) + last + entry("z.jpg") + bytes(1024)
    wanted = _read(_Nothing, content)
    for walk in BOTH:
        assert _read(walk, content) == wanted
    assert said(IN_C, content) == said(plain, content)


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_long_names_and_times_with_a_fraction_are_plain(form: Any) -> None:
    for walk in BOTH:
        content = archive(LONG, form=form)
        found = walk.plain_members(content, 0, len(content))
        assert [(f"{key}.{field}", content[data:stop]) for key, field, _, data, stop in found] == [
            (name.lower(), data) for name, data in LONG
        ]
        assert len(walk.plain_members(TIMED, 0, len(TIMED))) == 40
        samples, begins, members, first, need = walk.plain_samples(memoryview(TIMED), "u", 10)
        assert (len(samples), len(begins), members) == (19, 19, 38)
        assert b"cls" in TIMED[first + 1024 : first + 1124]  # behind the extension and its data
        assert need > len(TIMED) - first  # the next header would tell that the sample is whole
        sample = walk.plain_sample(memoryview(TIMED)[first:], "u")
        assert {name: bytes(value) for name, value in list(sample.items())[2:]} == {
            "cls": b"38" * 38,
            "jpg": b"39" * 39,
        }


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
        assert found[0] == [(*made, 0, 512, 516)]


NUMBERS = [
    *(b"00000000012", b"         12", b"12         ", b"+0000000012", b"0000_000012", b"0o000000012", b"0000000008 "),
    *(b"00000000\0\0\0", b"           ", b"\x80" + bytes(10), b"77777777777", b"\t        12", b"0000000000x"),
]


@both
@pytest.mark.parametrize("digits", NUMBERS)
@pytest.mark.parametrize("behind", [b"\0", b" ", b"1"])
def test_sizes_are_read_alike(digits: bytes, behind: bytes) -> None:
    header = patched(entry("a.jpg", b"data"), 124, digits + behind)
    assert IN_C.plain_members(header, 0, len(header)) == plain.plain_members(header, 0, len(header))


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
        lambda: IN_C.plain_members(SAMPLES, -1, 512),
        lambda: IN_C.plain_members(SAMPLES, 0, len(SAMPLES) + 1),
        lambda: IN_C.plain_members("text", 0, 0),
        lambda: IN_C.plain_sample(memoryview(SAMPLES), b"url"),
        lambda: IN_C.plain_sample(1, "url"),
        lambda: IN_C.plain_samples(memoryview(SAMPLES)[::2], "url", 0),
        lambda: IN_C.as_written(memoryview(SAMPLES)[::2]),
        lambda: IN_C.as_written("text"),
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
            said(IN_C, content)
        return sys.getallocatedblocks()

    walk_all()
    before = walk_all()
    assert walk_all() - before < 50


def test_a_link_ends_the_run() -> None:
    content = entry("a.jpg") + entry("b.jpg", type=tarfile.LNKTYPE, linkname="a.jpg") + entry("c.jpg")
    for walk in BOTH:
        assert [name for name, *_ in walk.plain_members(content, 0, len(content))] == ["a"]


def test_random_places_between_headers_are_no_members() -> None:
    places = random.Random(0).sample(range(1, 512), 100)
    for walk in BOTH:
        assert not any(walk.plain_members(SAMPLES, place, len(SAMPLES)) for place in places)
