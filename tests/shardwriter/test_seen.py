from hypothesis import given
from hypothesis import strategies as st

from shardwriter.seen import SeenKeys

WORD = st.integers(0, (1 << 64) - 1)
CROWDED = st.one_of(WORD, st.integers(0, 300), st.integers((1 << 64) - 300, (1 << 64) - 1))
"""Hashes at the two ends of the table, where they crowd and where the table stops."""


@given(st.lists(CROWDED, max_size=600), st.integers(1, 6))
def test_says_of_each_hash_whether_it_is_new(hashes: list[int], bits: int) -> None:
    seen = SeenKeys(bits)
    known: set[int] = set()
    for value in hashes:
        assert seen.add_hash(value) == ((value or 1) not in known)
        known.add(value or 1)
    assert len(seen) == len(known)


@given(st.lists(st.text(max_size=3)))
def test_is_a_set_of_strings(keys: list[str]) -> None:
    seen = SeenKeys()
    assert [seen.add(key) for key in keys] == [key not in keys[:place] for place, key in enumerate(keys)]


def test_holds_every_key_through_many_doublings() -> None:
    seen = SeenKeys(bits=2)
    assert all(seen.add(f"folder/{number}") for number in range(50_000))
    assert not any(seen.add(f"folder/{number}") for number in range(50_000))


def test_takes_at_most_32_bytes_a_key() -> None:
    seen = SeenKeys()
    for number in range(70_000):
        seen.add_hash(hash((number, "salt")) & (1 << 64) - 1)
    assert 16 <= seen.nbytes / len(seen) <= 32
