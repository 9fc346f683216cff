"""The loader for torch: the same plan and engine, batches as tensors, normalised and copied on the device."""

from loaders.torch.dataset import ShardDataset
from loaders.torch.device import to_device
from loaders.torch.loader import ShardLoader
from loaders.torch.normalize import Normalize
from loaders.torch.resumable import resumable
from loaders.torch.stream import StreamLoader

__all__ = ["Normalize", "ShardDataset", "ShardLoader", "StreamLoader", "resumable", "to_device"]
