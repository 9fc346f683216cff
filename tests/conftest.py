"""What every test gets: a cache directory of its own, so that no test reads or writes the user's; no deadlines."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes says how busy the machine is, not whether the code is right. The same examples every time,
# so that a change passes or fails for its own sake; `pytest --hypothesis-profile=roaming` looks for new ones.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.register_profile("roaming", deadline=None)
settings.load_profile("steady")

# What was started in the background of a shell ignores SIGINT and hands that on; the tests that send it need it heard.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("cuda"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA device")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    return cache
