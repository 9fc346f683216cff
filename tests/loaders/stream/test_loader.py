"""Batches from streams of every kind: what is in them, how long an epoch is, what is left behind."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import loaders
import loaders.torch
from loaders import RandomResizedCrop, Resize, ShardLoader, StreamLoader
from tests.builders import write_pictures, write_shard
from wds_tools.errors import LengthUnknownError, ShardError, TooFewSamplesError, UsageError

Left = Callable[[], tuple[int, set[str], int]]


def stream(urls: Any, **options: Any) -> StreamLoader:
    return StreamLoader(urls, **{"batch_size": 8, "fields": ("cls",), "threads": 2, "allow_pipe": True, **options})


def epoch_of(loader: StreamLoader) -> list[list[int]]:
    return [batch.cls.tolist() for batch in loader]


def pipes(labels: str, suffix: str = ".tar.gz") -> str:
    return f"pipe:cat {labels}/s-{{0000..0004}}{suffix}"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_pictures(tmp_path_factory.mktemp("pictures"), [20, 21, 9])


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".tar.zst"])
@pytest.mark.parametrize("through", ["{}/s-*{}", "pipe:cat {}/s-{{0000..0004}}{}"])
def test_every_sample_once_whatever_it_comes_from(labels: str, suffix: str, through: str) -> None:
    with stream(through.format(labels, suffix), tail="exact") as loader:
        batches = epoch_of(loader)
    assert sorted(sum(batches, [])) == list(range(83))
    assert [len(batch) for batch in batches] == [8] * 10 + [3]


def test_order_is_that_of_the_shards_without_shuffle(labels: str) -> None:
    with stream(f"{labels}/*.tar.gz", shuffle=False, tail="exact", batch_size=83) as loader:
        assert epoch_of(loader) == [list(range(83))]


def test_shards_are_interleaved(labels: str) -> None:
    with stream(f"{labels}/*.tar.gz", shuffle=False, interleave=3, batch_size=9) as loader:
        assert epoch_of(loader)[0] == [0, 17, 57, 1, 18, 58, 2, 19, 59]


def test_a_seed_decides_the_order_whatever_the_threads(labels: str) -> None:
    with stream(pipes(labels), threads=1) as one, stream(f"{labels}/*.tar.zst", threads=3, prefetch=4) as other:
        first, second = epoch_of(one), epoch_of(one)
        assert [first, second] == [epoch_of(other), epoch_of(other)]
    assert first != second
    with stream(pipes(labels), seed=1) as other:
        assert epoch_of(other) != first
        other.set_epoch(0)
        again = epoch_of(other)
        other.set_epoch(0)
        assert epoch_of(other) == again


def test_pictures_are_those_of_the_shard_loader(pictures: str) -> None:
    options: Any = {"batch_size": 10, "image": Resize((36, 48)), "shuffle": False, "threads": 2}
    with ShardLoader(pictures, **options) as plain, StreamLoader(f"{pictures}/*.tar", **options) as loader:
        for batch, expected in zip(loader, plain, strict=True):
            assert type(batch)._fields == ("jpg", "cls")
            assert np.array_equal(batch.jpg, expected.jpg)
            assert batch.cls.tolist() == expected.cls.tolist()


def test_crops_are_repeatable_and_differ_by_epoch(pictures: str) -> None:
    options: Any = {"batch_size": 25, "image": RandomResizedCrop(24), "shuffle": False}
    with StreamLoader(pictures, threads=1, **options) as one, StreamLoader(pictures, threads=3, **options) as other:
        first = [batch.jpg for batch in one]
        assert all(np.array_equal(a, b.jpg) for a, b in zip(first, other, strict=True))
        assert not np.array_equal(first[0], next(iter(one)).jpg)


def test_transform_and_collate(labels: str) -> None:
    def doubled(sample: dict[str, Any]) -> dict[str, Any]:
        return {"__key__": sample["__key__"], "twice": 2 * sample["cls"]}

    with stream(f"{labels}/*.tar.gz", transform=doubled, shuffle=False) as loader:
        assert next(iter(loader)).twice.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    with stream(f"{labels}/*.tar.gz", collate=lambda rows: [row["cls"] for row in rows], shuffle=False) as loader:
        assert next(iter(loader)) == [0, 1, 2, 3, 4, 5, 6, 7]


def test_torch_batches(pictures: str) -> None:
    options: Any = {"batch_size": 8, "image": RandomResizedCrop((24, 32))}
    with loaders.torch.StreamLoader(pictures, **options) as ours, StreamLoader(pictures, **options) as arrays:
        for (images, numbers), expected in zip(loaders.torch.to_device(ours, "cpu"), arrays, strict=True):
            assert (images.dtype, tuple(images.shape)) == (torch.uint8, (8, 3, 24, 32))
            assert np.array_equal(images.permute(0, 2, 3, 1).numpy(), expected.jpg)
            assert numbers.tolist() == expected.cls.tolist()


@pytest.mark.parametrize("epoch_samples", [8, 50, 83, 200])
def test_the_length_is_the_one_stated(labels: str, epoch_samples: int) -> None:
    with stream(f"{labels}/*.tar.gz", epoch_samples=epoch_samples) as loader:
        assert len(loader) == epoch_samples // 8
        for _ in range(2):
            assert [len(batch) for batch in epoch_of(loader)] == [8] * len(loader)


def test_an_unknown_length_is_no_number(labels: str) -> None:
    with stream(f"{labels}/*.tar.gz") as loader:
        with pytest.raises(LengthUnknownError, match="epoch_samples="):
            len(loader)
        with pytest.raises(TypeError):
            len(loader)
        assert len(list(loader)) == 10


def test_no_sample_comes_again_before_all_have_come(labels: str) -> None:
    with stream(f"{labels}/*.tar.gz", epoch_samples=83, batch_size=83) as loader:
        assert sorted(epoch_of(loader)[0]) == list(range(83))
        assert loader.report().shards_again == 0
    with stream(f"{labels}/*.tar.gz", epoch_samples=166, batch_size=83) as loader:
        first, second = epoch_of(loader)
        assert sorted(first) == sorted(second) == list(range(83))
        assert first != second
        report = loader.report()
        assert (report.shards_opened, report.shards_again) == (10, 5)
        assert "5 of them again" in str(report)


@pytest.mark.parametrize("limit", [600, 5_000, 20_000, 1 << 20])
def test_the_buffer_holds_no_more_than_its_bytes(labels: str, limit: int) -> None:
    with stream(f"{labels}/*.tar.gz", shuffle_bytes=limit, tail="exact") as loader:
        batches = epoch_of(loader)
        peak = loader.report().buffer_bytes
    assert sorted(sum(batches, [])) == list(range(83))
    assert 0 < peak <= limit
    assert peak > min(limit, 83 * 500) - 520  # and it is used


def test_only_the_wanted_fields_are_held(tmp_path: Path) -> None:
    write_shard(tmp_path / "a.tar", [(str(i), {"cls": b"%d" % i, "bin": bytes(100_000)}) for i in range(50)])
    with stream(tmp_path, batch_size=50) as loader:
        epoch_of(loader)
        assert loader.report().buffer_bytes < 50 * 1000


def test_fewer_samples_than_a_batch(labels: str) -> None:
    with stream(f"{labels}/s-0002.tar.gz") as loader, pytest.raises(TooFewSamplesError, match=r"3 samples.*exact"):
        next(iter(loader))
    with stream(f"{labels}/s-0003.tar.gz", epoch_samples=8) as loader, pytest.raises(TooFewSamplesError, match="none"):
        next(iter(loader))


def test_an_epoch_leaves_nothing_behind(labels: str, left_behind: Left) -> None:
    before = left_behind()
    loader = stream(pipes(labels))
    for _ in range(3):
        epoch_of(loader)
        assert left_behind() == before


@pytest.mark.long
def test_nothing_piles_up_over_fifty_shards_broken_off_after_one_sample(labels: str, left_behind: Left) -> None:
    before = left_behind()
    loader = stream(pipes(labels), batch_size=1, prefetch=1)
    for _ in range(10):  # five shards each
        for _batch in loader:
            assert left_behind()[2] <= before[2] + 5
            break
        assert left_behind() == before
    assert loader.report().shards_opened == 50


@pytest.mark.parametrize("end", ["close", "drop", "exception", "iterate"])
def test_any_other_end_leaves_nothing_behind_either(labels: str, left_behind: Left, end: str) -> None:
    before = left_behind()
    urls = [f"pipe:sh -c 'cat $0; sleep 300' {labels}/s-0001.tar", f"{labels}/s-0000.tar.gz"]
    loader = stream(urls, shuffle=False, interleave=2)
    batches = iter(loader)
    next(batches)
    assert left_behind()[2] == before[2] + 1
    if end == "close":
        loader.close()
    elif end == "exception":
        with pytest.raises(ZeroDivisionError):
            batches.throw(ZeroDivisionError)  # type: ignore[attr-defined]
    elif end == "iterate":
        again = iter(loader)
        next(again)
        with pytest.raises(UsageError, match="one iteration at a time"):
            next(batches)
        assert left_behind()[2] == before[2] + 1
        again.close()  # type: ignore[attr-defined]
    if end == "drop":
        del loader, batches
        gc.collect()
    assert left_behind() == before


@pytest.mark.long
def test_at_most_one_child_for_each_open_shard(labels: str, left_behind: Left) -> None:
    before = left_behind()
    with stream(pipes(labels), interleave=2, batch_size=2) as loader:
        for _ in loader:
            assert left_behind()[2] <= before[2] + 2


def test_a_program_that_just_ends_leaves_no_command(labels: str, tmp_path: Path) -> None:
    code = f"""
