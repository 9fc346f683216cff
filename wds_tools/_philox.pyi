import numpy as np
import numpy.typing as npt

def fill(
    key0: int,
    key1: int,
    place: npt.NDArray[np.uint64],
    other: npt.NDArray[np.uint64],
    step: npt.NDArray[np.uint64],
    out: npt.NDArray[np.uint64],
    /,
) -> None: ...
