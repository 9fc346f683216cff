import hashlib
from typing import Any

import pytest

from wds_tools.checksum import begin, check_kind, known
from wds_tools.errors import UsageError


# As `xxhsum -H3`, `sha256sum` and `md5sum` print them.
@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        ("xxh3", b"", "2d06800538d394c2"),
        ("xxh3", b"shardstream", "cc7afdc1c537d74d"),
        ("sha256", b"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ("md5", b"abc", "900150983cd24fb0d6963f7d28e17f72"),
    ],
)
def test_digests_are_what_other_programs_print(kind: str, data: bytes, expected: str) -> None:
    digest = begin(kind)
    for at in range(len(data)):
        digest.update(data[at : at + 1])
    assert digest.hexdigest() == expected


def test_kinds_that_can_be_checked() -> None:
    assert known("xxh3")
    assert known("sha256")
    assert known("md5") == ("md5" in hashlib.algorithms_available)
    assert not known("crc99")
    assert not known("shake_128")  # has no length of its own


@pytest.mark.parametrize("kind", [None, "xxh3", "sha256"])
def test_kinds_that_can_be_written(kind: str | None) -> None:
    check_kind(kind)


@pytest.mark.parametrize("kind", ["md5", "", "XXH3", 3])
def test_others_are_refused(kind: Any) -> None:
    with pytest.raises(UsageError, match="expected one of 'xxh3', 'sha256', or None"):
        check_kind(kind)
