"""Tests of decoding run once with each backend of this installation; decoders that say nothing else take it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from wds_tools.pictures import decode


@pytest.fixture(scope="module", params=decode.BACKENDS)
def each_backend(request: pytest.FixtureRequest) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode, "BACKENDS", (request.param, *decode.BACKENDS))
        yield request.param
