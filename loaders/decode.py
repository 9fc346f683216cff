"""One raw sample to the values of its columns. Pictures with an output size are decoded straight into the slab.

An `npy` field with a crop is a picture whose pixels are there already (`wds pack --to npy` writes them): the same
boxes, the same filter, and a plain copy where nothing is resized. Without a crop it is copied once, from where it was
read to its place in the batch.

With a cache of decoded pictures (`decoded`) a picture is first decoded to the size that is kept, and the crop is cut
from that. What was made so, or came from the cache, stands in the raw sample in place of the picture's bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from loaders.crops import Geometry, Mask, usual_side
from loaders.decoded.small import KeptSize, Small, mapped, small_shape
from loaders.fields import FieldSpec
from loaders.stacked import Slot
from loaders.straight import InPlace
from wds_tools import codec
from wds_tools.errors import FieldError, ShardstreamError
from wds_tools.pictures.cut import cut_mask
from wds_tools.pictures.decode import Decoder
from wds_tools.pictures.facts import read_facts
from wds_tools.pictures.options import Pictures
from wds_tools.sample import KEY, SPECIAL, URL, BytesLike, RawSample

__all__ = ["SampleDecoder"]


class SampleDecoder:
    """Decodes the wanted fields of samples. One per thread, since the decoder has scratch memory.

    Args:
        specs: the columns.
        pictures: what decoding does.
        kept: the size to which pictures are decoded before a crop is cut; None decodes the crop itself.

    Attributes:
        looked_at: width and height of a picture, and the shorter side that would do for its crop. Filled by the next
            picture that is cropped, when it is None.
    """

    def __init__(self, specs: Sequence[FieldSpec], pictures: Pictures, kept: KeptSize | None = None) -> None:
        self._kept = kept
        self._columns = [(spec, spec.arrays, spec.picture) for spec in specs]
        self._decoder = Decoder(pictures)
        self.looked_at: tuple[int, int, int] | None = None
        self._leader = next((spec.image for spec in specs if spec.image and not isinstance(spec.image, Mask)), None)

    def values(self, sample: RawSample, draws: Sequence[float], slots: Sequence[Slot]) -> list[Any]:
        """The value of each column.

        Args:
            sample: as read; its bytes are not needed any more afterwards. Where pictures are kept, it has them instead
                of their bytes afterwards.
            draws: the uniform numbers of this position.
            slots: for each column the uint8 (H, W, 3) array to decode into; for one of arrays a function that keeps an
                array and returns what it kept; or None.

        Raises:
            SampleError: naming shard, key and field.
        """
        values: list[Any] = []
        for (spec, arrays, picture), slot in zip(self._columns, slots, strict=True):
            found = spec.find(sample)
            if found is None:
                values.append(None)
            elif found in SPECIAL:
                values.append(sample[found])
            else:
                try:
                    data = sample[found]
                    if arrays:
                        value = self._array(found, data, spec.image, draws, slot)
                    elif not picture:
                        value = codec.decode_field(found, data)
                    elif isinstance(spec.image, Mask):
                        value = self._mask(data, draws)
                    elif spec.image is None or self._kept is None:
                        value = self._picture(data, spec.image, draws, slot)
                    else:
                        small = sample[found] = data if isinstance(data, Small) else self._small(data, self._kept)
                        value = self._part(small, spec.image, draws, slot)
                    values.append(value)
                except ShardstreamError as error:
                    raise error.at(url=sample[URL], key=sample[KEY], field=found) from error.__cause__
        return values

    def _array(
        self, field: str, data: BytesLike | InPlace, image: Geometry | Mask | None, draws: Sequence[float], slot: Any
    ) -> Any:
        if isinstance(data, InPlace):
            return data.array
        array = codec.view_array(field, data)
        if image is None:
            return array.copy(order="K") if slot is None else slot(array)
        geometry = self._leader if isinstance(image, Mask) else image
        if geometry is None:
            return array.copy(order="K")
        _check_pixels(array, mask=isinstance(image, Mask))
        height, width = array.shape[:2]
        box, flip = geometry.place(width, height, draws)
        if isinstance(image, Mask):
            return cut_mask(array, box=box, size=geometry.shape, flip=flip)
        return self._decoder.cut(array, box=box, size=geometry.shape, flip=flip, out=slot)

    def _picture(self, data: BytesLike, geometry: Geometry | None, draws: Sequence[float], slot: Any) -> Any:
        if geometry is None:
            return self._decoder.decode(data)
        facts = read_facts(data)
        size = self._decoder.size(facts)
        if self.looked_at is None:
            self.looked_at = (*size, usual_side(geometry.shape))
        box, flip = geometry.place(*size, draws)
        return self._decoder.decode(data, facts=facts, box=box, size=geometry.shape, flip=flip, out=slot)

    def _small(self, data: BytesLike, size: KeptSize) -> Small:
        facts = read_facts(data)
        width, height = self._decoder.size(facts)
        pixels = self._decoder.decode(data, facts=facts, size=small_shape(width, height, size))
        return Small(width, height, pixels)

    def _part(self, small: Small, geometry: Geometry, draws: Sequence[float], slot: Any) -> Any:
        box, flip = geometry.place(small.width, small.height, draws)
        return self._decoder.cut(small.pixels, box=mapped(box, small), size=geometry.shape, flip=flip, out=slot)

    def _mask(self, data: BytesLike, draws: Sequence[float]) -> Any:
        if self._leader is None:
            return self._decoder.decode_mask(data)
        facts = read_facts(data)
        box, flip = self._leader.place(*self._decoder.size(facts), draws)
        return self._decoder.decode_mask(data, facts=facts, box=box, size=self._leader.shape, flip=flip)


def _check_pixels(array: npt.NDArray[Any], *, mask: bool) -> None:
    """Refuse an array that is no picture.

    Raises:
        FieldError: it has another dtype or shape.
    """
    if mask:
        fits, expected = array.ndim in {2, 3} and array.size > 0, "(height, width)"
    else:
        channels = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in {1, 3})
        fits, expected = channels and array.size > 0 and array.dtype == np.uint8, "uint8 (height, width, 3)"
    if not fits:
        raise FieldError(
            f"an array of {array.dtype} {array.shape} has a crop, expected {expected}",
            cure='Say which fields are pictures: image={"npy": RandomResizedCrop(224)}; or crop it in transform=.',
        )
