import http.server
import json
import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardwriter.inputs.manifest import Manifest, manifest_file
from tests.builders import picture
from wds_tools.codec import encode_field
from wds_tools.errors import DataError, FieldError, KeyRefusedError, MissingFieldError, UsageError

Packed = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path, fill: Callable[..., Path]) -> Path:
    """Four pictures and masks to point at."""
    return fill(
        tmp_path,
        {f"p/{name}.jpg": picture(number) for number, name in enumerate("abcd")}
        | {f"m/{name}.png": picture(number, form="PNG") for number, name in enumerate("abcd")},
    )


def test_columns_become_fields(folder: Path, packed: Packed) -> None:
    (folder / "t.csv").write_text(
        "file,breed,caption,mask,width\n"
        'p/a.jpg,dog,"one, ""two""\nthree",m/a.png,4\n'
        "p/b.jpg,cat,,m/b.png,5\n"
        f"{folder}/p/c.jpg,dog,x,m/c.png,6\n"
    )
    columns = {"caption": "txt", "mask": "seg.png", "width": "count", "*": "json"}
    with manifest_file(folder / "t.csv", label="breed", columns=columns | {"width": "json"}) as samples:
        done = packed(samples)
    assert done.summary.classes == ("cat", "dog")
    assert list(done.rows) == ["p/a", "p/b", "p/c"]
    assert done.rows["p/a"] == {
        "jpg": picture(0), "cls": b"1", "txt": b'one, "two"\nthree', "seg.png": picture(0, form="PNG"), "json": b"4",
    } | {"json": done.rows["p/a"]["json"]}  # fmt: skip
    assert done.rows["p/b"]["txt"] == b""


def test_all_other_columns_go_into_one_object(folder: Path) -> None:
    (folder / "t.csv").write_text("image,label,a,b\np/a.jpg,3,x,\n")
    with manifest_file(folder / "t.csv", label="label", columns={"*": "json"}) as samples:
        assert samples.sample(0) == {"__key__": "p/a", "jpg": picture(0), "cls": 3, "json": b'{"a":"x","b":""}'}
    with pytest.raises(UsageError, match="does not go into txt"):
        manifest_file(folder / "t.csv", columns={"*": "txt"})


def test_rows_that_cannot_be_packed_are_reported_one_by_one(folder: Path, packed: Packed) -> None:
    (folder / "t.tsv").write_bytes(
        b"image\tlabel\n" + b"".join(b"p/%s.jpg\t%d\n" % (name, at) for at, name in enumerate([b"a", b"b", b"c"]))
        + b"p/gone.jpg\t1\n\t1\np/d.jpg\t\np/a.jpg\n" + b"".join(b"p/%d.jpg\t1\n" % n for n in range(9))
        + b"p/d.jpg\tx\n"
    )  # fmt: skip
    with pytest.raises(KeyRefusedError, match=r"row 6: p/d\.jpg and .*row 17: p/d\.jpg"):
        manifest_file(folder / "t.tsv", label="label")
    with manifest_file(folder / "t.tsv", label="label", keys="number") as samples:
        assert (samples.renamed, samples.original(0)) == (True, "p/a.jpg")
        done = packed(samples)
    assert list(done.rows) == ["00000000", "00000001", "00000002"]
    lines = [json.loads(line) for line in done.failures]
    assert [line["path"].removeprefix(str(folder)) for line in lines[:4]] == [
        "/t.tsv row 4: p/gone.jpg", "/t.tsv row 5: row 5", "/t.tsv row 6: p/d.jpg", "/t.tsv row 7",
    ]  # fmt: skip
    for line, words in zip(
        lines, ["there is no ", "image in the column 'image' is missing", "missing", "1 values"], strict=False
    ):
        assert words in line["reason"]
    assert len(lines) == 14
    assert "no whole number but 'x'" in lines[-1]["reason"]