import loaders
loader = loaders.StreamLoader("pipe:sh -c 'echo $$ > {tmp_path}/pid; cat {labels}/s-0001.tar; exec sleep 300'",
    batch_size=8, fields=("cls",), allow_pipe=True, shuffle=False)
kept = iter(loader)
next(kept)
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    pid = int((tmp_path / "pid").read_text())
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        state = "gone"
    assert state in ("gone", "Z", "X")


def test_standard_input(labels: str) -> None:
    code = """
import loaders
loader = loaders.StreamLoader("-", batch_size=40, fields=("cls",), shuffle=False, epoch_samples=%s)
print([batch.cls.tolist() for batch in loader])
try:
    next(iter(loader))
except loaders.stream.loader.UsageError as error:
    print(error)
"""
    data = Path(f"{labels}/s-0001.tar.gz").read_bytes()
    for length in (None, 40):
        done = subprocess.run(
            [sys.executable, "-c", code % length], input=data, check=False, capture_output=True, timeout=60
        )
        numbers, refused = done.stdout.decode().splitlines()
        assert numbers == str([list(range(17, 57))])
        assert "cannot be read again" in refused
    done = subprocess.run([sys.executable, "-c", code % 80], input=data, check=False, capture_output=True, timeout=60)
    assert b"the streams ended after 40 samples, epoch_samples is 80" in done.stderr


