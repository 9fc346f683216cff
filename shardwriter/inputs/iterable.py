"""Any Python iterable of samples: a generator, a list, a torch Dataset, another loader.

    with from_iterable({"__key__": f"{n:06d}", "jpg": data, "cls": n} for n, data in pictures) as samples:
        pack(samples, "out/")

- A sample is a dict with `__key__`, or a pair (key, fields). Values are what `ShardWriter.write` takes: bytes, or what
  the codec table of wds_tools encodes.
- What has a length and takes numbers (a list, a map-style dataset) is used as it is, from several threads at once. All
  else is read once, encoded, and kept in a nameless temporary file, on whose disk there must be room for all of it: so
  it can be shuffled. A sample that cannot be encoded is kept as its error, and reported when its turn comes.
- Keys that come twice are refused by the writer, one by one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias

from shardwriter.inputs.base import BaseInput, digest
from shardwriter.inputs.spool import Spool, packed, unpacked
from shardwriter.keys import Keys, check_keys, key_of
from wds_tools.codec import encode_field
from wds_tools.errors import FieldRefusedError, KeyRefusedError, ShardstreamError, UsageError
from wds_tools.names import check_field, check_key
from wds_tools.sample import KEY, SPECIAL, Sample

__all__ = ["Given", "Iterated", "Sequenced", "from_iterable"]

Given: TypeAlias = "Mapping[str, object] | tuple[str, Mapping[str, object]]"
"""One sample, as users give it."""


class Sequenced(BaseInput):
    """Samples of something that takes numbers. Picklable where that is.

    Args:
        samples: with a length; asked for from several threads.
        keys: "path" keeps the keys; "number" gives others; "hash" hashes them.
    """

    def __init__(self, samples: Sequence[Given], *, keys: Keys = "path") -> None:
        self._samples = samples
        self._keys = check_keys(keys)

    def __len__(self) -> int:
        return len(self._samples)

    @property
    def renamed(self) -> bool:
        return self._keys != "path"

    def original(self, index: int) -> str:
        return str(_named(self._samples[index])[KEY])

    def key(self, index: int) -> str:
        return key_of(self._keys, index, len(self), "" if self._keys == "number" else self.original(index), str)

    def sample(self, index: int) -> Sample:
        sample = _named(self._samples[index])
        if self._keys == "path":
            return sample
        return {**sample, KEY: key_of(self._keys, index, len(self), str(sample[KEY]), str)}

    def fingerprint(self) -> Mapping[str, object]:
        return {"input": "sequence", "type": type(self._samples).__qualname__, "samples": len(self), "keys": self._keys}


class Iterated(BaseInput):
    """Samples of something that could be read once only, kept in a nameless temporary file. Close it, or use `with`.

    Args:
        samples: read to its end.
        temporary: on whose disk the file lies; the system's folder of temporary files by default.
        keys: as for `Sequenced`.
        progress: called with 1 after each sample.
    """

    def __init__(
        self,
        samples: Iterable[Given],
        *,
        temporary: str | os.PathLike[str] | None = None,
        keys: Keys = "path",
        progress: Callable[[int], object] | None = None,
    ) -> None:
        self._keys = check_keys(keys)
        self._spool = Spool(temporary)
        self._failed: dict[int, ShardstreamError] = {}
        try:
            for index, sample in enumerate(samples):
                self._spool.add(self._encoded(index, sample))
                if progress is not None:
                    progress(1)
            self._spool.flush()
        except BaseException:
            self._spool.close()
            raise

    def __len__(self) -> int:
        return len(self._spool)

    @property
    def renamed(self) -> bool:
        return self._keys != "path"

    def original(self, index: int) -> str:
        if index in self._failed:
            return self._failed[index].key or f"sample {index}"
        return str(unpacked(self._spool[index])[KEY])

    def name(self, index: int) -> str:
        return f"sample {index}: {self.original(index)}"

    def key(self, index: int) -> str:
        if index in self._failed:
            raise self._failed[index]
        return key_of(self._keys, index, len(self), "" if self._keys == "number" else self.original(index), str)

    def sample(self, index: int) -> Sample:
        if index in self._failed:
            raise self._failed[index]
        sample = unpacked(self._spool[index])
        if self._keys != "path":
            sample[KEY] = key_of(self._keys, index, len(self), sample[KEY], str)
        return sample

    def fingerprint(self) -> Mapping[str, object]:
        keys = (f"{self.original(index)}\n".encode("utf-8", "surrogateescape") for index in range(len(self)))
        return {
            "input": "iterable",
            "samples": len(self),
            "bytes": self._spool.nbytes,
            "names": digest(keys),
            "keys": self._keys,
        }

    def close(self) -> None:
        self._spool.close()

    def _encoded(self, index: int, given: Given) -> list[bytes]:
        sample = _named(given)
        key = sample.pop(KEY)
        try:
            check_key(key)
            return packed(key, {field: _bytes(field, value) for field, value in sample.items() if field not in SPECIAL})
        except (KeyRefusedError, FieldRefusedError) as error:
            self._failed[index] = error.at(key=str(key)).with_traceback(None)
            return []


def from_iterable(
    samples: Iterable[Given],
    *,
    temporary: str | os.PathLike[str] | None = None,
    keys: Keys = "path",
    progress: Callable[[int], object] | None = None,
) -> Sequenced | Iterated:
    """An input of any iterable; see the module for the rules.

    Args:
        samples: a sequence, or anything that can be iterated.
        temporary: the folder on whose disk what can be read only once is kept: that of the target, best.
        keys: "path" keeps the keys, "number" and "hash" give others.
        progress: called with 1 after each sample that was read.

    Raises:
        UsageError: it gives no samples, or something that is none.
        UnavailableError: the disk has no room.
    """
    if isinstance(samples, str | bytes | Mapping):
        raise UsageError(f"a {type(samples).__name__} is no iterable of samples", cure="Give a list or a generator.")
    if hasattr(samples, "__getitem__") and hasattr(samples, "__len__"):
        sequence: Any = samples
        if not len(sequence):
            raise UsageError("there are no samples to pack")
        _named(sequence[0])
        return Sequenced(sequence, keys=keys)
    iterator = iter(samples)
    first = next(iterator, None)
    if first is None:
        raise UsageError("there are no samples to pack")
    return Iterated(chain([first], iterator), temporary=temporary, keys=keys, progress=progress)


def _named(given: Given) -> Sample:
    """A dict of its own with the key in it.

    Raises:
        UsageError: it is no sample.
    """
    if isinstance(given, Mapping):
        if KEY in given:
            return dict(given)
        raise UsageError(
            f"a sample has no {KEY}: its fields are {', '.join(map(str, given)) or 'none'}",
            cure=f'Give each a name: {{"{KEY}": "000017", "jpg": data}}, or pairs (key, fields).',
        )
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], Mapping):
        return {**given[1], KEY: given[0]}
    raise UsageError(
        f"a sample is a dict or a pair (key, fields), not a {type(given).__name__}",
        cure=f'{{"{KEY}": "000017", "jpg": data, "cls": 3}}, for example.',
    )


def _bytes(field: str, value: object) -> bytes:
    check_field(field)
    return value if type(value) is bytes else bytes(encode_field(field, value))