def test_json_lines_hold_objects_and_nulls(folder: Path, packed: Packed) -> None:
    rows = [
        {"path": "p/a.jpg", "meta": {"label": "x", "tags": ["t"]}, "caption": "one"},
        {"path": "p/b.jpg", "meta": {"label": "y", "tags": []}, "caption": None},
    ]
    (folder / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    columns = {"caption": "txt?", "meta.tags": "json"}
    with manifest_file(folder / "t.jsonl", label="meta.label", columns=columns) as samples:
        assert packed(samples).rows["p/a"] == {"jpg": picture(0), "cls": b"0", "txt": b"one", "json": b'["t"]'}
        assert set(samples.sample(1)) == {"__key__", "jpg", "cls", "json"}
    with manifest_file(folder / "t.jsonl", columns={"caption": "txt"}) as samples:
        with pytest.raises(MissingFieldError, match=r"'caption' is empty.*txt\?"):
            samples.sample(1)


def test_parquet_columns_are_read_without_the_rest(folder: Path, packed: Packed) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"image": ["p/a.jpg", "p/b.jpg"], "label": [1, None], "caption": ["x", "y"]})
    parquet.write_table(table, folder / "t.parquet")
    with manifest_file(folder / "t.parquet", label="label", columns={"caption": "txt"}) as samples:
        done = packed(samples)
    assert done.rows == {"p/a": {"jpg": picture(0), "cls": b"1", "txt": b"x"}}
    assert "the label in the column 'label' is missing" in done.failures[0]


def test_pictures_inside_of_parquet_are_packed(folder: Path, packed: Packed) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    images = [{"bytes": picture(number), "path": f"x/{number}.jpeg"} for number in range(600)]
    parquet.write_table(arrow.table({"image": images, "label": list(range(600))}), folder / "t.parquet")
    with manifest_file(folder / "t.parquet", label="label") as samples:
        done = packed(samples, shuffle=True)
    assert done.rows["x/599"] == {"jpeg": picture(599), "cls": b"599"}
    assert len(done.rows) == 600
    bare = [picture(1), None, b"no picture"]
    parquet.write_table(arrow.table({"image": arrow.array(bare, arrow.binary())}), folder / "b.parquet")
    with manifest_file(folder / "b.parquet") as samples:
        done = packed(samples)
    assert done.rows == {"00000000": {"jpg": picture(1)}}
    assert ["missing" in done.failures[0], "no picture" in done.failures[1]] == [True, True]


