"""What happens to one sample between the input and the shard, in any thread: read, check, transcode, encode.

Everything that costs is here, so that the one thread that writes only asks whether the key is new and appends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from shardwriter.check import Checker
from shardwriter.duplicates import content_of
from shardwriter.encode import Encoded, Encoder
from shardwriter.failures import Failure, failure_of
from shardwriter.inputs import Input
from shardwriter.inputs.base import SideBySide
from shardwriter.settings import Settings
from wds_tools.errors import FieldRefusedError, KeyRefusedError, SampleError
from wds_tools.pictures.facts import Facts, Shape
from wds_tools.sample import Sample

__all__ = ["REPORTED", "Prepared", "Stage"]

REPORTED = (OSError, SampleError, KeyRefusedError, FieldRefusedError)
"""What is said of one sample, and does not end the run."""

_FAILURE_BYTES = 500


class Prepared(NamedTuple):
    """One sample, ready to be appended.

    Attributes:
        place: in the input.
        encoded: its pieces; None where it could not be made.
        failure: why, where it could not.
        content: 64 bits of its pictures as they came, 0 without pictures or where nobody asks for it.
        misnamed: pictures whose bytes are of another format than their name says.
        pictures: what the headers of those that are packed as they came say, by field.
    """

    place: int
    encoded: Encoded | None
    failure: Failure | None = None
    content: int = 0
    misnamed: int = 0
    pictures: Mapping[str, Facts | Shape] = MappingProxyType({})

    @property
    def size(self) -> int:
        """About how many bytes it holds."""
        return _FAILURE_BYTES if self.encoded is None else self.encoded.size


class Stage:
    """Prepares the samples of an input.

    Args:
        samples: the input.
        settings: how.
    """

    def __init__(self, samples: Input, settings: Settings) -> None:
        self._samples = samples
        self._joined = samples if isinstance(samples, SideBySide) else None
        self._checker = Checker(settings.check, settings.pictures)
        self._transcode = settings.transcode
        self._dedup = settings.dedup
        self._encoder = Encoder()

    def __call__(self, places: Sequence[int]) -> Iterator[Prepared]:
        """The samples at these places of the input, one after the other.

        Raises:
            UnavailableError: this process has run out of descriptors or memory.
        """
        take = self._alone if self._joined is None else self._joined.side_by_side(places)
        for place in places:
            yield self._prepared(place, take)

    def _alone(self, place: int) -> tuple[Sample, None]:
        return self._samples.sample(place), None

    def _prepared(self, place: int, take: Callable[[int], tuple[Sample, memoryview | None]]) -> Prepared:
        try:
            sample, members = take(place)
            pictures, misnamed = self._checker.check(sample)
            content = content_of(sample) if self._dedup else 0
            if self._transcode is not None:
                given, sample, members = sample, self._transcode.prepare(sample), None
                pictures = {field: facts for field, facts in pictures.items() if sample.get(field) is given[field]}
            encoder = self._encoder
            encoded = encoder.encode(sample) if members is None else encoder.taken(sample, members)
            return Prepared(place, encoded, None, content, misnamed, pictures)
        except REPORTED as error:
            return Prepared(place, None, failure_of(self._samples.name(place), error))
