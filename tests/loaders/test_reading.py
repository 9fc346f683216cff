"""What a Reading may say."""

from typing import Any

import pytest

from loaders import Reading
from wds_tools.errors import UsageError


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"block_bytes": 0}, r"Reading.block_bytes is 0"),
        ({"prefetch_bytes": -1}, r"Reading.prefetch_bytes is -1"),
        ({"prefetch": 0}, r"Reading.prefetch"),
        ({"cache_bytes": 1 << 30}, r"without a cache_dir.*Say where"),
        ({"cache_dir": ""}, r"Reading.cache_dir is empty.*the current one is '.'"),
        ({"remote": {}}, r"expected a loaders.Remote"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_made(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Reading(**options)
