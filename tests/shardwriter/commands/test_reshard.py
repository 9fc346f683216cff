import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import loaders
from shardwriter import pack
from shardwriter.commands.reshard import reshard
from tests.builders import picture, write_shard
from wds_tools.cli import root
from wds_tools.dataset import open_dataset
from wds_tools.errors import KeyRefusedError, TargetError, UsageError


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Two shards of 6 samples."""
    for shard in range(2):
        rows = [
            (f"k{n}", {"jpg": picture(n, width=64, height=48), "cls": b"%d" % (n % 2), "json": b'{"n": %d}' % n})
            for n in range(6 * shard, 6 * shard + 6)
        ]
        write_shard(tmp_path / f"old/s-{shard}.tar", rows)
    return tmp_path / "old"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(
        reshard, prog_name="reshard", args=[str(argument) for argument in arguments], catch_exceptions=False
    )


def keys(folder: Path) -> list[str]:
    return [sample["__key__"] for sample in loaders.samples(folder)]


def test_everything_is_taken_over_shuffled_by_the_seed(tmp_path: Path, old: Path) -> None:
    assert run(old, tmp_path / "a", "--max-samples", 5).exit_code == 0
    assert run(old, tmp_path / "b", "--max-samples", 5, "--jobs", 1).exit_code == 0
    assert sorted(keys(tmp_path / "a")) == sorted(f"k{n}" for n in range(12))
    assert keys(tmp_path / "a") == keys(tmp_path / "b") != [f"k{n}" for n in range(12)]
    shards = sorted(path.name for path in (tmp_path / "a").glob("*.tar"))
    assert shards == ["train-000000.tar", "train-000001.tar", "train-000002.tar"]
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in shards)


def test_some_fields_of_some_samples_in_their_order(tmp_path: Path, old: Path) -> None:
    line = [old / "s-0.tar", old / "s-1.tar", tmp_path / "new", "--no-shuffle", "--where", "cls == 1 and json.n > 2"]
    result = run(*line, "--drop", "json", "--rename", "cls=label.txt", "--name", "val", "--json")
    facts = json.loads(result.stdout)
    assert (result.exit_code, facts["packed"], facts["skipped"]) == (0, 5, {"not chosen": 7})
    samples = list(loaders.samples(tmp_path / "new"))
    assert [sample["__key__"] for sample in samples] == ["k3", "k5", "k7", "k9", "k11"]
    assert {name for sample in samples for name in sample if not name.startswith("__")} == {"jpg", "label.txt"}


def test_compressed_shards_become_indexed_ones(tmp_path: Path, old: Path) -> None:
    packed = tmp_path / "s.tar.gz"
    packed.write_bytes(gzip.compress((old / "s-0.tar").read_bytes()))
    assert run(packed, tmp_path / "new", "--no-shuffle").exit_code == 0
    assert len(open_dataset(tmp_path / "new")) == 6
    assert keys(tmp_path / "new") == [f"k{n}" for n in range(6)]


def test_pictures_are_transcoded(tmp_path: Path, old: Path) -> None:
    assert run(old, tmp_path / "new", "--resize", 24, "--to", "png").exit_code == 0
    sample = loaders.open(tmp_path / "new")[0]
    assert sample["png"].shape == (24, 32, 3)


def test_samples_that_fail_are_listed_and_the_status_says_so(tmp_path: Path) -> None:
    write_shard(tmp_path / "old/a.tar", [("a", {"jpg": picture(1)}), ("b", {"jpg": b"\xff\xd8\xff\xe0"})])
    result = run(tmp_path / "old", tmp_path / "new")
    assert result.exit_code == 1
    failure = json.loads((tmp_path / "new/failures.jsonl").read_text())
    assert "a.tar[1], at byte " in failure["path"]


def test_keys_that_begin_anew_need_other_keys(tmp_path: Path) -> None:
    for name in "ab":
        write_shard(tmp_path / f"old/{name}.tar", [(f"{n:06d}", {"cls": b"1"}) for n in range(3)])
    with pytest.raises(KeyRefusedError, match="--keys number"):
        run(tmp_path / "old", tmp_path / "new")
    assert run(tmp_path / "old", tmp_path / "new", "--keys", "number", "--no-shuffle").exit_code == 0
    lines = (tmp_path / "new/train.keys.tsv").read_text().splitlines()
    assert lines[3] == "00000003\tb.tar/000000"


def test_a_taken_target_and_a_wrong_condition_are_refused_before_anything_is_read(tmp_path: Path, old: Path) -> None:
    assert run(old, tmp_path / "new").exit_code == 0
    with pytest.raises(TargetError):
        run(old, tmp_path / "new", "--where", "cls ==")
    with pytest.raises(UsageError, match="does not parse"):
        run(old, tmp_path / "other", "--where", "cls ==")
    assert not (tmp_path / "other").exists()


def test_the_new_shards_may_lie_below_the_old_ones(old: Path) -> None:
    assert run(old, old / "new").exit_code == 0
    assert len(keys(old / "new")) == 12


def test_the_options_of_packing_are_its_own_too(tmp_path: Path, old: Path) -> None:
    line = [old, tmp_path / "new", "--split", "val=0.4", "--checksum", "sha256", "--drop", "json", "--jobs", 2]
    result = run(*line, "--json")
    facts = json.loads(result.stdout)
    assert result.exit_code == 0
    assert sum(facts["splits"][name]["packed"] for name in ("train", "val")) == 12
    listing = json.loads((tmp_path / "new/val/dataset.json").read_bytes())
    assert listing["command"] == "wds reshard URLS OUT --drop json --split val=0.4 --checksum sha256"
    assert listing["shardlist"][0]["checksum"].startswith("sha256:")


@pytest.mark.parametrize("cut", [(), ("--parts", 2)], ids=["one piece", "parts"])
def test_classes_that_nothing_is_left_of_are_told_apart(tmp_path: Path, cut: tuple[object, ...]) -> None:
    """Their names stay, since labels are places among the names."""
    for number, name in enumerate(["ant", "bee", "cat", "dog"]):
        (tmp_path / "p" / name).mkdir(parents=True)
        (tmp_path / "p" / name / "1.jpg").write_bytes(picture(number))
    pack(tmp_path / "p", tmp_path / "old")
    done = run(tmp_path / "old", tmp_path / "new", "--where", "cls in (1, 3)", *cut)
    assert "packed 2 pictures of 2 of 4 classes into " in done.stdout
    assert "warning: 2 classes have no pictures: 'ant', 'cat'" in done.stdout
    assert open_dataset(tmp_path / "new").classes == ("ant", "bee", "cat", "dog")
    info = CliRunner().invoke(root, ["info", str(tmp_path / "new")]).stdout
    assert "classes   2 of 4 that have a name: bee, dog\n" in info
    facts = json.loads(CliRunner().invoke(root, ["info", str(tmp_path / "new"), "--json"]).stdout)
    assert facts["absent_classes"] == ["ant", "cat"]
    assert "classes   4: ant, bee, cat, dog\n" in CliRunner().invoke(root, ["info", str(tmp_path / "old")]).stdout
