"""Damaged shards and bad samples in streams: named, or skipped and counted; what cannot be had is always raised."""

from __future__ import annotations

import gzip
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from loaders import Resize, StreamLoader
from tests.builders import picture, write_shard, write_tar
from wds_tools.errors import (
    FieldError,
    GroupingError,
    MissingFieldError,
    NotATarError,
    ShardError,
    ShardMissingError,
    TooFewSamplesError,
    TooManyFailuresError,
    TruncatedPictureError,
    TruncatedShardError,
    UnavailableError,
)

SIZE = 2048  # bytes of a sample below: two headers, a text of one block, a label


def stream(urls: Any, **options: Any) -> StreamLoader:
    options = {"batch_size": 2, "fields": ("cls",), "threads": 1, "shuffle": False, "allow_pipe": True, **options}
    return StreamLoader(urls, **options)


def numbers(loader: StreamLoader) -> list[int]:
    with loader:
        return [number for batch in loader for number in batch.cls.tolist()]


def shard(path: Path, count: int = 10, begin: int = 0) -> Path:
    return write_shard(
        path, [(f"k{n:04d}", {"txt": b"x" * 300, "cls": b"%d" % n}) for n in range(begin, begin + count)]
    )


def packed(data: bytes, how: str) -> bytes:
    if how == "gzip":
        return gzip.compress(data)
    return zstandard.ZstdCompressor().compress(data) if how == "zstd" else data


# Of ten samples the seventh is cut: inside its data, inside its first header, in front of it, between its two members,
# in the padding behind its data. Or all are whole, and only the end of archive is missing.
CUTS = {"data": 512 + 100, "header": 100, "sample": 0, "member": 1024, "padding": 512 + 300, "end": 4 * SIZE}
# The sample in front of a cut at a member's begin may lack fields that were cut away: it is not given either.
WHOLE = {"data": 6, "header": 5, "sample": 5, "member": 6, "padding": 6, "end": 9}


@pytest.mark.parametrize("how", ["plain", "zstd"])
@pytest.mark.parametrize("where", CUTS)
def test_a_tar_that_was_cut_before_it_was_sent(tmp_path: Path, where: str, how: str) -> None:
    cut = 6 * SIZE + CUTS[where]
    (tmp_path / "cut").write_bytes(packed(shard(tmp_path / "a.tar").read_bytes()[:cut], how))
    url = f"pipe:cat {tmp_path}/cut"
    with stream(url) as loader, pytest.raises(TruncatedShardError) as caught:
        list(loader)
    assert (caught.value.url, caught.value.offset) == (url, cut)
    assert f"the last whole sample is 'k{WHOLE[where] - 1:04d}'" in str(caught.value)

    shard(tmp_path / "b.tar", begin=100)
    with stream([url, f"{tmp_path}/b.tar"], tail="exact", on_error="skip") as loader:
        found = [number for batch in loader for number in batch.cls.tolist()]
        report = loader.report()
    assert found == [*range(WHOLE[where]), *range(100, 110)]
    assert (report.shards_damaged, report.skipped) == (1, {"TruncatedShardError": 1})


@pytest.mark.parametrize("where", ["data", "header", "padding"])
def test_a_cut_tar_that_was_compressed_as_a_whole(tmp_path: Path, where: str) -> None:
    # gzip ends with a length: nothing was lost behind it, so only a cut inside a member is damage.
    cut = 6 * SIZE + CUTS[where]
    (tmp_path / "cut").write_bytes(gzip.compress(shard(tmp_path / "a.tar").read_bytes()[:cut]))
    with pytest.raises(TruncatedShardError):
        numbers(stream(f"pipe:cat {tmp_path}/cut"))


