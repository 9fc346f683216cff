"""What users write and which shards it means, over real folders."""

import json
import os
from pathlib import Path

import pytest

from tests.wds_tools.made_shards import make_dataset
from wds_tools import dataset, urls
from wds_tools.errors import ListingError, NoShardsError, ShardMissingError, UsageError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "data"
    place.mkdir()
    for name in ("b-2.tar", "b-10.tar", "a.tar", "c.tar.gz", "d.tgz", "e.tar.zst"):
        (place / name).touch()
    for name in ("a.idx", "a.tar.idx", "sizes.json", ".a.tar.1f2e3d4c.tmp", ".hidden.tar", "._a.tar", "readme.txt"):
        (place / name).touch()
    (place / "sub.tar").mkdir()
    return place


def names(found: list[str]) -> list[str]:
    return [os.path.basename(url) for url in found]


def test_braces(folder: Path) -> None:
    assert urls.expand("data/b-{2,10}.tar") == ["data/b-2.tar", "data/b-10.tar"]
    assert urls.expand(f"{folder}/{{a,b-2}}.tar") == [f"{folder}/a.tar", f"{folder}/b-2.tar"]


def test_a_glob_is_sorted_and_gives_finished_shards_only(folder: Path) -> None:
    assert urls.expand("data/*.tar") == ["data/a.tar", "data/b-10.tar", "data/b-2.tar"]
    assert names(urls.expand("data/b-?.tar")) == ["b-2.tar"]
    assert names(urls.expand("data/[ab]*.tar")) == ["a.tar", "b-10.tar", "b-2.tar"]
    assert names(urls.expand("data/*")) == ["a.tar", "b-10.tar", "b-2.tar", "c.tar.gz", "d.tgz", "e.tar.zst"]
    assert names(urls.expand("**/a.tar")) == ["a.tar"]


def test_braces_and_a_glob_together(folder: Path) -> None:
    assert names(urls.expand("data/{b-*,a}.tar")) == ["b-10.tar", "b-2.tar", "a.tar"]


def test_a_folder_gives_its_shards_sorted(folder: Path) -> None:
    expected = ["a.tar", "b-10.tar", "b-2.tar", "c.tar.gz", "d.tgz", "e.tar.zst"]
    for given in ("data", "data/", str(folder), folder, Path("data"), f"file://{folder}"):
        assert names(urls.expand(given)) == expected


def test_a_shard_that_is_a_broken_link_is_missed_and_not_passed_over(folder: Path) -> None:
    (folder / "broken.tar").symlink_to("nowhere.tar")
    assert "broken.tar" in names(urls.expand("data"))
    assert "broken.tar" in names(urls.expand("data/*.tar"))


def test_a_folder_with_a_listing_is_that_listing(folder: Path) -> None:
    listing = {"wids_version": 1, "shardlist": [{"url": "b-2.tar", "nsamples": 1}, {"url": "a.tar", "nsamples": 1}]}
    (folder / "dataset.json").write_text(json.dumps(listing))
    assert urls.expand("data") == ["data/b-2.tar", "data/a.tar"]
    assert urls.expand(folder / "dataset.json") == [f"{folder}/b-2.tar", f"{folder}/a.tar"]
    assert urls.places("data") == [urls.Place("data/dataset.json", listing=True, folder=True)]


def test_a_list_keeps_its_order(folder: Path) -> None:
    given: list[str | Path] = ["data/b-2.tar", Path("data/a.tar"), "data/c.*"]
    assert names(urls.expand(given)) == ["b-2.tar", "a.tar", "c.tar.gz"]
    assert names(urls.expand(each for each in given)) == ["b-2.tar", "a.tar", "c.tar.gz"]


@pytest.mark.parametrize(
    "name", ["a b.tar", "a#b.tar", "a?b.tar", "a%20b.tar", "{0..3}.tar", "a&b'\".tar", "x[1].tar", "*"]
)
def test_a_name_that_exists_is_that_file_whatever_it_holds(folder: Path, name: str) -> None:
    (folder / name).touch()
    assert urls.expand(f"data/{name}") == [f"data/{name}"]
    assert urls.expand(Path("data") / name) == [f"data/{name}"]
    assert urls.expand([f"data/{name}"]) == [f"data/{name}"]


def test_a_path_is_never_a_pattern(folder: Path) -> None:
    for pattern in ("data/*.tar", "data/b-{2,10}.tar"):
        with pytest.raises(NoShardsError):
            urls.expand(Path(pattern))


def test_file_urls(folder: Path) -> None:
    (folder / "x y.tar").touch()
    (folder / "x*y.tar").touch()
    assert urls.expand(f"file://{folder}/x%20y.tar") == [f"{folder}/x y.tar"]
    assert urls.expand(f"file://{folder}/b-{{2,10}}.tar") == [f"{folder}/b-2.tar", f"{folder}/b-10.tar"]
    assert names(urls.expand(f"file://{folder}/x%20*.tar")) == ["x y.tar"]
    assert names(urls.expand(f"file://{folder}/x%2A*.tar")) == ["x*y.tar"]
    with pytest.raises(UsageError, match="another host"):
        urls.expand("file://host/data/a.tar")


