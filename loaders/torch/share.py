"""Batches from a worker process to its parent: mapped by both, few descriptors, no use of /dev/shm.

torch sends each tensor as a file of its own in /dev/shm, by a descriptor that the parent keeps open for as long as the
tensor lives. So twenty small columns and a hundred kept batches end at `ulimit -n`, and a container's 64 MiB of
/dev/shm end in a bus error. Here

    pictures         are decoded straight into anonymous shared memory (memfd), one region a picture column, whose pages
                     are reserved first, so that a lack of memory is an error where it occurs
    other tensors    go as one block: up to 64 KiB inside the message itself, else in one region more
    lists, strings   are pickled as ever

and the parent maps the regions and closes their descriptors at once. What it gets are ordinary private tensors that
can be pinned, kept and sent on.

Where a system refuses memfd, regions are unnamed files in /dev/shm after all, reserved likewise: if it is full, the
error says so, and what to lower. Tensors in what the user's own `collate=` returns go torch's way, from memory of the
same kind.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Mapping, Sequence
from multiprocessing import context, reduction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from loaders.batch import Batch, batch_of
from wds_tools.errors import UnavailableError

__all__ = ["Region", "SharedBatch", "shared", "shared_memory"]

_INLINE_BYTES = 64 * 1024  # half of what a pipe takes without a second write
_ALIGNMENT = 64
_SHM = Path("/dev/shm")  # nosec B108  # noqa: S108 - the kernel's shared memory file system, not a temporary folder
_CURE = (
    "Lower batch_size, the DataLoader's num_workers or its prefetch_factor: batch bytes x workers x "
    "(prefetch_factor + Reading.prefetch) must fit"
)


class Region:
    """Shared memory that a child process can be sent, by pickle while it is started or through a queue.

    Pickled for anybody else it is a copy.
    """

    def __init__(self, nbytes: int) -> None:
        self._hold(_descriptor(nbytes), nbytes)

    def _hold(self, descriptor: int, nbytes: int) -> None:
        self.descriptor = descriptor
        self.nbytes = nbytes
        weakref.finalize(self, os.close, descriptor).atexit = False
        self._map = mmap.mmap(descriptor, nbytes)  # has its own descriptor
        self.address = np.frombuffer(self._map, dtype=np.uint8).ctypes.data

    def array(self) -> npt.NDArray[np.uint8]:
        """The memory; keeps the region alive."""
        return np.asarray(_View(self))

    def __reduce__(self) -> tuple[Any, ...]:
        if context.get_spawning_popen() is None:
            return _copy_of, (bytes(self._map),)
        return _received_region, (reduction.DupFd(self.descriptor), self.nbytes)


class _View:
    """What an array over a region has as its base."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.__array_interface__ = {
            "shape": (region.nbytes,),
            "typestr": "|u1",
            "data": (region.address, False),
            "version": 3,
        }


def _copy_of(content: bytes) -> Region:
    region = Region(len(content))
    region.array()[:] = np.frombuffer(content, dtype=np.uint8)
    return region


def _received_region(descriptor: Any, nbytes: int) -> Region:
    region = Region.__new__(Region)
    region._hold(descriptor.detach(), nbytes)  # noqa: SLF001 - the other half of __reduce__
    return region


def _descriptor(nbytes: int) -> int:
    """Of a new anonymous file whose pages are there."""
    try:
        descriptor = os.memfd_create("shardstream", os.MFD_CLOEXEC)
    except OSError as error:
        descriptor = _file_in_shm(error)
    try:
        os.posix_fallocate(descriptor, 0, nbytes)
    except OSError as error:
        os.close(descriptor)
        raise UnavailableError(
            f"no {nbytes / 1e6:,.1f} MB of shared memory for a batch: {error.strerror} ({_shm_size()})",
            cure=f"{_CURE}; or enlarge it (docker run --shm-size, a tmpfs mount).",
        ) from error
    return descriptor


