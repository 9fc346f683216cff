"""No test of a source leaves connections to the next one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from wds_tools.sources.http import close_idle


@pytest.fixture(autouse=True)
def _no_idle_connections() -> Iterator[None]:
    yield
    close_idle()
