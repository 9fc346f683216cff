"""What the tests of stores share: a server that speaks S3, and file systems that misbehave."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.s3 import Store, running


@pytest.fixture(scope="session")
def server() -> Iterator[Store]:
    with running() as store:
        yield store


@pytest.fixture
def bucket(server: Store, request: pytest.FixtureRequest) -> str:
    """A bucket of the test's own."""
    return server.bucket(f"bucket-{abs(hash(request.node.nodeid))}")
