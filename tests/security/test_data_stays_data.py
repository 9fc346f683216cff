"""What a shard holds stays data: its names lead to no file, it runs nothing, and a terminal shows it as text.

There is no command that unpacks shards into files: `tar` does that. Pages: tests/loaders/view; `wds serve`:
tests/wds_tools/serve; names in the cache: tests/wds_tools/sources/test_cache_names.py.
"""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import loaders
from shardwriter import pack
from shardwriter.inputs import open_shards
from tests.builders import picture, write_shard
from wds_tools.cli import root
from wds_tools.codec import decode_field
from wds_tools.errors import FieldError, ShardstreamError

ESCAPE = "\x1b]0;owned\x07\x1b[2Jkey\u202e"
KEYS = ["../../evil", "/tmp/evil", "a/../../../evil", "~/evil", "$(touch evil)", "evil;touch evil", "-rf", ESCAPE]


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A shard whose names lead elsewhere, in a folder of its own; and nothing beside it may change."""
    samples = [
        (key, {"jpg": picture(n), "cls": b"%d" % n, "txt": ESCAPE.encode(), "json": b'{"a": "\\u001b[31m"}'})
        for n, key in enumerate(KEYS)
    ]
    inner = tmp_path / "outer" / "inner"
    write_shard(inner / "s-0.tar", samples)
    monkeypatch.chdir(inner)
    monkeypatch.setenv("HOME", str(tmp_path / "outer"))
    yield inner
    assert sorted(path.name for path in (tmp_path / "outer").iterdir()) == ["inner"]
    assert not any("evil" in path.name for path in tmp_path.rglob("*"))


@pytest.mark.parametrize(
    "command",
    [
        *(
            "info s-0.tar",
            "ls s-0.tar",
            "ls --json s-0.tar",
            "cat s-0.tar #0",
            "cat s-0.tar #7",
            "cat --json s-0.tar #7",
        ),
        *("verify --decode s-0.tar", "index s-0.tar", "view s-0.tar --out sheet.png", "view s-0.tar --html page.html"),
        *("plan s-0.tar --batch-size 2", "reshard s-0.tar again --name x"),
    ],
)
def test_no_name_becomes_a_file_and_none_reaches_the_terminal_as_more_than_text(command: str, hostile: Path) -> None:
    run = CliRunner().invoke(root, command.split())
    assert run.exception is None or isinstance(run.exception, SystemExit), run.output
    assert "\x1b" not in run.output
    assert "\x07" not in run.output
    assert "\u202e" not in run.output
    assert {path.name for path in hostile.iterdir()} <= {
        "s-0.tar", "dataset.json", "dataset.offsets.npy", "sheet.png", "page.html", "again",
    }  # fmt: skip


def test_packing_takes_names_for_keys_alone(hostile: Path) -> None:
    pack(open_shards("s-0.tar"), "out", name="x", max_failures=None)
    assert {path.name for path in (hostile / "out").iterdir()} >= {"dataset.json"}


class _Runs:
    def __init__(self, file: Path) -> None:
        self.file = str(file)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.file,)


def _runs(kind: str, file: Path) -> bytes:
    """A field that makes a folder where it is unpickled."""
    value = _Runs(file)
    if kind == "npy":
        target = io.BytesIO()
        np.save(target, np.array([value], dtype=object), allow_pickle=True)
        return target.getvalue()
    if kind == "npz":
        target = io.BytesIO()
        np.savez(target, a=np.array([value], dtype=object))
        return target.getvalue()
    if kind == "pt":
        torch = pytest.importorskip("torch")
        target = io.BytesIO()
        torch.save({"a": value}, target)
        return target.getvalue()
    return pickle.dumps(value)


@pytest.mark.parametrize("kind", ["pkl", "pickle", "pyd", "pkl.gz", "npy", "npz", "pt", "pth"])
def test_nothing_is_unpickled(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "ran"
    data = _runs(kind.removesuffix("h") if kind == "pth" else kind.partition(".")[0], file)
    with pytest.raises(FieldError):
        decode_field(kind, data)
    shard = write_shard(tmp_path / "s.tar", [("a", {kind: data, "cls": b"1"})])
    for words in (["cat", str(shard), "a"], ["cat", "--json", str(shard), "a"], ["ls", str(shard)]):
        assert CliRunner().invoke(root, words).exit_code in {0, 1}
    with loaders.open(shard) as opened, pytest.raises(ShardstreamError):
        dict(opened[0])[kind]
    with pytest.raises(ShardstreamError):
        with loaders.ShardLoader(str(shard), batch_size=1, fields=("cls", kind)) as loader:
            list(loader)
    assert not file.exists()


def test_a_pickle_is_read_where_it_is_allowed_by_name(tmp_path: Path) -> None:
    file = tmp_path / "ran"
    decode_field("pkl", _runs("pkl", file), allow_pickle=True)
    assert file.exists()
