"""The one interface between what people have and packing.

An input is a sequence of samples that are made when they are asked for, from any thread and in any order, since packing
shuffles and works in parallel. `Input` is the whole interface; `BaseInput` has all of it but `__len__` and `sample`:

    class Captions(BaseInput):
        def __len__(self) -> int:
            return len(rows)

        def sample(self, index: int) -> Sample:
            return {"__key__": f"{index:06d}", "txt": rows[index]}

A sample that cannot be packed raises when it is asked for, and is reported; what is wrong with the whole (no such
folder, keys that come twice) is raised by the function that makes the input, before anything is written.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, Self, runtime_checkable

from wds_tools.sample import KEY, BytesLike, Sample

__all__ = ["BaseInput", "Input", "SideBySide", "digest", "path_shown", "read_file"]

_MORE = 1 << 16
"""Bytes of each further read of a file that has grown."""


class Input(Protocol):
    """A sequence of samples to pack. Its methods are called from several threads at once."""

    @property
    def skipped(self) -> Mapping[str, int]:
        """What was left out when the input was read: reason to count."""
        ...

    @property
    def renamed(self) -> bool:
        """Whether keys are numbers or hashes: `original` is then kept beside the shards (shardwriter.keys)."""
        ...

    def __len__(self) -> int: ...

    def name(self, index: int) -> str:
        """What to call the sample in a report: the path of its file, say."""
        ...

    def key(self, index: int) -> str:
        """The key that `sample(index)` has. Cheap: no picture is opened for it.

        Raises:
            SampleError, KeyRefusedError: there is none; `sample` raises the same.
        """
        ...

    def original(self, index: int) -> str:
        """The sample's own name in the input, whatever its key is: the path below the root, say."""
        ...

    def sample(self, index: int) -> Sample:
        """The sample at this place, ready to be written.

        Raises:
            OSError: its file cannot be read.
            SampleError, KeyRefusedError, FieldRefusedError: it cannot be packed. It is reported, and packing goes on.
        """
        ...

    def facts(self) -> Mapping[str, object]:
        """What the listing should say about the whole, such as {"classes": [...]}; values that JSON knows."""
        ...

    def fingerprint(self) -> Mapping[str, object]:
        """What tells this input from another one, in values that JSON knows: what a broken run is compared by.

        Two inputs with equal fingerprints have the same samples at the same places, as far as can be said without
        opening every file. Keys are words for a person, who is told which of them changed.
        """
        ...


@runtime_checkable
class SideBySide(Protocol):
    """An input whose samples lie side by side, so that reading several in one go is cheaper."""

    def side_by_side(self, indexes: Sequence[int]) -> Callable[[int], tuple[Sample, memoryview | None]]:
        """What makes the samples at these places: to be called with each once, in this order, from one thread.

        Returns:
            A function that returns and raises what `sample` does. Beside the sample, where it is taken over as it is:
            the members that it was made of, if they lie there as they would be written (`tar.runs.as_written`); else
            None. The sample's fields are views on them then, in their order.
        """
        ...


class BaseInput(ABC):
    """An `Input` that lacks only `__len__` and `sample`; the rest may be overridden."""

    skipped: Mapping[str, int] = MappingProxyType({})

    @property
    def renamed(self) -> bool:
        return False

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def sample(self, index: int) -> Sample: ...

    def name(self, index: int) -> str:
        return f"sample {index}"

    def key(self, index: int) -> str:
        key = self.sample(index)[KEY]
        return str(key)

    def original(self, index: int) -> str:
        return self.name(index)

    def facts(self) -> Mapping[str, object]:
        return {}

    def fingerprint(self) -> Mapping[str, object]:
        return {"input": type(self).__name__, "samples": len(self)}

    def close(self) -> None:  # noqa: B027 - most inputs hold nothing open
        """Give back what the input holds open. Twice does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def digest(pieces: Iterable[BytesLike]) -> str:
    """32 hexadecimal digits that tell these bytes from others: for fingerprints."""
    state = hashlib.blake2b(digest_size=16)
    for piece in pieces:
        state.update(piece)
    return state.hexdigest()


def read_file(path: str) -> bytes:
    """The whole file; os.open and one read, since a file object costs as much as reading 30 KB.

    Raises:
        OSError: it cannot be read, or is a pipe or a device: a table may name /dev/zero, which has no end.
    """
    # O_NONBLOCK: a named pipe without writer would block here for ever; regular files ignore it.
    descriptor = os.open(_reachable(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) and not stat.S_ISDIR(facts.st_mode):  # of a folder the system says it
            raise OSError(errno.EINVAL, "It is no file but a pipe or a device", path)
        return b"".join(_chunks(descriptor, facts.st_size + 1))
    finally:
        os.close(descriptor)


def _reachable(path: str) -> str | bytes:
    """The path as the system takes it: in a locale without its letters as UTF-8, which is what disks hold."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return path.encode("utf-8", "surrogateescape")
    return path


def path_shown(path: str | os.PathLike[str]) -> str:
    """A path for a message: as it is, or with escapes where it cannot be printed."""
    text = os.fspath(path)
    return text if text.isprintable() else ascii(text)


def _chunks(descriptor: int, size: int) -> Iterator[bytes]:
    while chunk := os.read(descriptor, size):
        yield chunk
        size = _MORE  # nearly always nothing is left, and memory for as much again would be made to find that out
