"""What sets the pace of a run, from its counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loaders.bottleneck import Figures, judged

# two threads on two cores for ten seconds, always decoding
DECODING = Figures(
    seconds=10.0,
    samples=10_000,
    batches=100,
    bytes=1_000_000_000,
    wait_seconds=3.8,
    read_seconds=1.0,
    decode_seconds=18.5,
    decode_cpu_seconds=18.0,
    batch_seconds=0.5,
    plan_seconds=0.1,
    cpu_seconds=19.6,
    threads=2,
    cores=2,
    prefetch=2,
    looked_at=600,
    pixels=600 * 500 * 375.0,
    small_pixels=600 * 341 * 256.0,
    small_side=256,
)


def test_nothing_yet() -> None:
    assert judged(replace(DECODING, batches=0)).bound == "nothing"


def test_decoding_with_what_smaller_pictures_would_give() -> None:
    verdict = judged(DECODING)
    assert verdict.bound == "decode"
    part = 341 * 256 / (500 * 375)
    assert DECODING.reshard_gain == pytest.approx(20 / (19.5 * part + 0.5))
    assert str(verdict) == (
        "decode-bound: 2.0 of 2 cores busy; the consumer waited 38% of the time; "
        "a 256-pixel reshard would give about 2.1x"
    )


def test_what_was_tried_counts_more_than_what_is_estimated() -> None:
    assert judged(DECODING, tried=3.0).sentence.endswith("a 256-pixel reshard would give about 3.0x")


def test_small_pictures_are_not_to_be_made_smaller() -> None:
    for run in (replace(DECODING, small_pixels=DECODING.pixels), replace(DECODING, looked_at=0, pixels=0.0)):
        assert judged(run).bound == "decode"
        assert "reshard" not in judged(run).sentence


def test_photographs_gain_more_than_anybody_measured() -> None:
    huge = replace(DECODING, pixels=600 * 12e6)
    assert judged(huge).sentence.endswith("a 256-pixel reshard would give more than 4x")


def test_fewer_threads_than_cores() -> None:
    verdict = judged(replace(DECODING, cores=4))
    assert verdict.bound == "decode"
    assert verdict.sentence.endswith("threads=4 would use all cores")


def test_a_lock_that_is_held_and_cores_that_others_use() -> None:
    held = replace(DECODING, decode_cpu_seconds=9.0)
    assert judged(replace(held, transformed=True)).bound == "lock"
    assert "worker processes" in judged(replace(held, transformed=True)).sentence
    assert judged(held).bound == "cores"


def test_cores_that_many_small_requests_take() -> None:
    held = replace(DECODING, decode_cpu_seconds=4.0)
    few, many = judged(replace(held, requests=2_500)), judged(replace(held, requests=10_000))
    assert few.bound == many.bound == "cores"
    assert few.sentence == judged(held).sentence
    assert few.sentence.endswith("; other processes, or the training itself, use the cores")
    assert many.sentence.endswith(
        "; fetching in requests of 100 KB uses the cores, or other processes do; Reading(cache_dir=...) fetches once"
    )


def test_the_consumer() -> None:
    verdict = judged(replace(DECODING, wait_seconds=0.1, read_seconds=0.5, decode_seconds=9.0, batch_seconds=0.5))
    assert verdict.bound == "consumer"
    assert "had work 50% of it, so the loader could give about 2,000 samples a second, 2.0x" in verdict.sentence


def test_single_late_batches_do_not_make_the_loader_the_limit() -> None:
    late = replace(DECODING, wait_seconds=0.6, decode_seconds=8.0)
    verdict = judged(late)
    assert verdict.bound == "consumer"
    assert "waited 6% of the time, for single batches that came late" in verdict.sentence
    assert "Reading(prefetch=4) hides more" in verdict.sentence
    assert "had work 48% of it" in verdict.sentence
    assert (
        judged(replace(late, decode_seconds=13.0)).bound == "consumer"
    )  # 1.06x is all that faster decoding could give
    assert judged(replace(late, wait_seconds=1.2)).bound == "prefetch"
    assert judged(replace(late, decode_seconds=18.0)).bound == "decode"
    assert judged(replace(late, readers=1, read_seconds=9.0)).bound == "read"


def test_bytes_that_have_to_come() -> None:
    verdict = judged(replace(DECODING, read_seconds=12.0, decode_seconds=6.0, decode_cpu_seconds=6.0, batch_seconds=0))
    assert verdict.bound == "read"
    assert "reading took 67% of the threads' work (100 MB a second)" in verdict.sentence
    assert verdict.sentence.endswith("would give about 3.0x")
    far = replace(DECODING, read_seconds=16.0, fetch_wait_seconds=16.0, decode_seconds=3.0)
    assert judged(far).bound == "fetch"
    assert judged(far).sentence.endswith("would give more than 4x")


def test_threads_without_work() -> None:
    idle = replace(DECODING, decode_seconds=8.0)
    assert judged(idle).bound == "prefetch"
    assert "Reading(prefetch=4)" in judged(idle).sentence
    assert judged(replace(idle, plan_seconds=7.0)).bound == "plan"


def test_one_thread_reads_for_all() -> None:
    stream = replace(DECODING, readers=1, read_seconds=9.5, decode_seconds=6.0)
    assert judged(stream).bound == "read"
    assert "reads the streams was busy 95% of the time" in judged(stream).sentence
    assert judged(replace(stream, read_seconds=2.0, decode_seconds=18.0)).bound == "decode"
