"""DALI's and Energon's index files: byte for byte what their own tools write, where those are right.

The golden texts were made by DALI 2.4's `wds2idx` with GNU tar 1.34 in a UTF-8 locale, the offsets of Energon by the
rule of megatron-energon 7.4 (tarfile's own offsets).
"""

import tarfile
from pathlib import Path

import numpy as np
import pytest

from tests.wds_tools.made_shards import make_dataset, make_shard
from wds_tools.errors import ListingError, UsageError
from wds_tools.index import sidecars
from wds_tools.sources.resolve import open_source
from wds_tools.tar.walk import walk_source

SIZES = [307 * at + 7 for at in range(9)]
DEEP = "d/" * 60 + "k"
ODD = ["é.jpg", "b\\x.jpg", 'c"q.jpg', "t\tb.jpg", "n\nl.jpg", "\udce9.jpg"]


def written(path: Path, names: list[str], form: int = tarfile.USTAR_FORMAT) -> str:
    """What is written for a shard with these members, sizes 7, 314, ..."""
    make_shard(path / "a.tar", [(name, b"x" * size) for name, size in zip(names, SIZES, strict=False)], form=form)
    with open_source(str(path / "a.tar")) as source:
        sidecars.write_dali(path / "a.idx", walk_source(source))
    return (path / "a.idx").read_text("utf-8", "surrogateescape")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a.jpg", "b.jpg"], "v1.2 2\njpg 512 7 a.jpg\njpg 1536 314 b.jpg\n"),
        (
            ["a.jpg", "a.cls", "b.jpg", "b.cls"],
            "v1.2 2\njpg 512 7 a.jpg cls 1536 314 a.cls\njpg 2560 621 b.jpg cls 4096 928 b.cls\n",
        ),
        (
            ["d/", "d/a.jpg", "d/a.cls", "d/b.JPG"],
            "v1.2 2\njpg 1024 314 d/a.jpg cls 2048 621 d/a.cls\nJPG 3584 928 d/b.JPG\n",
        ),
        (
            ["q:r.jpg", "a.seg.png", "a.jpg", ".hid.jpg"],
            "v1.2 2\njpg 512 7 q:r.jpg\nseg.png 1536 314 a.seg.png jpg 2560 621 a.jpg\n",
        ),
        (
            ODD,
            (
                'v1.2 6\njpg 512 7 é.jpg\njpg 1536 314 b\\\\x.jpg\njpg 2560 621 c"q.jpg\njpg 4096 928 t\\tb.jpg\n'
                "jpg 5632 1235 n\\nl.jpg\njpg 7680 1542 \\351.jpg\n"
            ),
        ),
    ],
)
def test_dali_as_wds2idx_writes_it(tmp_path: Path, names: list[str], expected: str) -> None:
    assert written(tmp_path, names) == expected


def test_dali_with_pax_names_as_wds2idx_writes_it(tmp_path: Path) -> None:
    names = [DEEP + "1.jpg", DEEP + "1.cls", "z" * 120 + ".jpg", "s.jpg"]
    assert written(tmp_path, names, tarfile.PAX_FORMAT) == (
        f"v1.2 3\njpg 1536 7 {names[0]} cls 3584 314 {names[1]}\njpg 5632 621 {names[2]}\njpg 7168 928 s.jpg\n"
    )


def test_dali_with_gnu_long_names_points_at_the_data_where_wds2idx_does_not(tmp_path: Path) -> None:
    # wds2idx 2.4 writes 512 here, which is the long name's own data.
    name = "z" * 120 + ".jpg"
    assert written(tmp_path, [name], tarfile.GNU_FORMAT) == f"v1.2 1\njpg 1536 7 {name}\n"


def test_dali_leaves_the_names_out_where_one_has_a_space(tmp_path: Path) -> None:
    text = written(tmp_path, ["a b.jpg", "a b.cls", "c.jpg"])
    assert text == "v1.1 2\njpg 512 7 cls 1536 314\njpg 2560 621\n"


def test_dali_has_no_line_for_what_makes_no_sample(tmp_path: Path) -> None:
    names = ["README", "__meta__/info.json", "a.jpg", "._a.cls", "a.cls"]
    assert written(tmp_path, names) == "v1.2 1\njpg 2560 621 a.jpg cls 5632 1235 a.cls\n"


@pytest.mark.parametrize("name", ["Track 2.0 (Clean).mp3", "a."])
def test_dali_cannot_express_some_extensions(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="extension") as caught:
        written(tmp_path, [name])
    assert caught.value.key == name
    assert not (tmp_path / "a.idx").exists()


def test_dali_of_an_empty_shard(tmp_path: Path) -> None:
    assert written(tmp_path, []) == "v1.2 0\n"


def test_dali_reads_back_what_it_writes(tmp_path: Path) -> None:
    for names in (["a.jpg", "a.cls", "b.jpg"], ["a b.jpg", "a b.cls", "b.jpg"], ODD):
        text = written(tmp_path, names)
        found = sidecars.parse_dali(text.encode("utf-8", "surrogateescape"), "a.idx")
        assert [(each.size) for sample in found for each in sample] == SIZES[: len(names)]


def test_dali_rows_of_others_that_make_no_sample_are_left_out() -> None:
    text = b"v1.2 3\nREADME 512 7 README\njpg 1536 7 a.jpg\njson 2560 7 __meta__/info.json\n"
    assert [[each.data for each in sample] for sample in sidecars.parse_dali(text, "a.idx")] == [[1536]]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"v1.3 1\njpg 512 7 a.jpg\n",
        b"v1.2 2\njpg 512 7 a.jpg\n",
        b"v1.2 1\njpg 512 7\n",
        b"v1.2 1\njpg 512 7 a b.jpg\n",
        b"v1.2 1\njpg 500 7 a.jpg\n",
        b"v1.2 1\njpg 0 7 a.jpg\n",
        b"v1.2 1\njpg 512 -7 a.jpg\n",
        b"v1.2 1\njpg x 7 a.jpg\n",
        b"v1.2 1\n\n",
        b"\xff\xfe\x00",
        b"v1.1 1\njpg 512 7 cls\n",
        b"v1.2 2\njpg 1536 7 a.jpg\njpg 512 7 b.jpg\n",
        b"v1.2 1\njpg 512 2000 a.jpg cls 1536 7 a.cls\n",
    ],
)
def test_a_damaged_dali_index_is_named(data: bytes) -> None:
    with pytest.raises(ListingError) as caught:
        sidecars.parse_dali(data, "a.idx")
    assert caught.value.url == "a.idx"


def test_energon(tmp_path: Path) -> None:
    (row,) = make_dataset(tmp_path, [5])
    sidecars.write_energon(tmp_path / "a.tar.idx", row)
    assert (tmp_path / "a.tar.idx").read_bytes() == b"".join(int(each).to_bytes(8, "little") for each in row)
    np.testing.assert_array_equal(np.fromfile(tmp_path / "a.tar.idx", "<u8"), row)


def test_where_they_lie() -> None:
    assert sidecars.dali_path("/d/a.b.tar") == "/d/a.b.idx"
    assert sidecars.energon_path("/d/a.b.tar") == "/d/a.b.tar.idx"
