"""Mixes: exact proportions, every part exactly once per own epoch, any world size, resume anywhere, real shards."""

from __future__ import annotations

import itertools
import json
import math
import pickle
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loaders
from loaders import ShardLoader, mix
from loaders.mix import slots_of
from loaders.mixed import FEW_PLACES, MixedPlan, part_seed
from loaders.plan import Plan, share
from loaders.selection import AnyPlan
from tests.builders import write_labels, write_shard
from wds_tools.errors import StateError, UsageError

WORLDS = (1, 2, 3, 4, 6, 7, 8)


def mixed_plan(
    samples: list[int], slots: list[int], *, groups: int = 2, length: int | None = None, **options: Any
) -> MixedPlan:
    """A mix of parts with these numbers of samples, each in two shards; `groups` times as many lanes as slots."""
    lanes, seed = groups * sum(slots), options.get("seed", 0)
    counts = [np.array([count // 3, count - count // 3], dtype=np.int64) for count in samples]
    parts = [
        Plan(counts=each, sizes=each * 1000, seed=part_seed(seed, number), lanes=lanes, block=1 + number)
        for number, each in enumerate(counts)
    ]
    return MixedPlan(
        parts=tuple(parts),
        firsts=tuple(np.cumsum([0, *samples[:-1]]).tolist()),
        slots=tuple(slots),
        names=tuple(map(str, range(len(samples)))),
        weights=tuple(own / sum(slots) for own in slots),
        samples=length or -(-samples[0] * sum(slots) // slots[0]),
        lanes=lanes,
        block=1,
        **{"seed": seed, "tail": "exact", **options},
    )


@st.composite
def plans(draw: st.DrawFn, *, small: bool | None = None) -> MixedPlan:
    """Mixes of parts that are taken in turn (small), by lanes, or some of each."""
    slots = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    groups = draw(st.integers(1, 3))
    least = FEW_PLACES * groups * sum(slots)
    sizes = st.integers(1, min(60, least - 1)) if small else st.integers(least, least + 40)
    if small is None:
        sizes |= st.integers(1, 60)
    return mixed_plan(
        draw(st.lists(sizes, min_size=len(slots), max_size=len(slots))),
        slots,
        groups=groups,
        length=draw(st.integers(1, 120)),
        seed=draw(st.integers(0, 2**64 - 1)),
        tail=draw(st.sampled_from(["drop", "pad", "exact"])),
    )


def everything(plan: MixedPlan, epoch: int = 0) -> list[int]:
    samples: list[int] = plan.epoch(epoch).samples(np.arange(plan.samples)).tolist()
    return samples


def all_of(plan: AnyPlan) -> Any:
    return np.arange(plan.samples)


def parts_of(plan: MixedPlan, samples: Any) -> Any:
    return np.searchsorted(plan.firsts, samples, side="right") - 1


def the_run(plan: MixedPlan, epochs: int) -> list[int]:
    return [sample for epoch in range(epochs) for sample in everything(plan, epoch)]


# Proportions


@given(plan=plans())
def test_every_m_consecutive_places_of_a_lane_are_exact_through_the_whole_run(plan: MixedPlan) -> None:
    parts = parts_of(plan, the_run(plan, 2 + 2 * plan.lanes * plan.total // plan.samples))
    for lane in range(plan.lanes):
        own = parts[lane :: plan.lanes]
        assert len(own) >= plan.total
        for part, slots in enumerate(plan.slots):
            windows = np.lib.stride_tricks.sliding_window_view(own == part, plan.total)
            assert (windows.sum(axis=1) == slots).all()


@given(plan=plans())
def test_every_m_positions_side_by_side_are_exact(plan: MixedPlan) -> None:
    run = parts_of(plan, the_run(plan, 3))
    for begin in range(0, len(run) - plan.total + 1, plan.total):
        assert np.bincount(run[begin : begin + plan.total], minlength=len(plan.slots)).tolist() == list(plan.slots)


@given(plan=plans(), epoch=st.integers(0, 10**6))
def test_the_part_of_a_position_is_the_part_of_its_sample(plan: MixedPlan, epoch: int) -> None:
    positions = np.arange(plan.samples)
    assert plan.epoch(epoch).parts(positions).tolist() == parts_of(plan, everything(plan, epoch)).tolist()


@pytest.mark.parametrize("world_size", [2, 4, 6, 8])
def test_every_rank_sees_every_part(world_size: int) -> None:
    # Plain shifts, T[(q + l) mod M], would make whole batches of a rank of one part.
    plan = mixed_plan([10_000, 10_000], [1, 1], groups=480, length=16_000)
    parts = plan.epoch(0).parts(np.arange(16_000))
    for rank in range(world_size):
        own = parts[rank::world_size]
        batches = own[: len(own) // 32 * 32].reshape(-1, 32).mean(axis=1)
        assert 0.15 < batches.min() <= batches.max() < 0.85


# The parts' own epochs


@given(plan=plans(small=True), epochs=st.integers(1, 4))
def test_a_small_part_is_its_own_epochs_end_to_end(plan: MixedPlan, epochs: int) -> None:
    run = np.array(the_run(plan, epochs))
    for part, (first, own) in enumerate(zip(plan.firsts, plan.parts, strict=True)):
        mine = (run[parts_of(plan, run) == part] - first).tolist()
        expected = [n for e in range(len(mine) // own.samples + 1) for n in own.epoch(e).samples(all_of(own)).tolist()]
        assert mine == expected[: len(mine)]


@given(plan=plans(small=False), begin=st.integers(0, 5), epochs=st.integers(1, 4))
def test_each_lane_of_a_large_part_takes_its_turns_of_own_epochs(plan: MixedPlan, begin: int, epochs: int) -> None:
    run = np.array(the_run(plan, epochs))
    of_part = parts_of(plan, run)
    for part, (first, own) in enumerate(zip(plan.firsts, plan.parts, strict=True)):
        whole = [n for e in range(len(run) // own.samples + 2) for n in own.epoch(e).samples(all_of(own)).tolist()]
        for lane in range(plan.lanes):
            mine = (run[lane :: plan.lanes][of_part[lane :: plan.lanes] == part] - first).tolist()
            assert mine == whole[lane :: plan.lanes][: len(mine)]


def test_large_parts_come_once_per_own_epoch_and_lanes_stay_together() -> None:
    plan = mixed_plan([900, 700], [3, 2], groups=2, length=1000)
    run = np.array(the_run(plan, 12))
    counts = np.bincount(run, minlength=1600)
    for first, part, taken in ((0, 900, 12_000 * 3 // 5), (900, 700, 12_000 * 2 // 5)):
        mine = counts[first : first + part]
        assert mine.sum() == taken
        even = taken // part
        # Only samples of the last places of each lane may be one off.
        assert set(mine.tolist()) <= {even - 1, even, even + 1, even + 2}
        assert (np.abs(mine - taken / part) >= 1).mean() < 2 * plan.lanes * 3 / part


@given(plan=plans(), epoch=st.integers(0, 50), data=st.data())
def test_progress_counts_what_was_taken(plan: MixedPlan, epoch: int, data: st.DataObject) -> None:
    epoch = min(epoch, 5)
    position = data.draw(st.integers(0, plan.samples))
    run = parts_of(plan, np.array([*the_run(plan, epoch), *everything(plan, epoch)[:position]], dtype=np.int64))
    for part, progress in enumerate(plan.progress(epoch, position)):
        assert progress.taken == int((run == part).sum())
        assert progress.repeats == max(0, progress.taken - plan.parts[part].samples)


# As elastic and resumable as one dataset


@given(plan=plans(), epoch=st.integers(0, 3), data=st.data())
def test_a_position_has_one_sample_however_it_is_asked_for(plan: MixedPlan, epoch: int, data: st.DataObject) -> None:
    order, whole = plan.epoch(epoch), np.array(everything(replace(plan), epoch), dtype=np.int64)
    for _ in range(3):
        asked = np.array(data.draw(st.lists(st.integers(0, plan.samples - 1), max_size=30)), dtype=np.int64)
        assert order.samples(asked).tolist() == whole[asked].tolist()
    again = pickle.loads(pickle.dumps(plan))
    assert everything(again, epoch) == whole.tolist()


@given(plan=plans(), batch_size=st.integers(1, 5), epoch=st.integers(0, 2), data=st.data())
def test_global_batches_do_not_depend_on_the_world_size(
    plan: MixedPlan, batch_size: int, epoch: int, data: st.DataObject
) -> None:
    size = 168 * batch_size  # divided by every one of the world sizes
    position = data.draw(st.integers(0, max(0, plan.samples - 1)))
    order = plan.epoch(epoch)

    def batch(world_size: int) -> list[int]:
        options: Any = {"samples": plan.samples, "world_size": world_size, "batch_size": size // world_size}
        ranks = [share(position, rank=r, shuffle=True, tail=plan.tail, **options)[0] for r in range(world_size)]
        return sorted(sample for mine in ranks for sample in order.samples(mine % plan.samples).tolist())

    assert len({tuple(batch(world_size)) for world_size in WORLDS}) == 1


@given(plan=plans(), step=st.integers(1, 50))
def test_what_is_announced_covers_what_is_read(plan: MixedPlan, step: int) -> None:
    announced: set[int] = set()
    for epoch in range(2):
        order = plan.epoch(epoch)
        for begin in range(0, plan.samples, step):
            positions = np.arange(begin, min(begin + step, plan.samples))
            firsts, lengths = order.runs(positions)
            announced.update(n for f, k in zip(firsts.tolist(), lengths.tolist(), strict=True) for n in range(f, f + k))
            assert announced.issuperset(order.samples(positions).tolist())


@given(plan=plans(), epoch=st.integers(0, 2), data=st.data())
def test_replacements_are_of_the_same_part_first_and_reach_everything(
    plan: MixedPlan, epoch: int, data: st.DataObject
) -> None:
    position = data.draw(st.integers(0, plan.samples - 1))
    order = plan.epoch(epoch)
    tried = list(order.replacements(position))
    assert sorted([position, *tried]) == list(range(plan.samples))
    parts = order.parts(np.arange(plan.samples))
    same = [parts[other] == parts[position] for other in tried]
    assert same == sorted(same, reverse=True)


def test_epochs_and_seeds_differ_and_repeat() -> None:
    plan = mixed_plan([100, 40], [3, 1])
    epochs = [tuple(everything(each, epoch)) for each in (plan, replace(plan, seed=1)) for epoch in range(3)]
    assert len(set(epochs)) == 6
    assert epochs == [tuple(everything(each, epoch)) for each in (plan, replace(plan, seed=1)) for epoch in range(3)]


def test_the_order_is_pinned() -> None:
    # A change here would make every saved state go on elsewhere.
    assert everything(mixed_plan([9, 5], [2, 1], seed=3), 1) == [3, 9, 7, 6, 12, 0, 1, 2, 5, 13, 8, 4, 11, 4]


# Slots


@given(weights=st.lists(st.floats(0.01, 1), min_size=1, max_size=6), lanes=st.sampled_from([960, 240, 96, 60]))
def test_slots_meet_the_weights_as_well_as_lanes_allow(weights: list[float], lanes: int) -> None:
    exact = [weight / sum(weights) for weight in weights]
    try:
        found = slots_of(weights, lanes)
    except UsageError:
        assert min(exact) < 1 / lanes
        return
    assert lanes % found.total == 0
    assert min(found.counts) >= 1
    for count, want in zip(found.counts, exact, strict=True):
        assert abs(count / found.total / want - 1) <= found.error + 1e-6
    assert found.error <= max(0.005, 1 / (lanes * min(exact))) + 1e-6


@pytest.mark.parametrize(
    ("weights", "counts"),
    [
        ([1], (1,)),
        ([0.5, 0.5], (1, 1)),
        ([0.7, 0.3], (7, 3)),
        ([0.1, 0.2, 0.7], (1, 2, 7)),
        ([1, 2], (1, 2)),
        ([1 / 3, 1 / 3, 1 / 3], (1, 1, 1)),
        ([1_281_167, 50_000], (77, 3)),
    ],
)
def test_slots_are_the_fewest_that_do(weights: list[float], counts: tuple[int, ...]) -> None:
    assert slots_of(weights, 960).counts == counts


def test_too_few_lanes_are_said_with_the_cure() -> None:
    with pytest.raises(UsageError, match=r"smallest share, 0\.020%.*lanes=5000 or more"):
        slots_of([0.9998, 0.0002], 960)
    assert slots_of([0.9998, 0.0002], 5000).counts == (4999, 1)


# Real shards


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, str]:
    """`cls` of the second is told from the first by 1,000, that of the third by 2,000."""
    root = tmp_path_factory.mktemp("parts")
    write_labels(root / "a", [17, 40, 3, 0, 23])
    for name, base, counts in (("b", 1000, [11, 20]), ("c", 2000, [5])):
        numbers = iter(range(base, base + sum(counts)))
        for shard, count in enumerate(counts):
            samples = [(str(number), {"cls": str(number).encode()}) for number in itertools.islice(numbers, count)]
            write_shard(root / name / f"{shard}.tar", samples)
    return str(root / "a"), str(root / "b"), str(root / "c")


def loader_of(urls: Any, **options: Any) -> ShardLoader:
    return ShardLoader(urls, **{"batch_size": 12, "fields": ("cls",), "threads": 2, "lanes": 12, **options})


def epoch_of(loader: ShardLoader) -> list[list[int]]:
    return [batch.cls.tolist() for batch in loader]


def test_a_mix_of_real_shards(folders: tuple[str, str, str]) -> None:
    a, b, _ = folders
    with loader_of(mix([(a, 3), (b, 1)], stop="first")) as loader:
        assert len(loader) == -(-83 * 4 // 3) // 12
        first, second = epoch_of(loader), epoch_of(loader)
        assert [sum(n < 1000 for n in batch) for batch in first] == [9] * 9
        assert first != second
        report = loader.report()
    (of_a, of_b) = report.parts
    assert (of_a.name, of_a.share, of_a.samples) == (a, 0.75, 83)
    assert of_b.taken == 2 * 111 // 4 + (2 * 111 % 4 > 0) or of_b.taken == 2 * 111 // 4
    assert of_b.repeats == of_b.taken - 31
    assert f"{b}: 25.00%" in str(report)


def test_what_one_epoch_leaves_the_next_begins_with(folders: tuple[str, str, str]) -> None:
    a, b, _ = folders
    with loader_of(mix([(a, 1), (b, 1)], stop=24), tail="exact") as loader:
        taken = Counter(n for _ in range(7) for batch in epoch_of(loader) for n in batch)
    assert {taken[n] for n in range(83)} == {1, 2}
    assert sum(taken[n] for n in range(83)) == 84
    assert {taken[n] for n in range(1000, 1031)} == {2, 3}


@pytest.mark.parametrize(
    ("stop", "length"),
    [("first", math.ceil(31 * 2 / 1)), ("all", 166), (50, 50), (1000, 1000)],
)
def test_where_an_epoch_ends(folders: tuple[str, str, str], stop: Any, length: int) -> None:
    a, b, _ = folders
    with loader_of(mix([(a, 1), (b, 1)], stop=stop), tail="exact") as loader:
        batches = epoch_of(loader)
        assert sum(map(len, batches)) == length
        assert len(batches) == len(loader) == -(-length // 12)


@pytest.mark.parametrize("lanes", [12, 960])
def test_all_means_that_nothing_of_any_part_is_left(folders: tuple[str, str, str], lanes: int) -> None:
    with loader_of(mix([(urls, 1) for urls in folders], stop="all"), tail="exact", lanes=lanes) as loader:
        seen = Counter(n for batch in epoch_of(loader) for n in batch)
    assert {seen[n] for n in range(83)} == {1}
    assert {seen[n] for n in range(1000, 1031)} == {2, 3}
    assert {seen[n] for n in range(2000, 2005)} == {16, 17}


@pytest.mark.parametrize("lanes", [6, 7, 960])
def test_a_mix_of_one_is_that_dataset(folders: tuple[str, str, str], lanes: int) -> None:
    with (
        loader_of(folders[0], lanes=lanes, tail="pad") as plain,
        loader_of(mix([(folders[0], 5)]), lanes=lanes, tail="pad") as mixed,
    ):
        for _ in range(4):
            assert epoch_of(mixed) == epoch_of(plain)


@pytest.mark.parametrize("tail", ["drop", "pad", "exact"])
@pytest.mark.parametrize("stop", ["first", "all", 100])
def test_a_run_goes_on_from_every_batch_at_any_world_size(folders: tuple[str, str, str], stop: Any, tail: Any) -> None:
    urls = mix([(folders[0], 0.5), (folders[1], 0.3), (folders[2], 0.2)], stop=stop)
    options: Any = {"tail": tail, "lanes": 20}
    with loader_of(urls, **options) as loader:
        per_epoch, states, whole = len(loader), [json.dumps(loader.state_dict())], []
        for _ in range(2):
            for batch in loader:
                whole.append(sorted(batch.cls.tolist()))
                states.append(json.dumps(loader.state_dict()))
    assert max(map(len, states)) < 400
    for done, state in enumerate(states[:-1]):
        world_size = (1, 2, 3, 4, 6)[done % 5]
        left = min(2, per_epoch - done % per_epoch)
        ranks = []
        for rank in range(world_size):
            with loader_of(
                urls, batch_size=None, global_batch_size=12, rank=rank, world_size=world_size, threads=1, **options
            ) as loader:
                loader.load_state_dict(json.loads(state))
                loader.set_epoch(done // per_epoch)
                iterator = iter(loader)
                ranks.append([next(iterator).cls.tolist() for _ in range(left)])
        assert [sorted(sum(batch, [])) for batch in zip(*ranks, strict=True)] == whole[done : done + left]


def test_another_mix_is_refused_with_what_changed(folders: tuple[str, str, str]) -> None:
    a, b, c = folders
    with loader_of(mix([(a, 1), (b, 1)], stop=100)) as loader:
        state = loader.state_dict()
    for other in (mix([(a, 1), (b, 2)], stop=100), mix([(a, 1), (b, 1)], stop=101), mix([(a, 1), (c, 1)], stop=100)):
        with loader_of(other) as loader, pytest.raises(StateError, match="fingerprint"):
            loader.load_state_dict(state)
    with loader_of(mix([(a, 50), (b, 50)], stop=100), lanes=None) as loader:
        loader.load_state_dict(state)
        assert loader.plan.lanes == 12


def test_bad_samples_are_replaced_within_their_part(folders: tuple[str, str, str], tmp_path: Path) -> None:
    bad, listed = {4, 7, 20}, tmp_path / "quarantine.jsonl"
    samples = [(str(n), {"cls": b"bad" if n in bad else str(3000 + n).encode()}) for n in range(30)]
    write_shard(tmp_path / "d" / "d.tar", samples)
    parts = [(folders[0], 2), (str(tmp_path / "d"), 1)]

    def global_batches(world_size: int, **options: Any) -> list[list[int]]:
        ranks = []
        for rank in range(world_size):
            with loader_of(
                mix(parts), batch_size=12 // world_size, rank=rank, world_size=world_size, **options
            ) as loader:
                ranks.append(epoch_of(loader))
        return [sorted(sum(batch, [])) for batch in zip(*ranks, strict=True)]

    first = global_batches(1, on_error="skip", quarantine=listed)
    assert [sum(n >= 3000 for n in batch) for batch in first] == [4] * 7
    assert not {n for batch in first for n in batch} & {3000 + n for n in bad}
    for world_size in (2, 3, 4):
        assert global_batches(world_size, on_error="skip") == first
    assert global_batches(1, exclude=listed) == first
    assert {json.loads(line)["sample"] for line in listed.read_text().splitlines()} <= {83 + n for n in bad}
    with loader_of(mix([(parts[0][0], 1), (parts[1][0], 1)]), exclude=listed, on_error="skip") as loader:
        list(loader)  # the list is of the data, not of the weights


def test_the_same_shards_may_be_in_two_parts(folders: tuple[str, str, str]) -> None:
    with loader_of(mix([(folders[2], 1), (folders[2], 1)], stop=20), batch_size=20) as loader:
        (batch,) = epoch_of(loader)
    assert Counter(batch) == dict.fromkeys(range(2000, 2005), 4)


def test_torch_takes_a_mix(folders: tuple[str, str, str]) -> None:
    from loaders.torch import ShardLoader as TorchLoader

    options: Any = {"batch_size": 12, "fields": ("cls",), "lanes": 12}
    urls = mix([(folders[0], 2), (folders[1], 1)])
    with TorchLoader(urls, **options) as ours, ShardLoader(urls, **options) as arrays:
        assert [batch.cls.tolist() for batch in ours] == [batch.cls.tolist() for batch in arrays]


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.long)])
def test_workers_of_torch_make_the_batches_of_a_mix(folders: tuple[str, str, str], workers: int) -> None:
    from torch.utils.data import DataLoader

    from loaders.torch import ShardDataset

    options: Any = {"batch_size": 12, "fields": ("cls",), "lanes": 12}
    urls = mix([(folders[0], 2), (folders[1], 1)])
    context = "spawn" if workers else None
    made = DataLoader(
        ShardDataset(urls, **options), batch_size=None, num_workers=workers, multiprocessing_context=context
    )
    with ShardLoader(urls, **options) as arrays:
        for _ in range(2):
            assert [batch.cls.tolist() for batch in made] == [batch.cls.tolist() for batch in arrays]


def test_a_mix_of_mixes(folders: tuple[str, str, str]) -> None:
    inner = mix([(folders[1], 1), (folders[2], 1)])
    with loader_of(mix([(folders[0], 2), (inner, 2)], stop=48)) as loader:
        for batch in epoch_of(loader):
            assert sum(n < 1000 for n in batch) == 6


def test_a_mix_is_a_description(folders: tuple[str, str, str]) -> None:
    made = mix([(folders[0], 2), (folders[1], 1)], stop=7)
    assert pickle.loads(pickle.dumps(made)) == made
    assert loaders.mix is mix
    with pytest.raises(AttributeError):
        made.stop = 8  # type: ignore[misc]


@pytest.mark.parametrize(
    ("parts", "options", "message"),
    [
        ([], {}, "no datasets"),
        ("x", {}, r"parts of a mix are 'x', expected \(urls, weight\) pairs.*mix\(\["),
        (None, {}, r"expected \(urls, weight\) pairs"),
        ({"x": 1}, {}, r"expected \(urls, weight\) pairs"),
        (["a/", "b/"], {}, r"part of the mix is 'a/', expected \(urls, weight\) pairs"),
        ([("x", 1, 2)], {}, r"part of the mix is .*, expected \(urls, weight\) pairs"),
        ([("x", 0)], {}, r"weight 0, expected a positive.*Leave a part out"),
        ([("x", -1)], {}, "weight -1"),
        ([("x", math.nan)], {}, "weight nan"),
        ([("x", math.inf)], {}, "weight inf"),
        ([("x", 1e308), ("y", 1e308)], {}, "weight outside of 1e-12 to 1e\\+12.*divide all weights"),
        ([("x", 10**400)], {}, "weight outside"),
        ([("x", 5e-324)], {}, "weight outside"),
        ([("x", "1")], {}, "weight '1'"),
        ([("x", 1)], {"stop": "last"}, "stop is 'last'"),
        ([("x", 1)], {"stop": 0}, "stop is 0"),
        ([("x", 1)], {"stop": True}, "stop is True"),
    ],
)
def test_mixes_that_cannot_be(parts: Any, options: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        mix(parts, **options)


def test_an_empty_part_is_named(folders: tuple[str, str, str], tmp_path: Path) -> None:
    empty = write_labels(tmp_path, [0])
    with pytest.raises(UsageError, match=r"part .* has no samples.*Leave it out"):
        len(loader_of(mix([(folders[0], 1), (empty, 1)])))


def test_dataset_order_is_refused(folders: tuple[str, str, str]) -> None:
    with pytest.raises(UsageError, match="no dataset order"):
        len(loader_of(mix([(folders[0], 1)]), shuffle=False))


def test_an_epoch_of_less_than_a_batch_is_refused(folders: tuple[str, str, str]) -> None:
    with pytest.raises(UsageError, match="an epoch of the mix has 5 samples, less than one global batch of 12"):
        len(loader_of(mix([(folders[0], 1)], stop=5)))


def test_mixes_are_nested_twenty_deep_and_no_deeper() -> None:
    nested = mix([("x", 1)])
    for _ in range(19):
        nested = mix([("y", 1), (nested, 2)])
    with pytest.raises(UsageError, match="21 deep, expected at most 20"):
        mix([(nested, 1)])
