"""Tests of reading run with each of the walks: the one in C, where it was built, and the one in Python."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from wds_tools.tar import plain, runs

WALKS = {"c": runs._module, "python": plain} if runs.COMPILED else {"python": plain}


@pytest.fixture(scope="module", params=WALKS)
def each_walk(request: pytest.FixtureRequest) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        for function in ("plain_members", "plain_sample", "plain_samples"):
            patch.setattr(runs, function, getattr(WALKS[request.param], function))
        yield request.param
