from __future__ import annotations

import gc
import gzip
import logging
import os
from pathlib import Path

import pytest
import webdataset

import loaders
from tests.builders import write_shard, write_tar
from wds_tools.errors import (
    GroupingError,
    HeaderError,
    NoShardsError,
    NotATarError,
    ShardMissingError,
    TruncatedShardError,
    UsageError,
)


def _shards(folder: Path, counts: list[int]) -> list[Path]:
    return [
        write_shard(
            folder / f"s-{at:03d}.tar",
            [(f"{at}/{i:04d}", {"jpg": bytes([i % 256]) * 6000, "cls": b"%d" % i}) for i in range(count)],
        )
        for at, count in enumerate(counts)
    ]


def _keys(urls: object, **options: object) -> list[str]:
    return [sample["__key__"] for sample in loaders.samples(urls, **options)]  # type: ignore[arg-type]


def _descriptors() -> int:
    gc.collect()  # what earlier tests left to the collector is none of this one's
    return len(os.listdir("/proc/self/fd"))


def test_samples_of_all_shards_come_in_order(tmp_path: Path) -> None:
    _shards(tmp_path, [3, 0, 2])
    expected = ["0/0000", "0/0001", "0/0002", "2/0000", "2/0001"]
    assert _keys(str(tmp_path / "s-{000..002}.tar")) == expected
    assert _keys(tmp_path) == expected
    assert _keys([tmp_path / "s-002.tar", tmp_path / "s-000.tar"]) == expected[3:] + expected[:3]


def test_samples_are_those_of_webdataset(tmp_path: Path) -> None:
    (path,) = _shards(tmp_path, [20])
    ours = [
        {name: value if isinstance(value, str) else bytes(value) for name, value in sample.items()}
        for sample in loaders.samples(path)
    ]
    with path.open("rb") as stream:
        members = webdataset.tariterators.tar_file_expander([{"url": str(path), "stream": stream}])
        assert ours == list(webdataset.tariterators.group_by_keys(members))


def test_compressed_shards_are_read(tmp_path: Path) -> None:
    (path,) = _shards(tmp_path, [4])
    (tmp_path / "z.tar.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert _keys(tmp_path / "z.tar.gz") == _keys(path)


def test_no_shards_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(NoShardsError):
        loaders.samples(str(tmp_path / "*.tar"))


def test_an_unknown_policy_is_an_error_at_once(tmp_path: Path) -> None:
    _shards(tmp_path, [1])
    with pytest.raises(UsageError, match="'ignore'"):
        loaders.samples(tmp_path, on_error="ignore")  # type: ignore[arg-type]


def test_a_damaged_shard_is_an_error_after_its_good_samples(tmp_path: Path) -> None:
    first, *_ = _shards(tmp_path, [5, 2])
    first.write_bytes(first.read_bytes()[:-20_000])
    found = []
    with pytest.raises(TruncatedShardError, match="last whole sample is '0/000") as caught:
        for sample in loaders.samples(tmp_path):
            found.append(sample["__key__"])
    assert found == ["0/0000", "0/0001", "0/0002"][: len(found)]
    assert caught.value.url == str(first)


@pytest.mark.parametrize(
    ("damage", "error", "kept"),
    [
        (lambda content: content[:16_000], TruncatedShardError, 2),
        (lambda content: content[:7680] + b"\xff" + content[7681:], HeaderError, 0),
        (lambda _: b"<html>404</html>", NotATarError, 0),
        (lambda _: b"", TruncatedShardError, 0),
    ],
)
def test_skipping_goes_on_with_the_next_shard_and_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: object, error: type[Exception], kept: int
) -> None:
    bad, *_ = _shards(tmp_path, [5, 2])
    bad.write_bytes(damage(bad.read_bytes()))  # type: ignore[operator]
    samples = loaders.samples(tmp_path, on_error="skip")
    keys = [sample["__key__"] for sample in samples]
    assert keys == [*(f"0/{i:04d}" for i in range(kept)), "1/0000", "1/0001"]
    assert samples.skipped == {error.__name__: 1}
    (line,) = caplog.messages
    assert str(bad) in line


def test_skipping_leaves_out_a_bad_sample_and_keeps_its_neighbours(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = ["a.jpg", "b.jpg", "b.JPG", "c.jpg", "a.cls", "d.jpg"]
    write_tar(tmp_path / "s.tar", [(name, b"x") for name in names])
    samples = loaders.samples(tmp_path, on_error="skip")
    assert [sample["__key__"] for sample in samples] == ["a", "c", "d"]
    assert samples.skipped == {"GroupingError": 2}
    (line,) = caplog.messages
    assert "2 samples left out" in line
    with pytest.raises(GroupingError):
        _keys(tmp_path)


def test_what_cannot_be_had_is_never_skipped(tmp_path: Path) -> None:
    first, second = _shards(tmp_path, [1, 1])
    samples = loaders.samples([first, second], on_error="skip")
    second.unlink()
    assert next(samples)["__key__"] == "0/0000"
    with pytest.raises(ShardMissingError):
        next(samples)


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    shards = _shards(tmp_path, [3] * 40)
    before = _descriptors()
    _keys(tmp_path)
    assert _descriptors() == before
    with loaders.samples(tmp_path) as samples:
        next(samples)
        assert _descriptors() == before + 1
    assert _descriptors() == before
    stopped = loaders.samples(tmp_path)
    next(stopped)
    del stopped
    assert _descriptors() == before
    shards[0].write_bytes(b"x" * 1000)
    with pytest.raises(NotATarError):
        _keys(tmp_path)
    assert _descriptors() == before


def test_closing_ends_iteration_and_may_be_repeated(tmp_path: Path) -> None:
    _shards(tmp_path, [3])
    samples = loaders.samples(tmp_path)
    next(samples)
    samples.close()
    samples.close()
    assert list(samples) == []


def test_a_sound_dataset_logs_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _shards(tmp_path, [3])
    with caplog.at_level(logging.DEBUG, logger="wds_tools"):
        _keys(tmp_path)
    assert caplog.messages == []