def _file_in_shm(reason: OSError) -> int:
    try:
        return os.open(_SHM, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UnavailableError(
            f"no shared memory for a batch: {error.strerror} (memfd_create: {reason.strerror})",
            cure="Raise the limit of open files (ulimit -n), or use ShardLoader, whose threads need none.",
        ) from error


def _shm_size() -> str:
    try:
        usage = os.statvfs(_SHM)
    except OSError as error:
        return f"{_SHM}: {error.strerror}"
    size, free = usage.f_blocks * usage.f_frsize, usage.f_bavail * usage.f_frsize
    return f"{_SHM} has {size / 1e6:,.1f} MB, {free / 1e6:,.1f} MB of them free"


_REGIONS: weakref.WeakValueDictionary[int, Region] = weakref.WeakValueDictionary()  # by address


def shared_memory(nbytes: int) -> npt.NDArray[np.uint8]:
    """An allocator for slabs that a batch takes with it to another process."""
    region = Region(nbytes)
    _REGIONS[region.address] = region
    return region.array()


class SharedBatch(Batch):
    """A batch in a worker: pickles as the module says, and arrives as a plain `Batch`.

    Pickling runs in a thread of the queue, where an exception would lose the batch without a word: so whatever can fail
    was done before, by `shared`.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (self._fields, *_packed(tuple(self)))


class _Place(NamedTuple):
    """Where a tensor lies in one of the sources."""

    source: int
    offset: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    def of(self, source: torch.Tensor) -> torch.Tensor:
        if 0 in self.shape:
            return torch.empty(0, dtype=self.dtype).as_strided(self.shape, self.stride)
        last = sum((n - 1) * step for n, step in zip(self.shape, self.stride, strict=True))
        data = source[self.offset : self.offset + (last + 1) * self.dtype.itemsize]
        return data.view(self.dtype).as_strided(self.shape, self.stride)


def shared(value: Any) -> Any:
    """The same batch, or structure of tensors, in memory that can cross to another process.

    Raises:
        UnavailableError: there is not enough of it.
    """
    if isinstance(value, Batch):
        return batch_of(value._fields, _in_regions(tuple(value)), base=SharedBatch)
    if isinstance(value, torch.Tensor):
        return _moved(value) if _plain(value) and value.numel() else value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(shared, value))
    if isinstance(value, list | tuple):
        return type(value)(map(shared, value))
    return {key: shared(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def _plain(value: Any) -> bool:
    if not isinstance(value, torch.Tensor):
        return False
    return value.device.type == "cpu" and value.layout == torch.strided and not value.requires_grad


def _region_of(value: torch.Tensor) -> Region | None:
    return _REGIONS.get(value.untyped_storage().data_ptr())


def _moved(value: torch.Tensor) -> torch.Tensor:
    """A copy in a region that torch, too, knows how to send."""
    nbytes = value.numel() * value.element_size()
    descriptor = _descriptor(nbytes)
    try:
        # As torch.multiprocessing does; the storage has its own descriptor.
        storage = torch.UntypedStorage._new_shared_fd_cpu(descriptor, nbytes)  # type: ignore[attr-defined]  # noqa: SLF001
    finally:
        os.close(descriptor)
    return torch.empty(0, dtype=value.dtype).set_(storage, 0, value.shape, _strides(value)).copy_(value)


def _strides(value: torch.Tensor) -> tuple[int, ...]:
    """Those of a dense copy that keeps the memory format, channels_last above all."""
    return tuple(torch.empty_like(value, device="meta").stride())


def _laid_out(columns: Sequence[Any], source: int) -> tuple[dict[int, _Place], int]:
    """Places, one behind the other, for the tensors that lie in no region; and the bytes they take."""
    places, at = {}, 0
    for number, value in enumerate(columns):
        if _plain(value) and _region_of(value) is None:
            places[number] = _Place(source, at, value.dtype, tuple(value.shape), _strides(value))
            at += -(-value.numel() * value.element_size() // _ALIGNMENT) * _ALIGNMENT
    return places, at


def _in_regions(columns: tuple[Any, ...]) -> list[Any]:
    """The columns, with tensors that are too large for a message moved to a region."""
    moved = list(columns)
    places, nbytes = _laid_out(columns, 0)
    if nbytes > _INLINE_BYTES:
        block = torch.from_numpy(shared_memory(nbytes))
        for number, place in places.items():
            moved[number] = place.of(block).copy_(columns[number])
    return moved


def _packed(columns: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
    """The sources, and for each column its place in one of them, or itself."""
    packed: list[Any] = list(columns)
    sources: list[Any] = []
    known: dict[int, int] = {}  # by address
    for number, value in enumerate(columns):
        region = _region_of(value) if _plain(value) else None
        if region is not None:
            if region.address not in known:
                known[region.address] = len(sources)
                sources.append(_sent(region))
            offset = int(value.storage_offset()) * value.element_size()
            place = (known[region.address], offset, value.dtype, tuple(value.shape), tuple(value.stride()))
            packed[number] = _Place(*place)
    places, nbytes = _laid_out(columns, len(sources))
    block = torch.zeros(nbytes, dtype=torch.uint8)
    for number, place_ in places.items():
        place_.of(block).copy_(columns[number])
        packed[number] = place_
    return [*sources, block.numpy().tobytes()], packed


def _sent(region: Region) -> Any:
    try:
        return reduction.DupFd(region.descriptor), region.nbytes
    except OSError:  # no descriptor left
        return region.array().tobytes()


def _received(names: tuple[str, ...], sources: list[Any], packed: list[Any]) -> Any:
    tensors = [_source(source) for source in sources]
    columns = [value.of(tensors[value.source]) if isinstance(value, _Place) else value for value in packed]
    return batch_of(names, columns)


def _source(source: Any) -> torch.Tensor:
    if isinstance(source, bytes):
        return torch.frombuffer(bytearray(source), dtype=torch.uint8) if source else torch.empty(0, dtype=torch.uint8)
    sent, nbytes = source
    descriptor = _detached(sent)
    try:
        # A mapping needs no descriptor once it is made; through numpy, torch takes it for private memory, as it is.
        mapped = torch.from_file(f"/proc/self/fd/{descriptor}", shared=True, size=nbytes, dtype=torch.uint8)
    finally:
        os.close(descriptor)
    return torch.from_numpy(mapped.numpy())


def _detached(sent: Any) -> int:
    """The descriptor that a worker sent, fetched from the worker itself.

    Raises:
        UnavailableError: it is there no more. DataLoader looks after its workers only where a batch stays out.
    """
    try:
        return int(sent.detach())
    except (ConnectionError, FileNotFoundError, EOFError) as error:
        raise UnavailableError(
            f"a DataLoader worker ended before its batch was fetched ({type(error).__name__})",
            cure="If it was killed, memory ran out (see dmesg): lower num_workers or batch_size. If it exited "
            "by itself, its own output says why.",
        ) from error
