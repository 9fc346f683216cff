import click
import pytest

from shardwriter.commands.options import ByteSize


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1GB", 10**9),
        ("500MB", 5 * 10**8),
        ("1.5gb", 1_500_000_000),
        ("1GiB", 2**30),
        ("64 kib", 65536),
        ("2T", 2 * 10**12),
        ("12345", 12345),
        ("7B", 7),
    ],
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert ByteSize().convert(text, None, None) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "1XB", "1iB", "one", "1e9"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="no size"):
        ByteSize().convert(text, None, None)
