"""The page on errors has every class, and shows of each what the code of `docs_errors` really raises."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from tests.docs_errors import SCENES
from wds_tools import errors

PAGE = (Path(__file__).parent.parent / "docs/errors.md").read_text()
GROUPS = {"ShardstreamError", "DataError", "ShardError", "SampleError"}
"""Never raised themselves: for `except`."""
CLASSES = {
    name for name, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.ShardstreamError)
}
SHOWN = {
    name: message.strip()
    for name, message in re.findall(r"^### (\w+)\n.*?^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
}


def test_every_class_stands_on_the_page() -> None:
    assert set(SCENES) == CLASSES - GROUPS
    assert set(SHOWN) == set(SCENES)
    for group in GROUPS:
        assert f"`{group}`" in PAGE


@pytest.mark.parametrize("name", SCENES)
def test_the_message_is_the_one_shown(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.ShardstreamError) as raised:
        SCENES[name]()
    assert type(raised.value) is getattr(errors, name)
    message = str(raised.value).replace(f"{tmp_path}/", "")
    message = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:8000", message)  # the port is the system's choice
    assert re.sub(r"\bin \d+\.\d s\b", "in 0.0 s", message) == SHOWN[name]
