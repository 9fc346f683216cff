"""Samples as people see them: read by number, decoded, with thumbnails. What is broken is seen as broken.

Several at a time: decoding lets go of the interpreter's lock, and a remote sample is a request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from loaders.random_access import OpenDataset
from wds_tools.cores import usable_cores
from wds_tools.errors import ShardstreamError, public
from wds_tools.pictures.decode import Decoder
from wds_tools.sample import KEY, RawSample
from wds_tools.show.thumbnail import Thumbnail
from wds_tools.show.values import Value, show_sample

__all__ = ["Seen", "Viewer"]

_REQUESTS = 16  # at once, of remote samples


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One sample that was looked at.

    Attributes:
        number: in the dataset.
        shard: the number of its shard.
        url: of that shard, without what may be secret in it.
        key: the sample's; empty where it could not be read.
        label: its class, by name where it has one; empty where there is none.
        caption: the same for people: "cls 7" where the class has no name.
        values: its fields by name.
        error: why the sample as a whole could not be read, else empty.
    """

    number: int
    shard: int
    url: str
    key: str
    label: str
    caption: str
    values: Mapping[str, Value]
    error: str = ""

    @property
    def thumbnail(self) -> Thumbnail | None:
        """Its first picture, None where that one is broken; a mask only where there is no picture."""
        kinds = [value for value in self.values.values() if value.kind == "picture"]
        first = next(iter(kinds or [value for value in self.values.values() if value.thumbnails]), None)
        return first.thumbnails[0] if first is not None and first.thumbnails else None

    @property
    def faults(self) -> list[tuple[str, str]]:
        """(field, what is wrong) of all that is broken; the field is empty for the sample as a whole."""
        whole = [("", self.error)] if self.error else []
        return whole + [(name, value.error) for name, value in self.values.items() if value.error]


class Viewer:
    """Looks at the samples of an open dataset. Safe for many threads.

    Args:
        opened: the dataset; closed by whoever opened it.
        labels: the field with the class.
    """

    def __init__(self, opened: OpenDataset, *, labels: str) -> None:
        self.opened = opened
        self.dataset = opened.dataset
        self.labels = labels
        self._own = threading.local()

    def read(self, number: int) -> RawSample:
        """The sample's fields as they lie in the shard."""
        return self.opened.raw(number)

    @property
    def decoder(self) -> Decoder:
        """The calling thread's."""
        if not hasattr(self._own, "decoder"):
            self._own.decoder = Decoder()
        decoder: Decoder = self._own.decoder
        return decoder

    def see(self, number: int, *, side: int) -> Seen:
        """One sample, with thumbnails of at most `side` pixels. What is wrong, a missing shard too, is part of it."""
        shard = int(self.dataset.starts.searchsorted(number, side="right")) - 1
        url = public(self.dataset.urls[shard])
        where = Seen(number=number, shard=shard, url=url, key="", label="", caption="", values={})
        try:
            raw = self.read(number)
        except ShardstreamError as error:
            return replace(where, key=error.key or "", error=_why(error))
        values = show_sample(raw, side=side, decoder=self.decoder, classes=self.dataset.classes)
        label, caption = self._label(values)
        return replace(where, key=raw[KEY], label=label, caption=caption, values=values)

    def see_all(
        self, numbers: Sequence[int], *, side: int, advance: Callable[[], object] = lambda: None
    ) -> Iterator[Seen]:
        """Each of these samples, in order; `advance` is called after each."""
        for seen in self.map(lambda number: self.see(number, side=side), numbers):
            advance()
            yield seen

    def map(self, see: Callable[[int], Seen], numbers: Sequence[int]) -> Iterator[Seen]:
        """`see` of each, in order, several at a time."""
        threads = _REQUESTS if self.dataset.remote_shards.any() else usable_cores()
        pool = ThreadPoolExecutor(threads, thread_name_prefix="shardstream-view")
        try:
            yield from pool.map(see, numbers)
        finally:
            pool.shutdown(cancel_futures=True)

    def _label(self, values: Mapping[str, Value]) -> tuple[str, str]:
        value = values.get(self.labels) or next((value for value in values.values() if value.kind == "int"), None)
        if value is None or value.error:
            return "", ""
        if value.number is None:
            return value.summary, value.summary
        classes = self.dataset.classes
        if classes is not None and 0 <= value.number < len(classes):
            return classes[value.number], classes[value.number]
        return value.summary, f"{value.name} {value.summary}"


def _why(error: ShardstreamError) -> str:
    return f"{type(error).__name__}: {error.problem}" + (f". {error.cure}" if error.cure else "")
