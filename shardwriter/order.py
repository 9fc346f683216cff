"""The order in which a dataset is packed: a permutation that depends on the seed and the length alone."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from wds_tools.permutation import check_seed, permutation

__all__ = ["check_seed", "shuffled"]

_PACK = 0x7061636B  # "pack": the second word of the key, so that no other use of a seed draws the same numbers


def shuffled(count: int, seed: int) -> npt.NDArray[Any]:
    """The numbers 0 to count - 1 in the order of the seed, shape (count,). For 20 million: 2 s and 160 MB.

    Raises:
        UsageError: the seed is no int of 0 to 2**64 - 1.
    """
    return permutation(count, (check_seed(seed), _PACK))
