"""The kernel's way for plain samples (`wds_tools.pictures.batched`), which training goes, as one decoder more."""

from __future__ import annotations

import tarfile

import numpy as np

from wds_tools.pictures.batched import Batched, entire
from wds_tools.pictures.decode import Box, Decoder, Pixels
from wds_tools.pictures.facts import Facts, check_size, read_facts
from wds_tools.pictures.kernel import Kernel
from wds_tools.pictures.options import Pictures
from wds_tools.sample import BytesLike

__all__ = ["ByTheChunk"]


class ByTheChunk(Decoder):
    """Whole pictures as samples of a shard in memory, by the chunk; what is left there, and parts, as elsewhere."""

    def decode(
        self,
        data: BytesLike,
        *,
        facts: Facts | None = None,
        box: Box | None = None,
        size: tuple[int, int] | None = None,
        flip: bool = False,
        out: Pixels | None = None,
    ) -> Pixels:
        if box is None:
            facts = read_facts(data)
            check_size(facts, self.options.max_pixels)
            if facts.format == "jpeg" and (made := _made(data, self.size(facts))) is not None:
                return made
        return super().decode(data, facts=facts, box=box, size=size, flip=flip, out=out)


def _made(data: BytesLike, size: tuple[int, int]) -> Pixels | None:
    member = tarfile.TarInfo("a.jpg")
    member.size = len(data)
    sample = member.tobuf(tarfile.USTAR_FORMAT) + bytes(data) + bytes(-len(data) % 512)
    places = np.array([[0, -1, 0, len(sample)]], np.int64)
    pixels = np.empty((1, size[1], size[0], 3), np.uint8)
    made = Batched(Kernel(), ("jpg",), ("jpg",), entire(), Pictures()).make(places, None, pixels, (sample,))
    return None if made.samples[0] is None else pixels[0]
