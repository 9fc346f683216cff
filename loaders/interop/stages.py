"""The stages behind webdataset's `decode`, on a decoded sample of ours: forms of pictures, map_tuple, collation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, assert_never

import numpy as np
import numpy.typing as npt

from loaders.torch.loader import picture_as_tensor

__all__ = ["Collation", "Form", "Tupled"]

Form = Literal["rgb8", "rgb", "pil", "torchrgb8", "torchrgb"]


@dataclass(frozen=True)
class Tupled:
    """A loader's transform: pictures in the form that `decode` names, then a function for each element.

    Attributes:
        names: the columns.
        pictures: those of them that are pictures, uint8 (H, W, 3).
        form: what they become: themselves, float32 of 0 to 1, a picture of PIL, or tensors (3, H, W) of either dtype.
        functions: for the first columns, None where a column stays.
    """

    names: tuple[str, ...]
    pictures: tuple[str, ...]
    form: Form
    functions: tuple[Callable[[Any], Any] | None, ...]

    @property
    def needed(self) -> bool:
        """Whether a sample is changed at all. Of whole batches of uint8 the loader makes tensors by itself."""
        return any(self.functions) or (self.form not in {"rgb8", "torchrgb8"} and bool(self.pictures))

    def __call__(self, sample: dict[str, Any]) -> dict[str, Any]:
        """Changed in place."""
        for name in self.pictures:
            if sample[name] is not None:
                sample[name] = _formed(sample[name], self.form)
        for name, function in zip(self.names, self.functions, strict=False):
            if function is not None:
                sample[name] = function(sample[name])
        return sample


def _formed(picture: npt.NDArray[np.uint8], form: Form) -> Any:
    match form:
        case "rgb8":
            return picture
        case "rgb":
            return picture.astype(np.float32) / np.float32(255)
        case "pil":
            from PIL import Image

            return Image.fromarray(picture)
        case "torchrgb8":
            return picture_as_tensor(picture)
        case "torchrgb":
            return picture_as_tensor(picture.astype(np.float32) / np.float32(255))
        case _:
            assert_never(form)


@dataclass(frozen=True)
class Collation:
    """A loader's collate from webdataset's: that takes tuples."""

    names: tuple[str, ...]
    function: Callable[[list[tuple[Any, ...]]], Any]

    def __call__(self, samples: list[dict[str, Any]]) -> Any:
        return self.function([tuple(sample[name] for name in self.names) for sample in samples])
