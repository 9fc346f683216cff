"""Whether an argument is of the kind that it should be, said where it is given and not where it would fail.

Numbers may be numpy's. A bool is no count, and "yes" no bool: both are slips that would pass otherwise.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from wds_tools.errors import UsageError

__all__ = ["MOST_PREFETCHED", "MOST_SAMPLES", "MOST_THREADS", "check_count", "check_flag", "whole"]

# Beyond what any machine is served by; a slip of digits would end in a lack of memory or threads somewhere else.
MOST_SAMPLES = 1_000_000  # in a rank's batch
MOST_THREADS = 1024
MOST_PREFETCHED = 10_000  # batches


def whole(value: Any) -> bool:
    """Whether a value is a whole number; a bool is not, nor is 8.0."""
    if isinstance(value, bool | np.bool_):
        return False
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def check_count(name: str, value: Any, *, most: int | None = None) -> None:
    """Raise UsageError unless the argument is a whole number of at least 1, and of at most `most`."""
    if not whole(value):
        raise UsageError(f"{name} is {value!r}, expected a whole number")
    if value < 1:
        raise UsageError(f"{name} is {value}, expected at least 1")
    if most is not None and value > most:
        raise UsageError(f"{name} is {value}, expected at most {most:,}")


def check_flag(name: str, value: Any) -> None:
    """Raise UsageError unless the argument is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise UsageError(f"{name} is {value!r}, expected True or False")
