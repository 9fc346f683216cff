"""Troubles with archives (B12 to B66), each read in every way that this project reads shards."""

from __future__ import annotations

import itertools
import json
import logging
import pickle
import resource
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from webdataset.tariterators import group_by_keys, tar_file_expander

import loaders
from loaders import ShardLoader, StreamLoader
from shardwriter import ShardWriter
from tests.builders import picture, write_tar
from tests.cases import inputs_tar as inputs
from tests.servers.faulty import FaultyServer
from tests.wds_tools.tar.archives import END, entry, gnu_tar
from wds_tools.errors import (
    DataError,
    FieldError,
    GroupingError,
    HeaderError,
    KeyRefusedError,
    MemberError,
    MissingFieldError,
    ShardError,
    TruncatedShardError,
)
from wds_tools.sources.http import close_idle
from wds_tools.verify import verify

Rows = list[tuple[str, dict[str, bytes]]]
Way = Callable[[Path], Rows]


def rows_of(samples: Iterator[Any]) -> Rows:
    return [
        (sample["__key__"], {name: bytes(data) for name, data in sample.items() if not name.startswith("__")})
        for sample in samples
    ]


def streamed(path: Path) -> Rows:
    with loaders.samples(path) as samples:
        return rows_of(samples)


def over_http(path: Path) -> Rows:
    with FaultyServer({"/x.tar": path.read_bytes()}) as server, loaders.samples(server.url("/x.tar")) as samples:
        rows = rows_of(samples)
        close_idle()
        return rows


def by_number(path: Path) -> Rows:
    with loaders.open(path) as dataset:
        return rows_of(dataset[n].raw for n in range(len(dataset)))


def by_webdataset(path: Path) -> Rows:
    with path.open("rb") as stream:
        members = tar_file_expander([{"url": str(path), "stream": stream}])
        return [
            (sample["__key__"], {name: data for name, data in sample.items() if not name.startswith("__")})
            for sample in group_by_keys(members)
        ]


each_way = pytest.mark.parametrize("way", [streamed, over_http, by_number])


def save(folder: Path, content: bytes, name: str = "x.tar") -> Path:
    (folder / name).write_bytes(content)
    return folder / name


def batches(path: Path, **options: Any) -> list[Any]:
    with ShardLoader(path, **{"batch_size": 1, "fields": ("cls",), "shuffle": False, **options}) as loader:
        return list(loader)


# B12


@each_way
def test_b12_the_published_rule_for_dots(tmp_path: Path, way: Way) -> None:
    # https://github.com/webdataset/webdataset/issues/237
    rows = way(save(tmp_path, inputs.dotted()))
    assert [(key, sorted(fields)) for key, fields in rows] == [
        ("235342 Track 2", ["0 (clean).jpg", "0 (clean).json"]),
        ("train.v1/0001", ["cls", "jpg"]),
        ("a/22.0/1", ["1.png"]),
        ("x", ["jpg", "seg.png"]),
        ("name", [""]),
    ]


