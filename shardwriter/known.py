"""What a run holds each further sample against: the keys that it has written, and the pictures that it has packed.

Of a run that goes on, those of the shards that are there come first: their keys are made anew from the input, the
hashes of their pictures stand in the journal. Both are kept as hashes; a key is believed by it (`seen`), a picture is
compared byte by byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shardwriter.duplicates import Contents, pictures_of
from shardwriter.failures import DUPLICATE, Failure, failure_of
from shardwriter.inputs import Input
from shardwriter.seen import SeenKeys
from shardwriter.stage import REPORTED, Prepared
from wds_tools.errors import KeyRefusedError

__all__ = ["Known"]


class Known:
    """Keys and pictures of a run so far.

    Args:
        samples: the input.
    """

    def __init__(self, samples: Input) -> None:
        self._samples = samples
        self._seen = SeenKeys()
        self._contents = Contents()

    def remember(self, places: Iterable[int], contents: Sequence[int]) -> None:
        """Count the samples of a shard that is there.

        Args:
            places: of the input, in the shard's order.
            contents: a hash of each one's pictures; empty where nobody looks for duplicates.
        """
        for number, place in enumerate(places):
            self._seen.add(self._samples.key(place))
            self.add(contents[number] if number < len(contents) else 0, place)

    def add(self, content: int, place: int) -> None:
        """Count the pictures of a sample, 0 for none."""
        if content:
            self._contents.add(content, place)

    def duplicate(self, made: Prepared) -> Failure | None:
        """What to report where the sample's pictures came before; None where they did not."""
        first = self._contents.find(made.content) if made.content else None
        if first is None:
            return None
        try:  # 64 bits are no proof
            same = pictures_of(self._samples.sample(first)) == pictures_of(self._samples.sample(made.place))
        except REPORTED:
            return None
        if not same:
            return None
        name, other = self._samples.name(made.place), self._samples.name(first)
        return Failure(name, DUPLICATE, f"the same picture as {other}", other)

    def key(self, made: Prepared) -> Failure | None:
        """What to report where the sample's key was written before; else the key is taken, and None."""
        if made.encoded is None or self._seen.add(made.encoded.key):
            return None
        error = KeyRefusedError(
            "the key was written before in this run",
            key=made.encoded.key,
            cure="Keys must differ within a dataset; put the folder or a running number into them.",
        )
        return failure_of(self._samples.name(made.place), error)
