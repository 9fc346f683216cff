"""A minute of the soak; `make soak` does ten."""

from __future__ import annotations

import pytest

from tests.soak.feeds import FEEDS
from tests.soak.soak import soak

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:.*can only test a child process"),  # torch's, of an iterator that was forked
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # of loaders left in tracebacks
]


def test_training_gets_its_plan_or_the_right_error_while_everything_fails() -> None:
    figures = soak(60, seed=0)
    assert figures["trainings"] > len(FEEDS)  # each once, then with troubles: as many as this machine has time for
    assert any(not outcome.endswith(("whole", "stopped")) for outcome in figures["outcomes"])