@pytest.mark.parametrize("how", ["gzip", "zstd"])
@pytest.mark.parametrize("through", ["", "pipe:cat "])
def test_compressed_bytes_that_were_cut(tmp_path: Path, how: str, through: str) -> None:
    noise = np.random.Philox(key=1).random_raw(40 * 1250).tobytes()  # several of zstd's blocks of 128 KiB
    samples = [(f"k{n:04d}", {"bin": noise[n * 10_000 :][:10_000], "cls": b"%d" % n}) for n in range(40)]
    data = packed(write_shard(tmp_path / "a.tar", samples).read_bytes(), how)
    for cut in (len(data) - 1, len(data) // 2, len(data) // 3):
        (tmp_path / "cut").write_bytes(data[:cut])
        with pytest.raises(TruncatedShardError, match=r"whole"):
            numbers(stream(f"{through}{tmp_path}/cut"))
        found = numbers(stream(f"{through}{tmp_path}/cut", on_error="skip", tail="exact", batch_size=1))
        assert found == list(range(len(found)))
        assert len(found) >= 10


def test_damage_names_offset_and_the_last_good_key(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = bytearray(shard(tmp_path / "a.tar").read_bytes())
    data[5 * SIZE + 148 : 5 * SIZE + 156] = b"7777777\0"
    (tmp_path / "a.tar").write_bytes(data)
    url = str(tmp_path / "a.tar")
    with pytest.raises(ShardError, match="the last whole sample is 'k0003'") as caught:
        numbers(stream(url))
    assert (caught.value.url, caught.value.offset) == (url, 5 * SIZE)
    shard(tmp_path / "b.tar", begin=20)
    urls = [url, f"{tmp_path}/b.tar"]
    with caplog.at_level(logging.WARNING):
        with stream(urls, on_error="skip", tail="exact") as loader:
            for _ in range(3):
                assert sum([batch.cls.tolist() for batch in loader], []) == [0, 1, 2, 3, *range(20, 30)]
            assert loader.report().shards_damaged == 3
    assert caplog.text.count("skipped the rest of a shard") == 1


def test_what_is_no_tar(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_bytes(b"<html>404 not found</html>")
    with pytest.raises(NotATarError, match="<html>404"):
        numbers(stream(f"pipe:cat {tmp_path}/page.html"))
    with pytest.raises(TooFewSamplesError, match="damage skipped: a tar archive was expected"):
        numbers(stream(f"pipe:cat {tmp_path}/page.html", on_error="skip", epoch_samples=10))
    with pytest.raises(TruncatedShardError, match="empty"):
        numbers(stream("pipe:true"))


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_what_cannot_be_had_is_raised_always(tmp_path: Path, on_error: str) -> None:
    whole = shard(tmp_path / "a.tar")
    with pytest.raises(UnavailableError, match=r"status 1.*No such file"):
        numbers(stream(f"pipe:cat {whole} {tmp_path}/none", on_error=on_error))
    with pytest.raises(UnavailableError, match="status 9"):
        numbers(stream(f"pipe:sh -c 'head -c 3000 {whole}; exit 9'", on_error=on_error))
    with pytest.raises(UnavailableError, match="status 9"):
        numbers(stream(f"pipe:sh -c 'gzip -c {whole} | head -c 100; exit 9'", on_error=on_error))
    with pytest.raises(ShardMissingError):
        numbers(stream(f"{tmp_path}/{{a,b,c}}.tar", on_error=on_error))


def bad_at(path: Path, count: int, bad: Mapping[int, bytes | None]) -> Path:
    """Labels 0, 1, 2, ...; some are other bytes, or missing (None)."""
    members = []
    for n in range(count):
        members.append((f"k{n:04d}.txt", b"x"))
        if (label := bad.get(n, b"%d" % n)) is not None:
            members.append((f"k{n:04d}.cls", label))
    return write_tar(path, members)


def test_bad_samples_are_raised_with_their_place(tmp_path: Path) -> None:
    path = bad_at(tmp_path / "a.tar", 8, {3: b"cat"})
    with pytest.raises(FieldError) as caught:
        numbers(stream(path))
    assert (caught.value.url, caught.value.key, caught.value.field) == (str(path), "k0003", "cls")
    assert 'on_error="skip"' in str(caught.value)
    with pytest.raises(MissingFieldError, match="only txt"):
        numbers(stream(bad_at(tmp_path / "b.tar", 8, {3: None})))


def test_bad_samples_are_replaced_by_ones_near_them_whatever_the_threads(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = bad_at(tmp_path / "a.tar", 10, {1: b"cat", 4: None, 5: b"dog", 9: b"cow"})
    with caplog.at_level(logging.WARNING):
        loader = stream(path, on_error="skip")
        found = numbers(loader)
    assert len(found) == 10
    assert found[::2][:2] + found[6:8] == [0, 2, 6, 7]
    assert set(found) <= {0, 2, 3, 6, 7, 8}
    assert caplog.text.count("(FieldError") == caplog.text.count("(MissingFieldError") == 1
    for threads in (2, 3):
        assert numbers(stream(path, on_error="skip", threads=threads)) == found


def test_counts_of_what_was_skipped(tmp_path: Path) -> None:
    path = bad_at(tmp_path / "a.tar", 10, {1: b"cat", 4: None, 5: b"dog"})
    with stream(path, on_error="skip") as loader:
        list(loader)
        assert loader.report().skipped == {"FieldError": 2, "MissingFieldError": 1}


def test_bad_samples_do_not_change_what_else_comes(tmp_path: Path) -> None:
    whole = stream(bad_at(tmp_path / "a.tar", 40, {}), batch_size=4, shuffle=True, shuffle_bytes=9000)
    expected = numbers(whole)
    bad = dict.fromkeys((0, 7, 8, 21, 39), b"bad")
    found = numbers(
        stream(
            bad_at(tmp_path / "b" / "a.tar", 40, bad), batch_size=4, shuffle=True, shuffle_bytes=9000, on_error="skip"
        )
    )
    assert [a == b for a, b in zip(expected, found, strict=True)] == [number not in bad for number in expected]


def test_exact_leaves_bad_samples_out(tmp_path: Path) -> None:
    path = bad_at(tmp_path / "a.tar", 7, {0: b"cat", 4: None, 5: b"dog"})
    with stream(path, on_error="skip", tail="exact") as loader:
        assert [batch.cls.tolist() for batch in loader] == [[1], [2, 3], [], [6]]


def test_bad_samples_without_end(tmp_path: Path) -> None:
    path = bad_at(tmp_path / "a.tar", 200, dict.fromkeys(range(200), b"bad"))
    with pytest.raises(TooManyFailuresError, match=r"bad samples in a row.*verify"):
        numbers(stream(path, on_error="skip"))


def test_a_shard_faulty_in_single_samples(tmp_path: Path) -> None:
    path = write_tar(
        tmp_path / "a.tar", [("a.cls", b"0"), ("b.cls", b"1"), ("a.cls", b"2"), ("c.cls", b"3"), ("d.cls", b"4")]
    )
    with pytest.raises(GroupingError, match="comes back"):
        numbers(stream(f"pipe:cat {path}"))
    with stream(f"pipe:cat {path}", on_error="skip", tail="exact") as loader:
        assert [number for batch in loader for number in batch.cls.tolist()] == [0, 1, 3, 4]
        assert loader.report().skipped == {"GroupingError": 1}


def test_a_cut_picture(tmp_path: Path) -> None:
    jpegs = [picture(n) for n in range(6)]
    jpegs[2] = jpegs[2][: len(jpegs[2]) // 2]
    path = write_shard(tmp_path / "a.tar", [(f"k{n}", {"jpg": jpeg}) for n, jpeg in enumerate(jpegs)])
    options: Any = {"fields": ("jpg", "__key__"), "image": Resize((36, 48)), "batch_size": 3}
    with stream(path, **options) as loader, pytest.raises(TruncatedPictureError) as caught:
        list(loader)
    assert caught.value.key == "k2"
    with stream(path, **options, on_error="skip") as loader:
        first, _ = loader
    assert first.key == ["k0", "k1", first.key[2]]
    assert first.jpg.shape == (3, 36, 48, 3)
