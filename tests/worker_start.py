"""How the DataLoader workers of a test's job of several ranks start."""

from __future__ import annotations

import multiprocessing
import sys
from typing import Literal

__all__ = ["beside_gloo"]


def beside_gloo(*imports: str) -> Literal["forkserver"] | None:
    """The `multiprocessing_context` in a process that has threads of gloo.

    A child that is forked while such a thread makes itself known to Python waits for ever, before its first line:
    https://github.com/python/cpython/issues/112275, mended in 3.11.10. It was seen once, on a busy machine.

    Args:
        imports: what the workers need, imported once for all of them.
    """
    if sys.version_info >= (3, 11, 10):
        return None
    multiprocessing.set_forkserver_preload(["torch", *imports])
    return "forkserver"
