"""uint8 to normalised floats, on the device: one multiplication and one addition a value."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from wds_tools.errors import UsageError

__all__ = ["Normalize"]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


class Normalize(nn.Module):
    """(pixels / 255 - mean) / std, as a module that moves to the device with the model.

    Args:
        mean: per channel, of pixels in 0 to 1; ImageNet's by default.
        std: per channel, likewise.
        dtype: of the result.

    Shape:
        Input uint8 (N, C, H, W) on any device; output `dtype` of the same shape, memory layout and device.
    """

    scale: torch.Tensor
    shift: torch.Tensor

    def __init__(
        self,
        mean: Sequence[float] = IMAGENET_MEAN,
        std: Sequence[float] = IMAGENET_STD,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        if len(mean) != len(std) or not all(s > 0 for s in std):
            raise UsageError(f"mean {tuple(mean)} and std {tuple(std)} do not fit", cure="One positive std per mean.")
        self.dtype = dtype
        scale = 1 / (255 * torch.tensor(std, dtype=torch.float64))
        shift = -torch.tensor(mean, dtype=torch.float64) / torch.tensor(std, dtype=torch.float64)
        self.register_buffer("scale", scale.to(torch.float32).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("shift", shift.to(torch.float32).view(1, -1, 1, 1), persistent=False)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """See the class."""
        return torch.addcmul(self.shift, pictures.to(torch.float32), self.scale).to(self.dtype)

    def extra_repr(self) -> str:
        """The channels, for the module's repr."""
        return f"channels={self.scale.numel()}, dtype={self.dtype}"
