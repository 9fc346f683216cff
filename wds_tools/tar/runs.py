"""Runs of plain members and the samples they make: by `_walk.c` where it was built, else by `plain`.

Both give the same for the same bytes, so that nothing depends on which it is but time. From the buffer to the dict, a
sample of 512 bytes and a label costs 0.3 microseconds in C and 4 in Python; with an extension before each member, as
tarfile and webdataset's writers make them, 0.4 and 20.

Called as `runs.plain_members(...)`, so that one can be put in the place of the other.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from wds_tools.sample import BytesLike, RawSample
from wds_tools.tar import plain
from wds_tools.tar.plain import Plain, PlainSamples

__all__ = ["COMPILED", "Plain", "PlainSamples", "as_written", "plain_members", "plain_sample", "plain_samples"]


def _chosen() -> Any:
    try:
        return importlib.import_module("wds_tools._walk")
    except (ImportError, SystemError):  # not built, or for another machine, or for a Python with another ABI
        return plain


_module = _chosen()

COMPILED: bool = _module is not plain
"""Whether the walk is the one in C."""

plain_members: Callable[[BytesLike, int, int], list[Plain]] = _module.plain_members
plain_samples: Callable[[memoryview, str, int], PlainSamples] = _module.plain_samples
plain_sample: Callable[[memoryview, str], RawSample | None] = _module.plain_sample
as_written: Callable[[BytesLike], bool] = _module.as_written
