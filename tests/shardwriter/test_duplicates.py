import random

from hypothesis import given
from hypothesis import strategies as st

from shardwriter.duplicates import Contents, content_of, pictures_of


@given(
    st.lists(st.one_of(st.integers(1, (1 << 64) - 1), st.integers(1, 40), st.integers((1 << 64) - 40, (1 << 64) - 1)))
)
def test_is_a_dict_that_keeps_what_came_first(values: list[int]) -> None:
    contents = Contents(bits=2)
    expected: dict[int, int] = {}
    for place, value in enumerate(values):
        assert contents.find(value) == expected.get(value)
        contents.add(value, place)
        expected.setdefault(value, place)
        assert len(contents) == len(expected)
    assert all(contents.find(value) == place for value, place in expected.items())


def test_grows_far_beyond_its_first_size() -> None:
    source = random.Random(0)
    values = [source.getrandbits(64) or 1 for _ in range(50_000)]
    contents = Contents()
    for place, value in enumerate(values):
        contents.add(value, place)
    assert all(contents.find(value) == place for place, value in enumerate(values))
    assert contents.find(12345) is None


def test_pictures_alone_make_the_content() -> None:
    one = content_of({"__key__": "a", "jpg": b"picture", "cls": 1, "txt": b"x"})
    assert one == content_of({"__key__": "b", "png": b"picture", "cls": 2})
    assert one != content_of({"__key__": "a", "jpg": b"picturE", "cls": 1})
    assert pictures_of({"__key__": "a", "jpg": b"1", "cls": b"2", "b.png": b"3", "jpg.gz": b"4", "webp": [5]}) == [
        b"1",
        b"3",
    ]


def test_pictures_are_told_apart_where_they_meet() -> None:
    assert content_of({"a.jpg": b"12", "b.jpg": b"3"}) != content_of({"a.jpg": b"1", "b.jpg": b"23"})


def test_a_sample_without_pictures_has_no_content() -> None:
    assert content_of({"__key__": "a", "txt": b"x"}) == 0


def test_views_count_as_the_bytes_that_they_show() -> None:
    given = {"__key__": "a", "jpg": b"picture", "cls": b"1"}
    shown = {**given, "jpg": memoryview(b"a picture")[2:]}
    assert content_of(shown) == content_of(given)
    assert pictures_of(shown) == pictures_of(given)
