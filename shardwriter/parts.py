"""Which part of a run: (i, n), the i-th of n, i from 0 on; and into how many parts a run is cut."""

from __future__ import annotations

from typing import TypeAlias

from wds_tools.errors import UsageError, counted

__all__ = ["Part", "check_enough", "check_part", "check_parts", "parts_for"]

Part: TypeAlias = tuple[int, int]
"""(i, n): the i-th of n parts, i from 0 on."""

SAMPLES_A_PART = 100_000
"""Ten GB of ImageNet's pictures: minutes of work, little to lose with a machine, and few parts to join."""
MOST_PARTS = 1024


def check_part(part: Part | None) -> Part | None:
    """Accept (i, n) with 0 <= i < n.

    Raises:
        UsageError: anything else.
    """
    if part is None:
        return None
    whole = isinstance(part, tuple) and len(part) == 2 and all(type(number) is int for number in part)
    if not whole or not 0 <= part[0] < part[1]:
        raise UsageError(f"part is {part!r}, expected (i, n) with i from 0 to n - 1, such as (3, 16)")
    return part


def check_parts(parts: int | None) -> int | None:
    """Accept 1 and more, and None.

    Raises:
        UsageError: anything else.
    """
    if parts is not None and (isinstance(parts, bool) or not isinstance(parts, int) or parts < 1):
        raise UsageError(f"parts is {parts!r}, expected an int of 1 or more")
    return parts


def check_enough(samples: int, parts: int) -> None:
    """See that each part has a sample; an input without any makes one part.

    Raises:
        UsageError: there are more parts than samples, so that some would be datasets of nothing.
    """
    if parts > max(samples, 1):
        cure = f"Ask for {samples:,} parts or fewer" if samples > 1 else "Pack it in one piece"
        raise UsageError(
            f"the input has {counted(samples, 'sample')}, less than one for each of {parts:,} parts",
            cure=f"{cure}: a part of {SAMPLES_A_PART:,} samples is a good size.",
        )


def parts_for(samples: int) -> int:
    """Into how many parts to cut a run where nobody says: by the number of samples alone, as it decides the bytes."""
    return max(1, min(MOST_PARTS, -(-samples // SAMPLES_A_PART)))
