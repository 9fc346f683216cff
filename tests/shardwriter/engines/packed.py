"""Inputs that go wrong once, for runs in parts; in a module, so that workers of a cluster can load them."""

from __future__ import annotations

import errno
import hashlib
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shardwriter import BaseInput
from wds_tools.sample import Sample

OPTIONS: dict[str, Any] = {"max_samples": 3, "jobs": 1}


class Rows(BaseInput):
    """Texts by number. The first time that anyone asks for the sample `at`, something happens.

    Args:
        count: how many.
        at: the sample.
        mark: the file that says that it has happened.
        what: "kill" kills the process that asks, "full" is what a process gets that has no descriptors left, "bug" an
            error that is none of ours.
    """

    def __init__(self, count: int, at: int | None = None, mark: Path | None = None, what: str = "kill") -> None:
        self._count = count
        self._at = at
        self._mark = mark
        self._what = what

    def __len__(self) -> int:
        return self._count

    def fingerprint(self) -> Mapping[str, object]:
        return {"input": "rows", "samples": self._count}

    def sample(self, index: int) -> Sample:
        if index == self._at and self._mark is not None and not self._mark.exists():
            self._mark.write_text(str(os.getpid()))
            if self._what == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self._what == "bug":
                raise ZeroDivisionError("a bug of the user's")
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return {"__key__": f"{index:04d}", "txt": f"row {index}"}


def digest(folder: Path) -> dict[str, str]:
    """All files, hidden ones too."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }
