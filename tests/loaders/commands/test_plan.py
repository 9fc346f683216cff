"""`wds plan`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from shardwriter import ShardWriter
from tests.builders import write_labels
from wds_tools.cli import root


def plan(*args: str) -> Result:
    return CliRunner().invoke(root, ["plan", *args])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """2,000 samples of 20 classes, sorted, in 8 shards."""
    folder = tmp_path_factory.mktemp("sorted")
    with ShardWriter(folder / "s-%06d.tar", max_samples=250) as writer:
        for number in range(2000):
            writer.write({"__key__": f"{number:06d}", "cls": number // 100})
    return str(folder)


def test_a_good_order(folder: str) -> None:
    done = plan(folder, "--world-size", "4", "--batch-size", "16", "--labels", "cls")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].startswith("dataset    2,000 samples in 8 shards, ")
    assert lines[1] == "batches    31 on each of 4 ranks, of 16: 64 samples a step"
    assert lines[2] == "tail       drop: 16 samples at the end of the epoch in no batch"
    assert lines[3] == "order      960 lanes, 2,000 blocks of 1 sample"
    assert lines[4].strip() == "each block is read by one rank"
    assert "different classes, of 20 in the dataset:" in done.output
    assert lines[-1] == "verdict    mixes well"


def test_a_poor_order_and_what_to_change(folder: str) -> None:
    done = plan(
        folder, "--world-size", "3", "--batch-size", "16", "--labels", "cls", "--lanes", "4", "--block-bytes", "200000"
    )
    assert done.exit_code == 0
    assert "each block is read by 3 ranks, since 3 do not divide 4 lanes: --lanes 3 avoids that" in done.output
    verdict = done.output[done.output.index("verdict") :]
    assert verdict.startswith("verdict    poor\n")
    assert "- a batch holds " in verdict
    assert "try --lanes " in verdict
    assert "`wds pack`" in verdict


def test_json_has_the_same_facts(folder: str) -> None:
    facts = json.loads(
        plan(folder, "--json", "--world-size", "4", "--batch-size", "16", "--labels", "cls", "--epoch", "2").stdout
    )
    assert (facts["world"], facts["batch"], facts["epoch"], facts["lanes"]) == (4, 16, 2, 960)
    assert (facts["batches"], facts["dropped"], facts["reads"]["counted"]) == (31, 16, True)
    mixing = facts["mixing"]
    assert (mixing["judged_by"], mixing["complaints"], mixing["batches_looked_at"]) == ("classes", [], 31)
    assert mixing["classes"]["kinds"] == 20
    assert mixing["classes"]["batch"]["perfect"] == pytest.approx(20 * (1 - (1 - 1 / 20) ** 64), abs=0.1)


@pytest.mark.parametrize(
    ("tail", "said"),
    [
        ("pad", "pad: 48 samples a second time to fill the last batch, not `valid`"),
        ("exact", "exact: the last batch has 16 samples on all ranks together"),
    ],
)
def test_tails(folder: str, tail: str, said: str) -> None:
    assert said in plan(folder, "--world-size", "4", "--batch-size", "16", "--tail", tail).output


def test_dataset_order(folder: str) -> None:
    done = plan(folder, "--batch-size", "16", "--no-shuffle")
    assert "order      dataset order\n" in done.output
    assert done.output.endswith("verdict    nothing is mixed: for evaluation, not for training\n")


def test_shuffled_shards_mix_whatever_the_lanes(tmp_path: Path) -> None:
    with ShardWriter(tmp_path / "s-%06d.tar", max_samples=250, extra={"shuffled": True}) as writer:
        for number in range(500):
            writer.write({"__key__": f"{number:06d}", "cls": number})
    done = plan(str(tmp_path), "--batch-size", "16", "--lanes", "2")
    assert "mixes well: the listing says that the shards were packed in shuffled order" in done.output


def test_less_than_a_batch(tmp_path: Path) -> None:
    folder = write_labels(tmp_path, [5, 5])
    done = plan(folder, "--batch-size", "16")
    assert done.exit_code == 2
    assert "less than one global batch" in done.stderr
    assert "Lower --batch-size or --world-size, or pass --tail pad (repeats, marked) or --tail exact" in done.stderr
    assert "batch_size" not in done.stderr
    padded = plan(folder, "--batch-size", "16", "--tail", "pad")
    assert padded.exit_code == 0
    assert "mixing" not in padded.output
    assert json.loads(plan(folder, "--batch-size", "16", "--tail", "pad", "--json").output)["mixing"] is None


def test_the_picture(folder: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    target = tmp_path / "order.png"
    done = plan(folder, "--batch-size", "16", "--plot", str(target))
    assert done.exit_code == 0
    assert done.output.splitlines()[-1] == f"picture    written to {target}"
    assert target.read_bytes().startswith(b"\x89PNG")
    assert plan(folder, "--plot", "order.xyz").exit_code == 2


def test_a_picture_in_a_folder_that_is_not_there(folder: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = plan(folder, "--batch-size", "16", "--plot", str(tmp_path / "nowhere" / "order.png"))
    assert done.exit_code == 2
    assert str(tmp_path / "nowhere") in done.stderr
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("seed", range(8))
def test_a_perfect_shuffle_of_few_samples_is_not_poor(tmp_path: Path, seed: int) -> None:
    folder = write_labels(tmp_path, [30, 20])
    for labels in ((), ("--labels", "cls")):
        done = plan(folder, "--batch-size", "8", "--seed", str(seed), *labels)
        assert done.exit_code == 0
        assert "50 blocks of 1 sample" in done.output
        assert "verdict    mixes well" in done.output.splitlines()[-1]


def test_where_nothing_is_proposed_packing_is_not_said_as_an_alternative(folder: str) -> None:
    poor = ("--batch-size", "16", "--labels", "cls", "--block-bytes", "2000000", "--lanes")
    outputs = [plan(folder, *poor, lanes).output for lanes in ("1", "2", "4")]
    for output in outputs:
        advice = output[output.index("verdict    poor") :]
        assert ("or pack the samples" in advice) == ("try --lanes" in advice)
        assert "pack the samples in shuffled order" in advice
