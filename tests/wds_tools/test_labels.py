"""Labels of all samples: read from the shards once, kept, read again when a shard was written again."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest

from tests.builders import write_labels, write_shard
from wds_tools import labels as module
from wds_tools.dataset import open_dataset
from wds_tools.errors import UsageError
from wds_tools.labels import read_labels
from wds_tools.make_index import make_index


def test_labels_are_those_of_the_samples(tmp_path: Path) -> None:
    dataset = open_dataset(write_labels(tmp_path / "d", [17, 0, 5, 1]), cache_dir=tmp_path)
    labels = read_labels(dataset, cache_dir=tmp_path)
    assert [labels.values[code] for code in labels.codes] == list(range(23))
    assert labels.counts.tolist() == [1] * 23


def test_other_fields_are_jumped_over(tmp_path: Path) -> None:
    big = bytes(300_000)
    samples = [(f"k{i}", {"bin": big, "cls": str(i % 3).encode(), "txt": b"no"}) for i in range(7)]
    write_shard(tmp_path / "a.tar", samples)
    labels = read_labels(open_dataset(str(tmp_path)), "CLS")
    assert labels.values == (0, 1, 2)
    assert labels.codes.tolist() == [0, 1, 2, 0, 1, 2, 0]


def test_words_are_labels_too(tmp_path: Path) -> None:
    words = [b"dog", b"cat\n", b"dog", "\u732b".encode(), b"cat"]
    write_shard(tmp_path / "a.tar", [(f"k{i}", {"txt": word}) for i, word in enumerate(words)])
    labels = read_labels(open_dataset(str(tmp_path)), "txt")
    assert labels.values == ("cat", "dog", "\u732b")
    assert labels.codes.tolist() == [1, 0, 1, 2, 0]


def test_samples_without_a_label_have_none(tmp_path: Path) -> None:
    fields = [{"cls": b"4"}, {"cls": b"four"}, {"txt": b"x"}, {"cls": b"4 "}, {"cls": b"9" * 2000}, {"cls": b"2"}]
    write_shard(tmp_path / "a.tar", [(f"k{i}", each) for i, each in enumerate(fields)])
    labels = read_labels(open_dataset(str(tmp_path)))
    assert labels.values == (2, 4)
    assert labels.codes.tolist() == [1, -1, -1, 1, -1, 0]
    assert labels.counts.tolist() == [1, 2]


def test_a_linked_label_is_followed(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for key, content in (("a", b"5"), ("b", None)):
            info = tarfile.TarInfo(f"{key}.cls")
            if content is None:
                info.type, info.linkname = tarfile.LNKTYPE, "a.cls"
            else:
                info.size = len(content)
            archive.addfile(info, io.BytesIO(content or b""))
    labels = read_labels(open_dataset(str(tmp_path)))
    assert [labels.values[code] for code in labels.codes] == [5, 5]


def test_labels_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = open_dataset(write_labels(tmp_path / "d", [9, 4]), cache_dir=tmp_path)
    first = read_labels(dataset, cache_dir=tmp_path)
    monkeypatch.setattr(module, "open_pass", None)  # reading a shard would fail
    again = read_labels(dataset, cache_dir=tmp_path)
    assert again.codes.tolist() == first.codes.tolist()
    assert (again.values, again.digest) == (first.values, first.digest)
    assert not again.codes.flags.writeable


def test_shards_that_were_written_again_are_read_again(tmp_path: Path) -> None:
    write_shard(tmp_path / "a.tar", [("k", {"cls": b"1"}), ("l", {"cls": b"2"})])
    first = read_labels(open_dataset(str(tmp_path)))
    before = (tmp_path / "a.tar").stat()
    write_shard(tmp_path / "a.tar", [("k", {"cls": b"3"}), ("l", {"cls": b"2"})])  # of the same size
    os.utime(tmp_path / "a.tar", ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    second = read_labels(open_dataset(str(tmp_path)))
    assert (first.values, second.values) == ((1, 2), (2, 3))
    assert first.digest != second.digest


@pytest.mark.parametrize("cut", [1, 30, 45])
def test_what_is_damaged_in_the_cache_is_made_again(tmp_path: Path, cut: int) -> None:
    dataset = open_dataset(write_labels(tmp_path / "d", [9, 4]), cache_dir=tmp_path)
    first = read_labels(dataset, cache_dir=tmp_path).codes.tolist()
    (kept,) = (tmp_path / "index").glob("labels-*")
    for content in (kept.read_bytes()[:-cut], b"x" * cut, kept.read_bytes()[:-cut] + bytes(cut)):
        kept.unlink()  # a file that is mapped is never changed
        kept.write_bytes(content)
        assert read_labels(dataset, cache_dir=tmp_path).codes.tolist() == first


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    dataset = open_dataset(write_labels(tmp_path / "d", [3]))
    assert np.array_equal(read_labels(dataset, cache_dir=tmp_path / "file").codes, [0, 1, 2])


def test_fields_that_are_no_labels_are_refused(tmp_path: Path) -> None:
    samples = [("a", {"jpg": b"x", "txt": b"", "Label.cls": b"1"})]
    dataset = open_dataset(str(write_shard(tmp_path / "d" / "a.tar", samples)))
    with pytest.raises(UsageError, match="'jpg' holds picture, expected a number or a word"):
        read_labels(dataset, "jpg")
    with pytest.raises(UsageError, match=r"no sample has a label in the field 'txt'.*wds ls"):
        read_labels(dataset, "txt")
    for wanted, near in (("txts", "txt"), ("labelcls", "label.cls"), ("cls", "label.cls")):
        with pytest.raises(UsageError, match=rf"no sample has a field '{wanted}'; there are 'jpg'.*mean '{near}'\?"):
            read_labels(dataset, wanted)


def test_a_field_that_no_sample_has_is_told_by_the_listing_too(tmp_path: Path) -> None:
    make_index(write_labels(tmp_path / "d", [0, 3]))
    with pytest.raises(UsageError, match=r"no sample has a field 'target'; there are 'cls' .*Name the field"):
        read_labels(open_dataset(tmp_path / "d"), "target")


def test_reading_says_how_far_it_is_and_can_be_ended(tmp_path: Path) -> None:
    dataset, counts = open_dataset(write_labels(tmp_path / "d", [4, 0, 3]), cache_dir=tmp_path), list[int]()

    def end(count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_labels(dataset, cache_dir=tmp_path, advance=end)
    read_labels(dataset, cache_dir=tmp_path, advance=counts.append)
    assert sorted(counts) == [0, 3, 4]
    read_labels(dataset, cache_dir=tmp_path, advance=end)  # they were kept, and nothing is read