def test_a_terminal_that_stays_silent_can_be_left(labels: str) -> None:
    code = """
import loaders, threading
loader = loaders.StreamLoader("-", batch_size=1, fields=("cls",))
waiting = threading.Thread(target=lambda: next(iter(loader), None), daemon=True)
waiting.start()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as process:
        assert process.wait(60) == 0


def test_batches_belong_to_the_caller(pictures: str) -> None:
    with StreamLoader(pictures, batch_size=5, image=RandomResizedCrop(24)) as loader:
        kept = [batch.jpg for batch in loader]
        copies = [images.copy() for images in kept]
        list(loader)
        assert all(np.array_equal(a, b) for a, b in zip(kept, copies, strict=True))


def test_a_loader_that_was_not_begun_travels_to_another_process(labels: str) -> None:
    loader = stream(pipes(labels))
    with pickle.loads(pickle.dumps(loader)) as other:
        assert epoch_of(other) == epoch_of(loader)
    assert "s-{0000..0004}" in repr(loader)


def test_shards_that_cannot_be_indexed_lead_here(labels: str) -> None:
    with pytest.raises(ShardError, match=r"cannot be indexed.*StreamLoader"):
        len(ShardLoader(f"{labels}/*.tar.gz", batch_size=8))
    with pytest.raises(UsageError, match=r"StreamLoader\(..., allow_pipe=True\)"):
        len(ShardLoader("pipe:cat a.tar", batch_size=8))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"shuffle_bytes": 0}, "shuffle_bytes is 0"),
        ({"interleave": 0}, "interleave is 0"),
        ({"epoch_samples": 0}, "epoch_samples is 0"),
        ({"threads": 0}, "threads is 0"),
        ({"threads": "2"}, "threads is '2', expected a whole number"),
        ({"shuffle": "yes"}, "shuffle is 'yes', expected True or False"),
        ({"prefetch": 0}, "prefetch is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"tail": "pad"}, "tail is 'pad'"),
        ({"tail": "exact", "epoch_samples": 8}, "exact"),
        ({"on_error": "warn"}, "on_error is 'warn'"),
        ({"rank": 0}, "only one of rank and world_size"),
        ({"fields": ()}, "fields is"),
    ],
)
def test_arguments_that_cannot_be(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        stream("x.tar", **options)


def test_no_more_is_read_than_a_few_batches_ahead(labels: str) -> None:
    with stream(f"{labels}/*.tar.gz", batch_size=1, prefetch=2, shuffle=False) as loader:
        for number, _ in enumerate(loader):
            if number == 12:  # two ahead, and one to know the last: 16 of the first shard's 17 samples
                break
        assert loader.report().shards_opened == 1


def test_who_waits_is_told_that_another_thread_closed(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    raised: list[BaseException] = []

    def iterate() -> None:
        try:
            next(iter(loader))
        except BaseException as error:  # noqa: BLE001 - looked at below
            raised.append(error)

    with stream(f"pipe:cat {fifo}") as loader:
        consumer = threading.Thread(target=iterate)
        consumer.start()
        with fifo.open("wb"):  # when cat has opened its end, which gets no byte
            loader.close()
            consumer.join(30)
    assert [type(error) for error in raised] == [UsageError]
    assert "closed" in str(raised[0])
