"""From sample numbers to their bytes: which shard, which range, read when a decode thread asks.

Local shards are read by positioned reads into a buffer of the thread that decodes: nearly as fast as mapping them, and
a file that shrinks meanwhile is an error and not a SIGBUS. What comes next is announced to the kernel piece by piece,
well before it is read, so that a cold disk works while the cores decode. Of a local sample a part may be read to
another place than the rest (`straight`). Remote shards are fetched ahead (`fetch`): an
announced sample comes with a claim on its bytes. What nobody announced, such as what takes a bad sample's place, is
read where it lies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from loaders.ahead import Announcer, FetchAhead, KernelAhead
from loaders.drives import Drives
from loaders.fetch import Claim, Fetcher, Traffic
from loaders.line import Ints
from loaders.reading import Reading
from loaders.shards import OpenShard, OpenShards
from loaders.straight import Hole, address_of
from wds_tools.dataset import Dataset
from wds_tools.errors import ShardstreamError
from wds_tools.sample import INDEX, RawSample
from wds_tools.shard import Targets, parse_sample
from wds_tools.sources.base import Lending
from wds_tools.sources.options import Remote

__all__ = ["Encoded", "Lent", "SampleReader", "Scratch"]

_JOINED_BYTES = 1 << 20  # neighbouring samples are read in one go up to here
_LINE = 64


class Scratch:
    """One thread's buffer for encoded bytes; grows to the largest sample and is used again and again.

    It begins at a cache line: the kernel then copies half as fast again into it (see `wds_tools.tar.feed`).

    Attributes:
        address: where that is.
    """

    __slots__ = ("_buffer", "address")

    def __init__(self) -> None:
        self._renew(1 << 18)

    def take(self, nbytes: int) -> memoryview:
        """The first nbytes; what was taken before is overwritten."""
        if nbytes > len(self._buffer):
            self._renew(nbytes + nbytes // 2)
        return self._buffer[:nbytes]

    def _renew(self, nbytes: int) -> None:
        memory = np.empty(nbytes + _LINE, dtype=np.uint8)
        begin = -address_of(memory) % _LINE
        self._buffer = memory[begin : begin + nbytes].data
        self.address = address_of(memory) + begin


class Encoded(NamedTuple):
    """One sample as it lies in its shard."""

    number: int  # in the dataset
    url: str
    offset: int
    data: memoryview
    targets: Targets
    hole: Hole | None = None  # what of it was read to another place

    def parse(self) -> RawSample:
        """Its fields, as views on `data`; links to other members of the shard are followed.

        What was read to another place is an `InPlace`, if it was the array that it was taken for.
        """
        if self.hole is not None:
            try:
                sample = self._parsed()
                if self.hole.accept(sample):
                    return sample
            except ShardstreamError:  # the guess was wrong, or else it comes again
                pass
            self.hole.fill(self.data)
        return self._parsed()

    def _parsed(self) -> RawSample:
        sample = parse_sample(self.data, url=self.url, offset=self.offset, targets=self.targets)
        sample[INDEX] = self.number
        return sample


class Lent:
    """Where some samples lie: in files that stay open inside the `with`, from which others read, or in memory.

    Attributes:
        places: int64 (n, 4) of each: 0, a descriptor or -1 - its place in `memories`, and the range of bytes; an empty
            range where it cannot be lent.
        memories: the bytes of those that are in no file.
        urls: their shards.
    """

    __slots__ = ("_lenders", "memories", "places", "urls")

    def __init__(self, count: int) -> None:
        self.places: npt.NDArray[np.int64] = np.zeros((count, 4), np.int64)
        self.memories: list[memoryview] = []
        self.urls: list[str] = [""] * count
        self._lenders: list[Lending] = []

    def borrow(self, opened: Sequence[OpenShard | None], claims: Sequence[Claim | None] | None, ranges: Ints) -> None:
        """Have what can be had of samples in these shards; ranges: int64 (2, n)."""
        descriptors = [
            None
            if shard is None
            else self._from_file(shard, begin, end)
            if claims is None or (claim := claims[at]) is None
            else self._claimed(claim, shard, begin, end)
            for at, (shard, begin, end) in enumerate(zip(opened, *ranges.tolist(), strict=True))
        ]
        self.urls = ["" if shard is None else shard.url for shard in opened]
        self.places[:, 1] = [0 if descriptor is None else descriptor for descriptor in descriptors]
        self.places[:, 2:] = ranges.T
        for at, descriptor in enumerate(descriptors):
            if descriptor is None:
                self.places[at, 2:] = 0
            elif descriptor < 0:
                self.places[at, 2:] = 0, len(self.memories[-1 - descriptor])

    def _from_file(self, shard: OpenShard, begin: int, end: int) -> int | None:
        lender = shard.lender
        if lender is None:
            return None
        self._lenders.append(lender)
        try:
            return lender.lend(begin, end)
        except ShardstreamError:
            return None

    def _claimed(self, claim: Claim, shard: OpenShard, begin: int, end: int) -> int | None:
        try:
            data = claim.data()
        except ShardstreamError:
            return None
        if data is None:
            return self._from_file(shard, begin, end)
        self.memories.append(data)
        return -len(self.memories)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        lenders, self._lenders = self._lenders, []
        for lender in lenders:
            lender.give_back()


class SampleReader:
    """Reads samples of a dataset by number. Safe for many threads; each brings its own Scratch.

    Args:
        dataset: where they lie.
        read: how remote ones are read.
        budget: bytes of remote shards that may be held in memory.
    """

    def __init__(self, dataset: Dataset, read: Reading = Reading(), *, budget: int = 0) -> None:  # noqa: B008 - frozen
        self.dataset = dataset
        self._shards = OpenShards(dataset, read)
        self._drives = Drives(self._shards, dataset.urls.__getitem__)
        in_flight = (read.remote or Remote()).in_flight
        self._fetcher = (
            Fetcher(self._shards.source, threads=in_flight, budget=budget) if self._shards.remote.any() else None
        )

    @property
    def traffic(self) -> Traffic:
        """What was fetched so far."""
        if self._fetcher is None:
            return Traffic()
        kept = self._shards.cache.report() if self._shards.cache is not None else {}
        traffic = self._fetcher.traffic
        if not kept:
            return replace(traffic)
        return replace(traffic, bytes=kept["fetched"] + kept["streamed"], requests=kept["requests"])

    def begin(self) -> Announcer:
        """A run of the plan begins; what was announced by the one before is dropped."""
        if self._fetcher is None:
            return KernelAhead(self.dataset, self._shards, self._drives)
        return FetchAhead(self.dataset, self._shards, self._drives, self._fetcher.begin())

    def spread(self, samples: npt.NDArray[np.int64], turn: int) -> list[int]:
        """In which order to read samples, so that threads with other turns are at other drives: their places."""
        if not self._drives.several:
            return list(range(len(samples)))
        return self._drives.spread(self.dataset.shards_of(samples).tolist(), turn)

    def read(
        self,
        samples: npt.NDArray[np.int64],
        scratch: Scratch,
        claims: Sequence[Claim | None] | None = None,
        hole: Callable[[int, int], Hole | None] | None = None,
    ) -> Iterator[Encoded]:
        """Each sample's bytes, in the order asked for.

        They are valid until the next is asked for. Samples that follow each other in a shard are read together.

        Args:
            samples: int64 (n,), their numbers.
            scratch: of the calling thread.
            claims: what `Announcer.announce` gave for each of them; released here.
            hole: given which of them it is and how many bytes it has, says what of it is to be read to another place
                than the scratch.
        """
        shards, begins, ends = (part.tolist() for part in self.dataset.locate(samples))
        numbers, at = samples.tolist(), 0
        claims = claims if claims is not None else [None] * len(numbers)
        while at < len(shards):
            claim = claims[at]
            if claim is not None:
                yield from self._claimed(claim, numbers[at], scratch)
                at += 1
                continue
            opened, base = self._shards.open(shards[at]), begins[at]
            if (
                hole is not None
                and opened.scatter is not None
                and (whole := scratch.take(ends[at] - base))
                and (apart := hole(at, len(whole))) is not None
            ):
                opened.scatter(base, apart.around(whole))
                yield Encoded(numbers[at], opened.url, base, whole, opened.targets, apart)
                at += 1
                continue
            upto = at + 1
            while (
                upto < len(shards)
                and claims[upto] is None
                and shards[upto] == shards[at]
                and begins[upto] == ends[upto - 1]
                and ends[upto] - begins[at] <= _JOINED_BYTES
            ):
                upto += 1
            whole = scratch.take(ends[upto - 1] - base)
            opened.source.read_into(base, whole)
            for i in range(at, upto):
                yield Encoded(
                    numbers[i], opened.url, begins[i], whole[begins[i] - base : ends[i] - base], opened.targets
                )
            at = upto

    def located(self, samples: Ints) -> Ints | None:
        """Shard, begin and end of each sample, int64 (3, n); None where one makes no sense, which `read` says."""
        try:
            return np.stack(self.dataset.locate(samples))
        except ShardstreamError:
            return None

    def lent(self, samples: Ints, where: Ints | None = None, claims: Sequence[Claim | None] | None = None) -> Lent:
        """Where samples lie, for somebody who reads them from there. What is wrong with a shard is left to `read`.

        Waits for what was announced and is not there yet.

        Args:
            samples: int64 (n,), their numbers.
            where: what `located` said of them.
            claims: what `Announcer.announce` gave for each of them; not released here.
        """
        lent = Lent(len(samples))
        where = self.located(samples) if where is None else where
        if where is not None:
            try:
                lent.borrow(list(map(self._opened, where[0].tolist())), claims, where[1:])
            except BaseException:  # of what was fetched, such as too little memory for it
                lent.__exit__()
                raise
        return lent

    def _opened(self, shard: int) -> OpenShard | None:
        try:
            return self._shards.open_with_others(shard)
        except ShardstreamError:
            return None

    def _claimed(self, claim: Claim, number: int, scratch: Scratch) -> Iterator[Encoded]:
        """An announced sample of a remote shard."""
        spot = claim.spot
        try:
            try:
                opened, data = self._shards.open(spot.shard), claim.data()
                if data is None:
                    data = scratch.take(spot.end - spot.begin)
                    opened.source.read_into(spot.begin, data)
            except ShardstreamError as error:
                raise error.at(url=self.dataset.urls[spot.shard], offset=spot.begin) from error.__cause__
            yield Encoded(number, opened.url, spot.begin, data, opened.targets)
        finally:
            claim.release()

    def stop(self) -> None:
        """Let all who wait for remote bytes raise, and nothing more be fetched or announced. Does not wait."""
        self._drives.stop()
        if self._fetcher is not None:
            self._fetcher.stop()
            self._shards.close()

    def close(self) -> None:
        """Close what no thread is reading from any more, and wait for the fetching threads; twice does nothing."""
        self.stop()
        self._shards.close()
        self._drives.join()
        if self._fetcher is not None:
            self._fetcher.join()

    def abandon(self) -> None:
        """As close, without waiting and without a lock: for a finalizer."""
        self._drives.stop()
        if self._fetcher is not None:
            self._fetcher.abandon()
        self._shards.close()
