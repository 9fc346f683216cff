"""Whether an argument is of the kind that it should be, said where it is given and not where it would fail.

Numbers may be numpy's. A bool is no count, and "yes" no bool: both are slips that would pass otherwise.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from wds_tools.errors import UsageError

__all__ = ["check_count", "check_flag", "whole"]


def whole(value: Any) -> bool:
    """Whether a value is a whole number; a bool is not, nor is 8.0."""
    if isinstance(value, bool | np.bool_):
        return False
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def check_count(name: str, value: Any) -> None:
    """Raise UsageError unless the argument is a whole number of at least 1."""
    if not whole(value):
        raise UsageError(f"{name} is {value!r}, expected a whole number")
    if value < 1:
        raise UsageError(f"{name} is {value}, expected at least 1")


def check_flag(name: str, value: Any) -> None:
    """Raise UsageError unless the argument is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise UsageError(f"{name} is {value!r}, expected True or False")