def test_b12_a_field_that_hides_behind_a_dot_is_named_with_the_rule(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = save(tmp_path, inputs.dotted())
    with caplog.at_level(logging.WARNING):
        streamed(path)
    assert "2 files whose names make no sample ('README', '.hidden')" in caplog.text
    with pytest.raises(MissingFieldError) as caught:
        batches(path, fields=("json",))
    assert caught.value.key == "235342 Track 2"
    assert "'0 (clean).json' ends with it: a key ends at the first dot" in str(caught.value)


def test_b12_the_writer_takes_no_key_that_would_be_split_elsewhere(tmp_path: Path) -> None:
    with ShardWriter(tmp_path / "w-%03d.tar") as writer:
        for key in ("a.b", "train.v1/00.01"):
            with pytest.raises(KeyRefusedError, match="dot in its base name"):
                writer.write({"__key__": key, "cls": 1})
        writer.write({"__key__": "train.v1/0001", "cls": 1})


# B14


@each_way
@pytest.mark.parametrize(("made", "key"), [(inputs.unsorted, "0"), (inputs.far_apart, "0")])
def test_b14_a_key_that_comes_back_is_an_error_with_its_cure(
    tmp_path: Path, way: Way, made: Callable[[], bytes], key: str
) -> None:
    # https://github.com/webdataset/webdataset/issues/407
    with pytest.raises(GroupingError) as caught:
        way(save(tmp_path, made()))
    assert caught.value.key == key
    assert caught.value.url is not None
    assert caught.value.url.endswith("x.tar")
    assert "the key comes back after other samples" in str(caught.value)
    assert "tar --sort=name" in str(caught.value)


def test_b14_a_thousand_files_in_the_order_of_the_folder_and_sorted(tmp_path: Path) -> None:
    """As readdir gives them some are apart; the cure that the message names mends it."""
    folder = tmp_path / "files"
    folder.mkdir()
    for n in range(1000):
        (folder / f"{n:04d}.{('cls', 'txt')[n % 2]}").write_bytes(b"1")
    for n in range(1000):
        (folder / f"{n:04d}.{('txt', 'cls')[n % 2]}").write_bytes(b"1")
    pictures = sorted(path.name for path in folder.iterdir() if path.suffix == ".cls")
    labels = sorted(path.name for path in folder.iterdir() if path.suffix == ".txt")
    apart = save(tmp_path, gnu_tar("-c", *pictures, *labels, folder=folder), "apart.tar")
    with pytest.raises(GroupingError, match="--sort=name"):
        streamed(apart)
    sound = save(tmp_path, gnu_tar("-c", "--sort=name", ".", folder=folder), "sorted.tar")
    rows = streamed(sound)
    assert len(rows) == 1000
    assert all(sorted(fields) == ["cls", "txt"] for _, fields in rows)


def test_b14_halves_are_never_given_out_where_damage_is_skipped(tmp_path: Path) -> None:
    with loaders.samples(save(tmp_path, inputs.far_apart()), on_error="skip") as samples:
        keys = [sample["__key__"] for sample in samples]
        assert samples.skipped == {"GroupingError": 1}
    assert keys == [str(n) for n in range(6)]


# B25


@pytest.mark.parametrize("cut", inputs.cut_at())
def test_b25_a_cut_gives_what_is_whole_and_then_says_where(tmp_path: Path, cut: str) -> None:
    # https://github.com/webdataset/webdataset/issues/142
    content = inputs.cut_at()[cut]
    path = save(tmp_path, content)
    stream = loaders.samples(path)
    if cut == "before the end of the archive":  # where a file of this machine may have been made so
        assert [key for key, _ in rows_of(stream)] == ["0", "1", "2"]
        return
    if cut == "on a header":
        # Indistinguishable from an archive without its end, but for the fields that somebody asks for.
        assert rows_of(stream)[-1] == ("2", {"jpg": picture(2)})
        with pytest.raises(MissingFieldError, match="2"):
            batches(path, fields=("jpg", "cls"))
        return
    with stream:
        whole = list(itertools.islice(stream, 2))
        with pytest.raises(TruncatedShardError) as caught:
            next(stream)
    assert [sample["__key__"] for sample in whole] == ["0", "1"]
    assert str(path) in str(caught.value)
    assert caught.value.offset is not None
    assert caught.value.offset <= len(content)
    assert "the last whole sample is '1'" in str(caught.value)
    with pytest.raises(TruncatedShardError):  # an index is never made of a part
        batches(path)


@pytest.mark.parametrize("cut", inputs.cut_at())
def test_b25_a_stream_that_cannot_show_its_cut_is_cut_wherever_the_end_is_missing(tmp_path: Path, cut: str) -> None:
    path = save(tmp_path, inputs.cut_at()[cut])
    loader = StreamLoader(f"pipe:cat {path}", batch_size=1, fields=("jpg",), shuffle=False, allow_pipe=True)
    with loader, pytest.raises(TruncatedShardError):
        list(loader)


def test_b25_the_other_shards_are_read_where_damage_is_skipped(tmp_path: Path) -> None:
    save(tmp_path, inputs.cut_at()["inside the data"], "a.tar")
    save(tmp_path, inputs.sample("sound") + END, "b.tar")
    with loaders.samples(str(tmp_path / "*.tar"), on_error="skip") as samples:
        assert [sample["__key__"] for sample in samples] == ["0", "1", "sound"]
        assert samples.skipped == {"TruncatedShardError": 1}


@pytest.mark.parametrize("cut", inputs.cut_at())
def test_b25_verify_lists_every_cut(tmp_path: Path, cut: str) -> None:
    report = verify(str(save(tmp_path, inputs.cut_at()[cut])))
    found = [problem.kind for problem in report.problems]
    assert (found == ["TruncatedShardError"]) != (cut in {"on a header", "before the end of the archive"})
    if not found:
        assert "no end of archive" in str(report.notes)


# B32


@each_way
@pytest.mark.parametrize("name", inputs.duplicates())
def test_b32_a_member_that_comes_twice_is_an_error_by_name(tmp_path: Path, way: Way, name: str) -> None:
    # https://github.com/webdataset/webdataset/issues/157
    with pytest.raises(GroupingError) as caught:
        way(save(tmp_path, inputs.duplicates()[name]))
    assert (caught.value.key, caught.value.field) == ("0", "jpg")
    assert "Remove one of them" in str(caught.value)


@pytest.mark.parametrize("name", inputs.duplicates())
def test_b32_the_next_sample_is_unharmed(tmp_path: Path, name: str) -> None:
    with loaders.samples(save(tmp_path, inputs.duplicates()[name]), on_error="skip") as samples:
        assert [sample["__key__"] for sample in samples] == ["z"]
        assert samples.skipped == {"GroupingError": 1}


def test_b32_appending_a_newer_member_is_seen(tmp_path: Path) -> None:
    path = save(tmp_path, inputs.sample("0") + inputs.sample("1") + END)
    (tmp_path / "0.cls").write_bytes(b"7")
    subprocess.run(["tar", "-rf", path, "0.cls"], cwd=tmp_path, check=True)
    with pytest.raises(GroupingError, match=r"comes back.*key 0"):
        streamed(path)


def test_b32_grouping_ends_with_the_shard(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", [("0.cls", b"0"), ("1.jpg", b"x")])
    write_tar(tmp_path / "b.tar", [("1.cls", b"1"), ("2.cls", b"2")])
    with loaders.samples(str(tmp_path / "*.tar")) as samples:
        assert [(key, sorted(fields)) for key, fields in rows_of(samples)] == [
            ("0", ["cls"]),
            ("1", ["jpg"]),
            ("1", ["cls"]),
            ("2", ["cls"]),
        ]


# B35


@each_way
def test_b35_all_formats_read_the_same(tmp_path: Path, way: Way) -> None:
    # https://github.com/NVIDIA/DALI/issues/3640
    (tmp_path / "files").mkdir()
    read = {name: way(save(tmp_path, content)) for name, content in inputs.formats(tmp_path / "files").items()}
    expected = read.pop("GNU")
    assert [len(fields) for _, fields in expected] == [2, 2]
    assert all(rows == expected for rows in read.values())


def test_b35_what_is_written_has_one_header_a_member_and_opens_everywhere(tmp_path: Path) -> None:
    long = "d" * 120 + "/" + "k" * 60
    samples = {"a": 1, long: 2, "ü" * 90: 3}
    with ShardWriter(tmp_path / "w-%03d.tar") as writer:
        for key, label in samples.items():
            writer.write({"__key__": key, "jpg": picture(label), "cls": label})
    path = tmp_path / "w-000.tar"
    with tarfile.open(path) as archive:
        headers = [member.type for member in archive]
        assert headers == [tarfile.REGTYPE] * 6
    raw = path.read_bytes()
    assert raw[:512].rstrip(b"\0").startswith(b"a.jpg")
    assert raw.count(b"PaxHeader") <= 2  # only what does not fit a plain header has one
    expected = [(key, {"jpg": picture(label), "cls": b"%d" % label}) for key, label in samples.items()]
    assert by_webdataset(path) == streamed(path) == expected
    listed = subprocess.run(["tar", "-tf", path], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})
    assert len(listed.stdout.splitlines()) == 6


# B39


@each_way
def test_b39_case_does_not_count_in_fields_and_does_in_keys(tmp_path: Path, way: Way) -> None:
    # https://github.com/huggingface/datasets/issues/7732
    names = ("0.JPG", "0.CLS", "A/1.Left.jpg", "A/1.Right.jpg", "2.Jpeg")
    rows = way(write_tar(tmp_path / "x.tar", [(name, b"1") for name in names]))
    assert [(key, sorted(fields)) for key, fields in rows] == [
        ("0", ["cls", "jpg"]),
        ("A/1", ["left.jpg", "right.jpg"]),
        ("2", ["jpeg"]),
    ]


def test_b39_fields_may_be_asked_for_in_any_case(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "x.tar", [("0.JPG", picture(0)), ("0.Left.CLS", b"4")])
    (batch,) = batches(path, fields=("JPG", "left.Cls"))
    assert batch.left_cls.tolist() == [4]


# B60


@pytest.mark.parametrize("name", inputs.endings())
def test_b60_all_samples_are_read_and_what_is_odd_is_said(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    # https://github.com/borgbackup/borg/issues/7432
    content, keys, said = inputs.endings()[name]
    path = save(tmp_path, content)
    for way in (streamed, by_number):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert [key for key, _ in way(path)] == list(keys)
        assert said in caplog.text
        assert bool(said) == bool(caplog.records)


# B61


@each_way
@pytest.mark.parametrize("name", inputs.large_by_name())
def test_b61_sizes_beyond_the_plain_field_are_read(tmp_path: Path, way: Way, name: str) -> None:
    # https://github.com/libarchive/libarchive/issues/880
    assert way(save(tmp_path, inputs.large_by_name()[name])) == [("big", {"jpg": picture(5), "cls": b"5"})]


@each_way
@pytest.mark.parametrize("name", inputs.absurd_sizes())
def test_b61_absurd_sizes_are_errors_before_anything_is_allocated(tmp_path: Path, way: Way, name: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ShardError, match=r"size|ends|bytes"):
        way(save(tmp_path, inputs.absurd_sizes()[name]))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 << 10


@pytest.mark.long
def test_b61_a_member_of_nine_gigabytes(tmp_path: Path) -> None:
    """With a hole on the disk in place of most of its bytes; its neighbours are found and read by the index."""
    path, size = tmp_path / "x.tar", 9 << 30
    header = tarfile.TarInfo("1.bin")
    header.size = size
    with path.open("wb") as file:
        file.write(inputs.sample("0"))
        file.write(header.tobuf(tarfile.GNU_FORMAT))
        file.seek(size, 1)
        file.write(inputs.sample("2") + END)
    with loaders.open(path) as dataset:
        assert len(dataset) == 3
        assert (dataset[0]["cls"], dataset[2]["cls"]) == (0, 0)
        assert dataset[2].raw["__key__"] == "2"


# B62


@each_way
def test_b62_links_have_the_data_of_their_target_or_are_named(tmp_path: Path, way: Way) -> None:
    # https://github.com/Linutronix/elbe/pull/484
    path = save(tmp_path, inputs.linked())
    with pytest.raises(MemberError) as caught:
        way(path)
    assert caught.value.key == "d/4"
    assert "/etc/passwd" in str(caught.value)
    with loaders.samples(path, on_error="skip") as samples:
        rows = dict(rows_of(samples))
    assert sorted(rows) == ["d/0", "d/1", "d/2", "d/3", "d/5"]
    assert rows["d/1"]["jpg"] == rows["d/2"]["jpg"] == picture(0)
    assert rows["d/3"]["jpg"] == picture(5)


# B63


@each_way
@pytest.mark.parametrize("form", ["gnu", "posix"])
def test_b63_a_member_with_holes_is_never_given_short(tmp_path: Path, way: Way, form: str) -> None:
    # https://github.com/Eventual-Inc/Daft/pull/7493
    (tmp_path / "files").mkdir()
    path = save(tmp_path, inputs.sparse(tmp_path / "files", form))
    assert path.stat().st_size < 1 << 19  # it has its holes
    with pytest.raises(MemberError, match="sparse") as caught:
        way(path)
    assert caught.value.key == "0"
    with loaders.samples(path, on_error="skip") as samples:
        assert [sample["__key__"] for sample in samples] == ["1"]


# B64


@each_way
@pytest.mark.parametrize("name", inputs.not_utf8())
def test_b64_keys_of_any_bytes_survive(tmp_path: Path, way: Way, name: str) -> None:
    # https://github.com/mxmlnkn/ratarmount/issues/32
    raw = inputs.not_utf8()[name]
    ((key, fields),) = way(save(tmp_path, inputs.raw_names(raw)))
    assert sorted(fields) == ["cls", "jpg"]
    assert key.encode("utf-8", "surrogateescape") + b".jpg" == raw[0]
    assert json.loads(json.dumps({"key": key})) == {"key": key}
    assert pickle.loads(pickle.dumps(key)) == key
    assert str(MissingFieldError("it is shown", key=key)).encode()  # which a lone surrogate would refuse


def test_b64_they_go_through_a_batch_and_its_errors_and_files(tmp_path: Path) -> None:
    raw = inputs.not_utf8()["Latin-1"]
    path = save(tmp_path, inputs.raw_names(raw)[:-1024] + entry("b.cls", b"x") + END)
    options = {"fields": ("__key__", "cls"), "batch_size": 2, "tail": "exact"}
    (batch,) = batches(path, **options, on_error="skip")
    assert (batch[0], batch.cls.tolist()) == ([raw[0].removesuffix(b".jpg").decode("utf-8", "surrogateescape")], [1])
    bad = save(tmp_path, inputs.raw_names(raw).replace(b"1" + bytes(511), b"x" + bytes(511)), "bad.tar")
    with pytest.raises(FieldError) as caught:
        batches(bad, **options)
    assert r"'caf\udce9'" in str(caught.value)
    assert str(caught.value).isprintable()
    quarantine = tmp_path / "q.jsonl"
    assert [batch.cls.tolist() for batch in batches(bad, **options, on_error="skip", quarantine=quarantine)] == [[]]
    assert json.loads(quarantine.read_text().splitlines()[0])["key"] == "caf\udce9"


def test_b64_one_name_in_two_forms_is_two_keys(tmp_path: Path) -> None:
    """Bytes decide, as on the disk. Members that were meant to be one sample are missed with the fields."""
    path = write_tar(tmp_path / "x.tar", [("é.jpg", picture(0)), ("e\u0301.cls", b"1")])
    assert len(streamed(path)) == 2
    with pytest.raises(MissingFieldError):
        batches(path, fields=("jpg", "cls"))


@pytest.mark.parametrize("path", ["a\0b.jpg", "a\nb.jpg"])
def test_b64_control_characters_in_a_pax_path_are_escaped_in_messages(tmp_path: Path, path: str) -> None:
    content = entry("x", b"1", form=tarfile.PAX_FORMAT, pax_headers={"path": path}) + END
    ((key, _),) = streamed(save(tmp_path, content))
    assert key == path.removesuffix(".jpg")
    assert str(MissingFieldError("it is shown", key=key)).isprintable()


# B65


@pytest.mark.parametrize("slash", [False, True])
@pytest.mark.parametrize("letter", ["k", "é"])
def test_b65_keys_of_every_length_come_back_in_every_reader(tmp_path: Path, letter: str, slash: bool) -> None:
    # https://github.com/webdataset/webdataset/issues/428
    keys = []
    for length in (99, 100, 101, 155, 256, 300):
        key = f"{length:03d}" + letter * ((length - 3) // len(letter.encode()))
        keys.append(key[: len(key) // 2] + "/" + key[len(key) // 2 + 1 :] if slash else key)
    with ShardWriter(tmp_path / "w-%03d.tar") as writer:
        for number, key in enumerate(keys):
            writer.write({"__key__": key, "cls": number})
    path = tmp_path / "w-000.tar"
    for way in (streamed, over_http, by_number, by_webdataset):
        assert way(path) == [(key, {"cls": b"%d" % number}) for number, key in enumerate(keys)]
    assert [batch[0] for batch in batches(path, fields=("__key__", "cls"))] == [[key] for key in keys]
    listed = subprocess.run(["tar", "-tf", path], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})
    assert len(listed.stdout.splitlines()) == 6


# B66

GROWTH = """
import resource, sys
import loaders
from wds_tools.errors import HeaderError
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[1:]:
    try:
        list(loaders.samples(path))
    except HeaderError as error:
        assert "extension header" in str(error) and path in str(error), error
    else:
        raise SystemExit(f"{path} was read")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_b66_extension_headers_beyond_reason_are_refused_in_little_memory(tmp_path: Path) -> None:
    # https://github.com/python/cpython/issues/151497
    paths = [save(tmp_path, content, f"{n}.tar") for n, content in enumerate(inputs.abused_headers().values())]
    done = subprocess.run([sys.executable, "-c", GROWTH, *paths], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 50 << 10  # KiB
    for path in paths:
        with pytest.raises(HeaderError, match="extension header"):
            by_number(path)
    with pytest.raises(DataError):
        over_http(paths[0])
