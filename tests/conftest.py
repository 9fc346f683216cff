"""What every test gets: a cache directory of its own, so that no test reads or writes the user's; no deadlines."""

from __future__ import annotations

import gc
import importlib.util
import itertools
import re
import signal
import threading
from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes says how busy the machine is, not whether the code is right. The same examples every time,
# so that a change passes or fails for its own sake, and 60 of them in place of 100, so that `make test` is run often;
# `pytest --hypothesis-profile=roaming` looks for new ones.
settings.register_profile("steady", deadline=None, derandomize=True, max_examples=60)
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


# Where torch or the packages that only tests use are not installed (`make test-python`), the modules that need them are
# left out; a folder whose fixtures need them as a whole.
_NEEDS = {
    "torch": r"torch\b|loaders\.torch|wds_tools\.torch|loaders\.interop\.takers|tests\.cases\.inputs_fields"
    r"|tests\.loaders import ddp_scenarios",
    "torchdata": r"torchdata\b",
    "pytorch_lightning": r"pytorch_lightning\b",
    "accelerate": r"accelerate\b",
    "moto": r"moto\b|boto3|tests\.s3",
    "cv2": r"cv2\b",
    "ray": r"ray\b",
}
_missing = "|".join(names for package, names in _NEEDS.items() if importlib.util.find_spec(package) is None)
_import = re.compile(rf"^(?:from|import) (?:{_missing})", re.MULTILINE)
collect_ignore = [
    str(path.parent if path.name == "conftest.py" else path)
    for path in Path(__file__).parent.rglob("*.py")
    if _missing and path != Path(__file__) and _import.search(path.read_text(encoding="utf-8"))
]

# What imports nothing of torch and still starts something that does: commands, jobs, fields.
_NEED_TORCH = (
    *("loaders/commands/test_tune.py", "loaders/test_mix.py::test_torch_takes", "loaders/test_mix.py::test_workers_of"),
    *("loaders/test_remote_ddp.py", "wds_tools/commands/test_doctor.py::test_each_finding", "wds_tools/test_demo.py"),
    *("wds_tools/commands/test_remote.py::test_all_commands", "wds_tools/commands/test_remote.py::test_tune_prints"),
    *("wds_tools/show/test_values.py::test_a_field_in_a_line[pt-", "wds_tools/test_cli.py::test_the_table_and"),
)
if importlib.util.find_spec("torch") is None:
    collect_ignore.append(str(Path(__file__).parent / "wds_tools/test_commands.py"))  # imports all commands


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if importlib.util.find_spec("torch") is None:
        for item in items:
            if item.nodeid.removeprefix("tests/").startswith(_NEED_TORCH):
                item.add_marker(pytest.mark.skip("needs torch"))


def pytest_collection_finish() -> None:
    """Leave out of garbage collections what pytest and the imports have made: 620,000 objects, 0.4 s each time.

    Many tests ask for a collection before they count what is left. They were a quarter of what `make test` took.
    """
    gc.collect()
    gc.freeze()


_numbers = itertools.count()


@pytest.fixture(scope="session")
def _caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("caches")


@pytest.fixture(autouse=True)
def _own_cache(_caches: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # not `mktemp`, which looks through all folders of the session for the next number: 4 ms after a few thousand tests
    cache = _caches / str(next(_numbers))
    cache.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    return cache


@pytest.fixture(autouse=True)
def _nothing_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests count requests, and busy machines answer late: nothing is asked for once more but in test_http_wire.py."""
    monkeypatch.setattr("wds_tools.sources.http.hosts._LATE_S", 1000.0)
