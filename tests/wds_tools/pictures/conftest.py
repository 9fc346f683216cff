"""Tests of decoding run once with each backend of this installation; decoders that say nothing else take it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from wds_tools.pictures import decode
from wds_tools.pictures.kernel import capability

RESIZE_ONLY = "kernel without libjpeg"
"""The kernel as it is where it was built without libjpeg."""


@pytest.fixture(scope="module", params=[*decode.BACKENDS, *([RESIZE_ONLY] if capability().jpeg else [])])
def each_backend(request: pytest.FixtureRequest) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        name = request.param
        if name == RESIZE_ONLY:
            patch.setattr(decode, "capability", lambda: capability()._replace(jpeg=False))
            name = "kernel"
        patch.setattr(decode, "BACKENDS", (name, *decode.BACKENDS))
        yield name