def test_remote_urls_stay_as_they_are(folder: Path) -> None:
    given = ["s3://b/x-{0..1}.tar", "https://h/y.tar?tok=a{b,c}&x=*", "HTTP://h/z.tar"]
    expected = ["s3://b/x-0.tar", "s3://b/x-1.tar", "https://h/y.tar?tok=a{b,c}&x=*", "HTTP://h/z.tar"]
    assert urls.expand(given) == expected


def test_commands_are_not_run(folder: Path) -> None:
    with pytest.raises(UsageError, match="not run"):
        urls.expand("pipe:touch data/ran; cat data/a.tar")
    assert not (folder / "ran").exists()


@pytest.mark.parametrize(
    "given", ["data/z.tar", "data/z-{0..9}.tar", "data/*.zip", "data/{z,y}-*.tar", Path("data/z.tar")]
)
def test_nothing_found_names_the_pattern_and_what_lies_there(folder: Path, given: str | Path) -> None:
    with pytest.raises(NoShardsError) as caught:
        urls.expand(given)
    text = str(caught.value)
    assert str(given) in text
    assert "'a.idx'" in text
    assert "and 6 more" in text
    assert "hidden" not in text


def test_a_wrong_folder_is_answered_with_the_nearest_one(folder: Path) -> None:
    with pytest.raises(NoShardsError, match=r"this folder holds 'data/'"):
        urls.expand("dada/sub/x-{0..3}.tar")
    (folder / "empty").mkdir()
    with pytest.raises(NoShardsError, match="is empty"):
        urls.expand("data/empty")


def test_one_pattern_of_several_that_matches_nothing_is_not_passed_over(folder: Path) -> None:
    with pytest.raises(NoShardsError, match=r"data/y-\*.tar \(of"):
        urls.expand("data/{b,y}-*.tar")
    with pytest.raises(NoShardsError, match=r"z\.tar"):
        urls.expand(["data/a.tar", "data/z.tar"])


def test_several_urls_in_one_string_are_answered_with_the_cure(folder: Path) -> None:
    with pytest.raises(NoShardsError, match="list, not joined by `::`"):
        urls.expand("data/a.tar::data/b-2.tar")


def test_a_tilde_is_answered_with_the_cure(folder: Path) -> None:
    with pytest.raises(NoShardsError, match="in full"):
        urls.expand("~/no-such-folder/*.tar")


@pytest.mark.parametrize("given", [[], "", "  ", [""]])
def test_nothing_given(given: object) -> None:
    with pytest.raises(NoShardsError):
        urls.expand(given)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [5, None, [5], [b"a.tar"], [["a.tar"]]])
def test_what_is_no_url(given: object) -> None:
    with pytest.raises(UsageError, match="str"):
        urls.expand(given)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [["data/a.tar", "data/./a.tar"], ["data/*.tar", "data/a.tar"], "data/{a,a}.tar"])
def test_a_shard_twice_is_an_error_that_names_it(folder: Path, given: object) -> None:
    with pytest.raises(UsageError, match="twice") as caught:
        urls.expand(given)  # type: ignore[arg-type]
    assert "a.tar" in str(caught.value.url)


def test_gaps_in_a_range_are_left_to_the_reader_to_name(folder: Path, tmp_path: Path) -> None:
    make_dataset(tmp_path / "gaps", [1] * 10)
    for gone in (3, 7):
        (tmp_path / f"gaps/train-{gone:06d}.tar").unlink()
    pattern = f"{tmp_path}/gaps/train-{{000000..000009}}.tar"
    assert len(urls.expand(pattern)) == 10
    with pytest.raises(ShardMissingError, match="2 of 10 shards do not exist") as caught:
        dataset.open_dataset(pattern, cache_dir=tmp_path / "cache")
    assert "train-000003.tar" in str(caught.value)
    assert "train-000007.tar" in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 1}', '{"wids_version": 2, "shardlist": []}'])
def test_a_json_that_is_no_listing(folder: Path, text: str) -> None:
    (folder / "dataset.json").write_text(text)
    with pytest.raises(ListingError, match=r"listing|wids_version"):
        urls.expand(folder)


@pytest.mark.parametrize("end", ["", "/"])
def test_class_folders_of_pictures_have_to_be_packed_first(folder: Path, end: str) -> None:
    inner = folder / "my pictures" / "cat"
    inner.mkdir(parents=True)
    given = f"data/my pictures{end}"
    with pytest.raises(NoShardsError) as caught:
        urls.expand(given)
    assert "wds pack" not in str(caught.value)
    (inner / "Tom.JPG").touch()
    for asked in (given, Path(given)):
        with pytest.raises(NoShardsError) as caught:
            dataset.open_dataset(asked)
        assert "class folders of pictures" in str(caught.value)
        assert f"`wds pack '{asked}' shards`" in str(caught.value)


def test_the_sets_of_a_split_are_named_one_by_one(folder: Path) -> None:
    for name in ("val", "train"):
        (folder / "sets" / name).mkdir(parents=True)
    with pytest.raises(NoShardsError) as caught:
        urls.expand("data/sets")
    assert "a dataset of its own" not in str(caught.value)
    for name in ("val", "train"):
        (folder / "sets" / name / "dataset.json").touch()
    with pytest.raises(NoShardsError, match=r"a dataset of its own: name one, such as 'data/sets/train'"):
        urls.expand("data/sets")
