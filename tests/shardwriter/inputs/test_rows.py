import csv
import io
import json
import pickle
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwriter.inputs.rows import CsvRows, JsonRows, TextRows, lookup
from wds_tools.errors import DataError, FieldError, UsageError


def read(rows: TextRows) -> list[dict[str, object]]:
    """All rows as the scan gives them, and held against what each is when it is asked for."""
    try:
        rows.head()  # type: ignore[attr-defined]
        scanned = [dict(row) for row in rows.scan(None)]  # type: ignore[attr-defined]
        assert [dict(rows[index]) for index in range(len(rows))] == scanned  # type: ignore[index]
    finally:
        rows.close()
    return scanned


def csv_file(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


cell = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=8)


@given(st.lists(st.tuples(cell, cell, cell), max_size=12), st.sampled_from([",", "\t", ";"]), st.booleans())
def test_any_table_that_csv_writes_is_read_at_any_place(
    values: list[tuple[str, str, str]], delimiter: str, mark: bool
) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerow(["a", "b", "c"])
    writer.writerows(values)
    with tempfile.TemporaryDirectory() as folder:
        path = csv_file(Path(folder) / "t.csv", text.getvalue().encode("utf-8-sig" if mark else "utf-8"))
        found = read(CsvRows(path, delimiter=delimiter))
    assert found == [dict(zip("abc", row, strict=True)) for row in values]


@given(st.lists(st.dictionaries(st.text(max_size=3), st.none() | st.integers() | st.text(max_size=5)), min_size=1))
def test_any_objects_that_json_writes_are_read_at_any_place(rows: list[dict[str, object]]) -> None:
    data = "\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode("utf-8", "surrogatepass")
    with tempfile.TemporaryDirectory() as folder:
        assert read(JsonRows(csv_file(Path(folder) / "t.jsonl", data))) == rows


def test_empty_lines_and_other_line_ends_do_not_count(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "t.csv", b'\r\na,b\r\n\r\n1,"two\r\nlines"\r\n\r\n3,4')
    assert read(CsvRows(path)) == [{"a": "1", "b": "two\r\nlines"}, {"a": "3", "b": "4"}]


def test_rows_that_do_not_fit_are_given_as_errors_in_their_places(tmp_path: Path) -> None:
    rows = CsvRows(csv_file(tmp_path / "t.csv", b"a,b\n1,2\n3\n4,5,6\ncaf\xe9,7\n8,9\n"))
    assert rows.head() == ("a", "b")
    found = list(rows.scan(None))
    assert [isinstance(row, FieldError) for row in found] == [False, True, True, True, False]
    assert dict(rows[4]) == {"a": "8", "b": "9"}
    for index, words in [(1, "1 values, 2 columns"), (2, "3 values"), (3, "0xe9.*--encoding latin-1")]:
        with pytest.raises(FieldError, match=words):
            rows[index]
    rows.close()


def test_other_encodings_are_read_when_they_are_said(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "t.csv", "a,b\ncafé,1\n".encode("latin-1"))
    assert read(CsvRows(path, encoding="latin-1")) == [{"a": "café", "b": "1"}]
    with pytest.raises(UsageError, match="iconv -f UTF-16"):
        read(CsvRows(csv_file(tmp_path / "w.csv", "a,b\n".encode("utf-16"))))
    for encoding, words in [("utf-16", "no single bytes"), ("klingon", "no encoding")]:
        with pytest.raises(UsageError, match=words):
            CsvRows(path, encoding=encoding)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b'a,b\n1,"never closed\n2,3\n', "begins at byte 4.*never closed"),
        (b'a,b\n1,"quote"and more\n', "begins at byte 4"),
    ],
)
def test_files_that_are_no_tables(tmp_path: Path, data: bytes, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read(CsvRows(csv_file(tmp_path / "t.csv", data)))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"a,b\r1,2\r3,4\r", r"carriage returns alone.*`tr '\\r' '\\n' < \S+ > mended.csv` mends that"),
        (b"a,b\n1," + b"x" * 200_000 + b"\n2,3\n", r"byte 4: field larger.*never closed.*so long.*\.jsonl"),
        (b'a,b\n1,"open\n' + b"2,3\n" * 50_000, r"byte 4: field larger.*never closed"),
    ],
)
def test_the_cure_fits_the_damage(tmp_path: Path, data: bytes, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read(CsvRows(csv_file(tmp_path / "t.csv", data)))


@pytest.mark.parametrize("kind", [CsvRows, JsonRows])
def test_a_file_without_line_breaks_does_not_fill_the_memory(tmp_path: Path, kind: type[CsvRows | JsonRows]) -> None:
    path = tmp_path / "t.csv"
    with path.open("wb") as file:
        file.truncate(1 << 34)  # holes, that take no room
    with pytest.raises(DataError, match=r"a line of 67,108,864 bytes or more, at byte 0"):
        kind(path).head()


def test_columns_have_names_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'a' twice"):
        CsvRows(csv_file(tmp_path / "t.csv", b"a,b,a\n")).head()
    with pytest.raises(UsageError, match="delimiter"):
        CsvRows(tmp_path / "t.csv", delimiter="::")
    with pytest.raises(UsageError, match="there is no"):
        CsvRows(tmp_path / "missing.csv").head()


def test_lines_that_are_no_objects_are_errors_in_their_places(tmp_path: Path) -> None:
    rows = JsonRows(csv_file(tmp_path / "t.jsonl", b'{"a": 1}\n{"a": \n[1]\n{"a": 2}'))
    assert rows.head() == ("a",)
    assert [isinstance(row, FieldError) for row in rows.scan(None)] == [False, True, True, False]
    with pytest.raises(FieldError, match="no JSON"):
        rows[1]
    assert rows[3] == {"a": 2}
    rows.close()
    with pytest.raises(DataError, match="no JSON object"):
        JsonRows(csv_file(tmp_path / "n.jsonl", b"1\n2\n")).head()


def test_columns_of_objects_are_found_behind_dots() -> None:
    row = {"meta": {"label": 3, "deep": {"er": 4}}, "a.b": 5}
    assert [lookup(row, name) for name in ("meta.label", "meta.deep.er", "a.b", "meta.none", "x.y", "a.b.c")] == [
        3, 4, 5, None, None, None,
    ]  # fmt: skip


def test_eight_bytes_a_row_and_a_content_that_tells_changes(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "t.csv", b"a,b\n" + b"x" * 50 + b",1\n" + b"1,2\n" * 10_000)
    rows = CsvRows(path)
    read(rows)
    data = pickle.dumps(rows)
    assert len(data) < 10_000 * 8 * 1.1
    again: CsvRows = pickle.loads(data)
    assert again[9_999] == {"a": "1", "b": "2"}
    again.close()
    other = CsvRows(csv_file(path, path.read_bytes().replace(b",1\n", b",3\n")))
    read(other)
    assert other.content != rows.content
