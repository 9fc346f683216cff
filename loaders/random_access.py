"""Samples by number: for looking at data, for evaluation lists, and as a map-style dataset of torch's DataLoader."""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from loaders.batch import batch_of
from loaders.decode import SampleDecoder
from loaders.fields import FieldSpec, ImageSpec, parse_fields
from loaders.read import SampleReader, Scratch
from loaders.reading import Reading
from wds_tools import codec
from wds_tools.dataset import Dataset, open_dataset
from wds_tools.errors import MissingFieldError, ShardstreamError, UsageError, there_are
from wds_tools.pictures.decode import Decoder
from wds_tools.pictures.options import Pictures
from wds_tools.sample import KEY, SPECIAL, URL, RawSample
from wds_tools.sources.options import Remote

__all__ = ["LazySample", "OpenDataset", "open"]

_opening = threading.Lock()  # of the module, since a dataset that holds one would not pickle


class LazySample(Mapping[str, Any]):
    """One sample; a field is decoded when it is asked for, and then kept. `raw` has the bytes.

    A field that is not there is a MissingFieldError, which is a KeyError: `in` and `get` are those of any mapping, and
    decode nothing to find out.
    """

    def __init__(self, raw: RawSample, pictures: Pictures) -> None:
        self.raw = raw
        self._pictures = pictures
        self._decoded: dict[str, Any] = {}

    def __getitem__(self, field: str) -> Any:
        if field not in self._decoded:
            self._decoded[field] = self.raw[field] if field in SPECIAL else self._decode(field)
        return self._decoded[field]

    def _decode(self, field: str) -> Any:
        if field not in self.raw:
            raise MissingFieldError(
                "the sample has no such field",
                url=self.raw[URL],
                key=self.raw[KEY],
                field=field,
                cure=self._cure(field),
            )
        data = self.raw[field]
        try:
            if codec.kind_of(field) == "picture":
                return Decoder(self._pictures).decode(data)
            return codec.decode_field(field, data)
        except ShardstreamError as error:
            raise error.at(url=self.raw[URL], key=self.raw[KEY], field=field) from error.__cause__

    def _cure(self, field: str) -> str:
        names = sorted(set(self.raw) - set(SPECIAL))
        either = ""
        if codec.kind_of(field) == "picture":
            pictures = [name for name in names if codec.kind_of(name) == "picture"]
            either = f' loaders.open(..., fields=("{pictures[0]};{field}",)) takes either picture.' if pictures else ""
        return there_are(names) + either

    def __contains__(self, field: object) -> bool:
        return field in self.raw

    def __iter__(self) -> Iterator[str]:
        return iter(self.raw)

    def __len__(self) -> int:
        return len(self.raw)

    def __repr__(self) -> str:
        fields = ", ".join(f"{field}: {len(data):,} bytes" for field, data in self.raw.items() if field not in SPECIAL)
        return f"LazySample({self.raw[KEY]!r}, {fields})"

    def _repr_html_(self) -> str:
        from loaders.notebook import sample_html

        return sample_html(self.raw, self._pictures)


class OpenDataset(Sequence[Any]):
    """A dataset open for random access; see `open`. Picklable: a copy opens its shards itself."""

    def __init__(
        self,
        dataset: Dataset,
        specs: tuple[FieldSpec, ...] | None,
        transform: Callable[[Any], Any] | None,
        pictures: Pictures,
        read: Reading,
    ) -> None:
        self.dataset = dataset
        self._specs = specs
        self._transform = transform
        self._pictures = pictures
        self._read = read
        self._reader: SampleReader | None = None
        self._process: int | None = None

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        """The sample of this number, negative from the end; a slice gives a list."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number = operator.index(index)
        if not -len(self) <= number < len(self):
            raise IndexError(f"sample {number} of a dataset of {len(self)}")
        sample = self._decoded(self.raw(number % len(self)))
        return self._transform(sample) if self._transform is not None else sample

    def raw(self, number: int) -> RawSample:
        """The sample's fields as bytes, copied: they stay as they are."""
        return next(self._open().read(np.array([number]), Scratch())).parse()

    def _decoded(self, raw: RawSample) -> Any:
        if self._specs is None:
            return LazySample(raw, self._pictures)
        values = SampleDecoder(self._specs, self._pictures).values(raw, (), [None] * len(self._specs))
        return batch_of(tuple(spec.name for spec in self._specs), values)

    def _open(self) -> SampleReader:
        # Descriptors are shared after a fork, which is fine for positioned reads; still each process opens its own,
        # so that one that closes does not surprise another.
        with _opening:  # several threads may ask first
            if self._reader is None or self._process != os.getpid():
                self._reader, self._process = SampleReader(self.dataset, self._read), os.getpid()
            return self._reader

    def close(self) -> None:
        """Close the shards; the next access opens them again."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reader": None, "_process": None}

    def __repr__(self) -> str:
        return f"OpenDataset(samples={len(self):,}, shards={len(self.dataset.urls):,})"

    def _repr_html_(self) -> str:
        from loaders.notebook import previews_html

        table = self.dataset._repr_html_()
        if self.dataset.remote_shards.any():
            return table
        return table + previews_html(self.raw, len(self), self._pictures)


def open(  # noqa: A001 - `loaders.open` is the published name
    urls: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    fields: Sequence[str] | None = None,
    image: ImageSpec = None,
    transform: Callable[[Any], Any] | None = None,
    pictures: Pictures = Pictures(),  # noqa: B008 - frozen
    remote: Remote | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    cache_bytes: int | None = None,
) -> OpenDataset:
    """Open shards for random access: `len(dataset)`, `dataset[17]`.

    Args:
        urls: as for ShardLoader.
        fields: None gives each sample as a mapping that decodes a field when it is asked for; names give a NamedTuple
            of decoded values, as a map-style dataset for torch's DataLoader.
        image: what pictures become, with `fields`; nothing random, since a place in an epoch is not known here.
        transform: takes and returns one sample.
        pictures: what decoding does with transparency, orientation, profiles and bombs.
        remote: how remote hosts are asked; None means the defaults.
        cache_dir: where what is read of remote shards is kept on disk; None keeps nothing, and each access to a remote
            sample is a request.
        cache_bytes: how much is kept at most.

    Raises:
        UsageError: an argument that cannot be, or no shards.
        DataError: a shard or listing that cannot be read.
    """
    if fields is None and image is not None:
        raise UsageError("image is given without fields", cure='For example fields=("jpg", "cls").')
    specs = parse_fields(fields, image) if fields is not None else None
    for spec in specs or ():
        if getattr(spec.image, "random", False):
            raise UsageError(
                f"image has {spec.image!r}, which is random", cure="Use CenterCrop or Resize, or a ShardLoader."
            )
    read = Reading(remote=remote, cache_dir=cache_dir, cache_bytes=cache_bytes)
    dataset = open_dataset(urls, cache_dir=read.cache, remote=remote)
    return OpenDataset(dataset, specs, transform, pictures, read)
