"""One raw sample to the values of its columns. Pictures with an output size are decoded straight into the slab."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loaders.crops import Geometry, Mask, usual_side
from loaders.fields import FieldSpec
from wds_tools import codec
from wds_tools.errors import ShardstreamError
from wds_tools.pictures.decode import Decoder
from wds_tools.pictures.facts import read_facts
from wds_tools.pictures.options import Pictures
from wds_tools.sample import KEY, SPECIAL, URL, BytesLike, RawSample

__all__ = ["SampleDecoder"]


class SampleDecoder:
    """Decodes the wanted fields of samples. One per thread, since the decoder has scratch memory.

    Attributes:
        looked_at: width and height of a picture, and the shorter side that would do for its crop. Filled by the next
            picture that is cropped, when it is None.
    """

    def __init__(self, specs: Sequence[FieldSpec], pictures: Pictures) -> None:
        self._specs = specs
        self._decoder = Decoder(pictures)
        self.looked_at: tuple[int, int, int] | None = None
        self._leader = next((spec.image for spec in specs if spec.image and not isinstance(spec.image, Mask)), None)

    def values(self, sample: RawSample, draws: Sequence[float], slots: Sequence[Any]) -> list[Any]:
        """The value of each column.

        Args:
            sample: as read; its bytes are not needed any more afterwards.
            draws: the uniform numbers of this position.
            slots: for each column the uint8 (H, W, 3) array to decode into, or None.

        Raises:
            SampleError: naming shard, key and field.
        """
        values: list[Any] = []
        for spec, slot in zip(self._specs, slots, strict=True):
            found = spec.find(sample)
            if found is None:
                values.append(None)
            elif found in SPECIAL:
                values.append(sample[found])
            else:
                try:
                    values.append(self._value(spec, found, sample[found], draws, slot))
                except ShardstreamError as error:
                    raise error.at(url=sample[URL], key=sample[KEY], field=found) from error.__cause__
        return values

    def _value(self, spec: FieldSpec, field: str, data: BytesLike, draws: Sequence[float], slot: Any) -> Any:
        if not spec.picture:
            return codec.decode_field(field, data)
        if isinstance(spec.image, Mask):
            return self._mask(data, draws)
        return self._picture(data, spec.image, draws, slot)

    def _picture(self, data: BytesLike, geometry: Geometry | None, draws: Sequence[float], slot: Any) -> Any:
        if geometry is None:
            return self._decoder.decode(data)
        facts = read_facts(data)
        size = self._decoder.size(facts)
        if self.looked_at is None:
            self.looked_at = (*size, usual_side(geometry.shape))
        box, flip = geometry.place(*size, draws)
        return self._decoder.decode(data, facts=facts, box=box, size=geometry.shape, flip=flip, out=slot)

    def _mask(self, data: BytesLike, draws: Sequence[float]) -> Any:
        if self._leader is None:
            return self._decoder.decode_mask(data)
        facts = read_facts(data)
        box, flip = self._leader.place(*self._decoder.size(facts), draws)
        return self._decoder.decode_mask(data, facts=facts, box=box, size=self._leader.shape, flip=flip)
