"""Batches on the device, the next one copied while the current one is used.

On CUDA the copy runs on a stream of its own; the consumer's stream waits for it, and the memory is marked as used by
the consumer's stream, so that it is not given away too early. On a CPU batches pass through.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import torch

from loaders.batch import Batch, batch_of

__all__ = ["to_device"]


class _Loader(Protocol):
    @property
    def epoch(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...
    def set_epoch(self, epoch: int) -> None: ...


def to_device(loader: _Loader, device: torch.device | str) -> DeviceLoader:
    """The loader's batches with their tensors on `device`; pass pin_memory=True to the loader for CUDA.

    `len`, `epoch`, `set_epoch`, `state_dict` and `load_state_dict` are the loader's; epoch and state count what this
    one handed out, not the batch that was copied ahead.
    """
    return DeviceLoader(loader, torch.device(device))


class _Copy(NamedTuple):
    """A batch on its way to the device, and the host memory it is read from."""

    batch: Any
    state: dict[str, Any]
    epoch: int
    source: Any
    copied: torch.cuda.Event


class DeviceLoader:
    """See `to_device`."""

    def __init__(self, loader: _Loader, device: torch.device) -> None:
        self.loader = loader
        self.device = device
        self._state: dict[str, Any] | None = None  # where the caller stands, while a batch is ahead
        self._epoch: int | None = None  # likewise
        self._iteration = 0

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        batches = iter(self.loader)
        self._state, self._epoch = self.loader.state_dict(), None
        self._iteration += 1
        return self._ahead(batches) if self.device.type == "cuda" else self._through(batches)

    def _through(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            self._state = None
            yield self._moved(batch)

    def _ahead(self, batches: Iterator[Any]) -> Iterator[Any]:
        stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        following, iteration = self._copied(batches, stream), self._iteration
        try:
            while following is not None:
                consumer = torch.cuda.current_stream(self.device)
                consumer.wait_event(following.copied)
                for value in following.batch if isinstance(following.batch, tuple) else (following.batch,):
                    if isinstance(value, torch.Tensor):
                        value.record_stream(consumer)
                # The source's memory may be decoded into again as soon as it is let go, so not before it was read.
                following.copied.synchronize()
                batch, state, epoch = following.batch, following.state, following.epoch
                following = self._copied(batches, stream)
                self._state, self._epoch = state, epoch
                yield batch
                del batch
        finally:
            if iteration == self._iteration:
                self._epoch = None

    def _copied(self, batches: Iterator[Any], stream: torch.cuda.Stream) -> _Copy | None:
        try:
            source = next(batches)
        except StopIteration:
            return None
        state, epoch = self.loader.state_dict(), self.loader.epoch
        with torch.cuda.stream(stream):
            batch = self._moved(source)
            copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
            copied.record(stream)
        return _Copy(batch, state, epoch, source, copied)

    def _moved(self, batch: Any) -> Any:
        if isinstance(batch, Batch):
            return batch_of(batch._fields, [self._moved(value) for value in batch])
        return batch.to(self.device, non_blocking=True) if isinstance(batch, torch.Tensor) else batch

    @property
    def epoch(self) -> int:
        """As the loader's, of the batches that were handed out here."""
        return self.loader.epoch if self._epoch is None else self._epoch

    def set_epoch(self, epoch: int) -> None:
        """As the loader's."""
        self._state = self._epoch = None
        self.loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """As the loader's, counting the batches that were handed out here."""
        return self.loader.state_dict() if self._state is None else dict(self._state)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """As the loader's."""
        self._state = self._epoch = None
        self.loader.load_state_dict(state)