@pytest.fixture
def server(folder: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()
        thread.join()


def test_urls_are_fetched(folder: Path, server: str, packed: Packed) -> None:
    (folder / "t.csv").write_text(f"url\n{server}/p/a.jpg?size=full\n{server}/p/b.jpg\n{server}/p/none.jpg\n")
    with manifest_file(folder / "t.csv") as samples:
        done = packed(samples)
    assert done.rows == {"127.0.0.1/p/a": {"jpg": picture(0)}, "127.0.0.1/p/b": {"jpg": picture(1)}}
    assert len(done.failures) == 1


def test_arrays_and_pictures_without_extension(folder: Path) -> None:
    array = np.arange(6, dtype=np.uint8).reshape(2, 3)
    (folder / "p/noext").write_bytes(picture(7, form="WEBP"))
    (folder / "x.npy").write_bytes(encode_field("npy", array))
    (folder / "t.csv").write_text("image,x\np/noext,x.npy\n")
    with manifest_file(folder / "t.csv", columns={"x": "depth.npy"}) as samples:
        sample = samples.sample(0)
    assert sample == {"__key__": "p/noext", "webp": picture(7, form="WEBP"), "depth.npy": encode_field("npy", array)}


def test_keys_from_a_column(folder: Path) -> None:
    (folder / "t.csv").write_text("image,id\np/a.jpg,x.1\np/b.jpg,x_1\np/c.jpg,\n")
    with pytest.raises(KeyRefusedError, match="x_1"):
        manifest_file(folder / "t.csv", key="id")
    with manifest_file(folder / "t.csv", key="id", keys="hash") as samples:
        assert samples.original(0) == "x.1"
        with pytest.raises(FieldError, match="key in the column 'id' is missing"):
            samples.key(2)


def test_paths_are_relative_to_the_table_or_to_the_root(folder: Path) -> None:
    (folder / "lists").mkdir()
    (folder / "lists/t.csv").write_text("image\n../p/a.jpg\n")
    with manifest_file(folder / "lists/t.csv", keys="hash") as samples:
        assert samples.sample(0)["jpg"] == picture(0)
    (folder / "lists/u.csv").write_text("image\na.jpg\n")
    with manifest_file(folder / "lists/u.csv", root=folder / "p") as samples:
        assert samples.sample(0) == {"__key__": "a", "jpg": picture(0)}


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("a,b\n1,2\n", {}, r"none is known to hold pictures.*--image-column.*'a', 'b'"),
        ("image,file\n1,2\n", {}, "several could hold the pictures: image, file"),
        ("image,b\n1,2\n", {"label": "c"}, "no column 'c'.*'image', 'b'"),
        ("image,b\n1,2\n", {"image": "c"}, "no column 'c'"),
        ("image,b\n1,\n", {"label": "b"}, "no column 'b', or it is empty in all rows"),
        ("image,b\n", {}, "no rows"),
        ("image,b\n1,2\n", {"columns": {"b": "JPG/x"}}, "slash"),
        ("image,b\n1,2\n", {"keys": "names"}, "keys is"),
    ],
)
def test_tables_and_options_that_do_not_fit(tmp_path: Path, text: str, options: dict[str, Any], words: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(UsageError, match=words):
        manifest_file(tmp_path / "t.csv", **options)


def test_files_that_are_no_tables(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no table that is known by its name"):
        manifest_file(tmp_path / "t.xlsx")
    pytest.importorskip("pyarrow")
    (tmp_path / "t.parquet").write_bytes(b"PAR1 or not")
    with pytest.raises(DataError, match="no Parquet file"):
        manifest_file(tmp_path / "t.parquet")
    with pytest.raises(UsageError, match="there is no"):
        manifest_file(tmp_path / "missing.parquet")


def test_a_parquet_file_whose_pages_are_damaged_is_an_error_of_ours(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"key": ["a", "b"], "caption": ["x", "y"]}), tmp_path / "t.parquet")
    whole = (tmp_path / "t.parquet").read_bytes()
    refused = 0
    for place in range(4, 60):  # the header of a page and the page
        (tmp_path / "t.parquet").write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
        try:
            manifest_file(tmp_path / "t.parquet", key="key", columns={"caption": "txt"}).close()
        except DataError as error:
            assert "damaged" in str(error)  # noqa: PT017
            refused += 1
    assert refused > 20


def test_a_parquet_file_that_counts_other_rows_than_it_has_is_damaged(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"key": ["a", "b"], "caption": ["x", "y"]}), tmp_path / "t.parquet")
    whole, refused = (tmp_path / "t.parquet").read_bytes(), 0
    for at in range(len(whole) - 1):
        if whole[at : at + 2] == b"\x16\x04":  # a field of Thrift that says 2: here that it says -2
            (tmp_path / "t.parquet").write_bytes(whole[: at + 1] + b"\x03" + whole[at + 2 :])
            try:
                manifest_file(tmp_path / "t.parquet", key="key", columns={"caption": "txt"}).close()
            except DataError as error:
                refused += "it says that it has -2 and 2 rows" in str(error)
    assert refused


