import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwriter.keys import check_keys, key_of, original_lines, originals_name, path_key, refuse_equal
from wds_tools.errors import FieldError, KeyRefusedError, UsageError
from wds_tools.names import check_key


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("a/b.jpg", "a/b"),
        ("a.v1/b.2.jpg", "a.v1/b_2"),
        ("b.jpg", "b"),
        ("a/noext", "a/noext"),
        ("a/with blank.jpg", "a/with blank"),
    ],
)
def test_a_path_gives_a_key_that_writers_take(path: str, key: str) -> None:
    assert path_key(path) == key
    check_key(key)


@pytest.mark.parametrize("keys", ["number", "hash"])
@pytest.mark.parametrize("name", ["\udce9.jpg", "a\\b.jpg", "x" * 5000, "two\nlines", "../up.jpg"])
def test_numbers_and_hashes_serve_names_that_cannot_be_keys(keys: str, name: str) -> None:
    check_key(key_of(check_keys(keys), 3, 10, name, path_key))


def test_numbers_sort_as_the_input() -> None:
    count = 1_000_000_000
    keys = [key_of("number", index, count, "", path_key) for index in (0, 9, 10, 999_999_999)]
    assert keys == sorted(keys) == ["000000000", "000000009", "000000010", "999999999"]
    assert key_of("number", 1, 10, "", path_key) == "00000001"


def test_a_hash_depends_on_the_name_alone() -> None:
    assert key_of("hash", 1, 10, "a.jpg", path_key) == key_of("hash", 7, 99, "a.jpg", path_key)
    assert key_of("hash", 1, 10, "a.jpg", path_key) != key_of("hash", 1, 10, "b.jpg", path_key)


def test_a_mode_that_does_not_exist_names_those_that_do() -> None:
    with pytest.raises(UsageError, match="'path', 'number', 'hash'"):
        check_keys("name")


@given(st.lists(st.text(alphabet="abAé\u0301e", max_size=3), max_size=30))
def test_equal_keys_are_refused_exactly_where_there_are_some(keys: list[str]) -> None:
    import unicodedata

    folded = [unicodedata.normalize("NFC", key) for key in keys]
    twice = len(folded) - len(set(folded))
    if not twice:
        refuse_equal(len(keys), keys.__getitem__, str)
        return
    with pytest.raises(KeyRefusedError) as caught:
        refuse_equal(len(keys), keys.__getitem__, str)
    assert str(caught.value).startswith("two samples" if twice == 1 else f"{twice} samples")


def test_names_that_differ_in_how_accents_are_composed_are_named() -> None:
    keys = ["caf\u00e9", "cafe", "cafe\u0301"]
    with pytest.raises(KeyRefusedError, match=r"0 and 2.*--keys hash"):
        refuse_equal(3, keys.__getitem__, str)


class Renamed:
    def __init__(self, names: list[str]) -> None:
        self.names = names

    def __len__(self) -> int:
        return len(self.names)

    def key(self, index: int) -> str:
        return f"{index:08d}"

    def original(self, index: int) -> str:
        return self.names[index]


def test_the_originals_have_a_line_each_whatever_they_hold() -> None:
    names = ["a.jpg", "tab\there", "line\nbreak", "back\\slash", "\udce9"] + [str(n) for n in range(10_000)]
    lines = b"".join(original_lines(Renamed(names))).split(b"\n")
    assert lines[:5] == [
        b"00000000\ta.jpg", b"00000001\ttab\\there", b"00000002\tline\\nbreak", b"00000003\tback\\\\slash",
        b"00000004\t\xe9",
    ]  # fmt: skip
    assert len(lines) == len(names) + 1
    assert originals_name("train") == "train.keys.tsv"


def test_a_sample_without_a_key_has_no_line() -> None:
    class Torn(Renamed):
        def original(self, index: int) -> str:
            if index == 1:
                raise FieldError("the row has 1 values, 2 columns are named")
            return self.names[index]

    assert b"".join(original_lines(Torn(["a", "b", "c"]))) == b"00000000\ta\n00000002\tc\n"