def test_a_row_of_parquet_that_does_not_decode_is_one_bad_sample(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    ends, text = pa.array([0, 1, 2, 3], pa.int32()).buffers()[1], pa.py_buffer(b"x\xffz")
    captions = pa.StringArray.from_buffers(3, ends, text)
    table = pa.table({"key": ["a", "b", "c"], "caption": captions, "at": [{"bytes": 1}] * 3})
    parquet.write_table(table, tmp_path / "t.parquet")
    with manifest_file(tmp_path / "t.parquet", key="key", columns={"caption": "txt", "at": "json"}) as samples:
        assert [samples.sample(at)["txt"] for at in (0, 2)] == [b"x", b"z"]
        with pytest.raises(FieldError, match="row 2"):
            samples.sample(1)


def test_a_table_without_columns_is_said_to_have_none(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match=r"\(--image-column\)\. There is none at all\.$"):
        manifest_file(tmp_path / "t.jsonl")


def test_labels_that_are_left_behind_are_said(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "t.csv").write_text("image,label\np/a.jpg,1\n")
    with manifest_file(folder / "t.csv"):
        assert "the column 'label' is not packed" in caplog.text


def test_fingerprints_tell_what_changed(folder: Path) -> None:
    (folder / "t.csv").write_text("image,label\np/a.jpg,1\np/b.jpg,2\n")

    def fingerprint(**options: Any) -> dict[str, object]:
        with manifest_file(folder / "t.csv", **options) as samples:
            assert isinstance(samples, Manifest)
            return dict(samples.fingerprint())

    before = fingerprint(label="label")
    assert fingerprint(label="label") == before
    other = fingerprint(label="label", columns={"label": "txt"})
    assert {name for name in before if before[name] != other[name]} == {"columns"}
    (folder / "t.csv").write_text("image,label\np/a.jpg,1\np/b.jpg,3\n")
    assert {name for name, value in fingerprint(label="label").items() if before[name] != value} == {"content"}


def test_text_alone_can_be_packed(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("caption,n\nhello,1\n")
    with manifest_file(tmp_path / "t.csv", columns={"caption": "txt", "n": "index"}) as samples:
        assert samples.sample(0) == {"__key__": "00000000", "txt": b"hello", "index": b"1"}


def test_places_that_are_none_are_failures_of_their_rows(folder: Path, packed: Packed) -> None:
    above = f"../{folder.name}/p/a.jpg"
    places = ["http://[broken/a.jpg", "file://elsewhere/a.jpg", "odd://x/a.jpg", "p/nul\0.jpg", "p", above]
    rows = [{"image": place} for place in [*places, "p/b.jpg"]]
    (folder / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with manifest_file(folder / "t.jsonl") as samples:
        done = packed(samples)
    assert list(done.rows) == ["p/b"]
    assert len(done.failures) == len(places)
    for line, words in zip(
        done.failures, ["is no url", "another host", "odd://", "is no path", "directory", "'.' or '..'"], strict=True
    ):
        assert words in line


def test_an_optional_column_may_be_empty_in_all_rows(folder: Path) -> None:
    (folder / "t.csv").write_text("image,caption\np/a.jpg,\n")
    with manifest_file(folder / "t.csv", columns={"caption": "txt?"}) as samples:
        assert set(samples.sample(0)) == {"__key__", "jpg"}
    with pytest.raises(UsageError, match="no column 'captoin'"):
        manifest_file(folder / "t.csv", columns={"captoin": "txt?"})


def test_a_cell_of_brackets_without_end_is_a_failure_of_its_row(folder: Path, packed: Packed) -> None:
    (folder / "t.csv").write_text(f"image,box\np/a.jpg,{'[' * 100_000}\np/b.jpg,[1]\n")
    with manifest_file(folder / "t.csv", columns={"box": "json"}) as samples:
        done = packed(samples)
    assert list(done.rows) == ["p/b"]
    assert len(done.failures) == 1
    assert "is no JSON" in done.failures[0]


def test_pipes_and_devices_are_failures_of_their_rows(folder: Path, packed: Packed) -> None:
    os.mkfifo(folder / "p" / "pipe.jpg")
    (folder / "t.csv").write_text("image\np/pipe.jpg\n/dev/zero\np/b.jpg\n")
    with manifest_file(folder / "t.csv") as samples:
        done = packed(samples)
    assert list(done.rows) == ["p/b"]
    assert sum("a pipe or a device" in line for line in done.failures) == 2


def test_passwords_and_signatures_stay_in_the_table(folder: Path, server: str, packed: Packed) -> None:
    signed = "?sv=2022-11-02&sig=s3cret&page=1"
    own = server.replace("//", "//me:s3cret@")
    (folder / "t.csv").write_text(f"url\n{own}/p/a.jpg{signed}\n{server}/p/none.jpg?token=s3cret\n{server}/p/b.jpg\n")
    with manifest_file(folder / "t.csv", keys="hash") as samples:
        packed(samples)
        assert [samples.original(at) for at in (0, 2)] == [f"{server}/p/a.jpg?page=1", f"{server}/p/b.jpg"]
        assert "s3cret" not in "".join(map(samples.name, range(3)))
        key = samples.key(0)
    (folder / "t.csv").write_text(f"url\n{server}/p/a.jpg{signed.replace('s3cret', 'anew')}\n")
    with manifest_file(folder / "t.csv", keys="hash") as samples:
        assert samples.key(0) == key
