"""How large a picture is and whether it is whole, for those who look at many and decode none.

Nearly all pictures are plain JPEGs, of which the kernel tells both in half a microsecond, where `read_facts` and
`check_whole` need six. It says nothing of others, and of all that is odd; those are asked then. So what is refused, and
in which words, does not depend on the kernel.
"""

from __future__ import annotations

from collections.abc import Callable

from wds_tools.pictures.facts import Shape, check_size, check_whole, read_facts
from wds_tools.pictures.kernel import capability
from wds_tools.sample import BytesLike

__all__ = ["shape_reader"]


def shape_reader(max_pixels: int) -> Callable[[BytesLike], Shape]:
    """What reads the shape of a picture, from any thread.

    Args:
        max_pixels: the limit.

    Returns:
        A function that raises what `read_facts`, `check_size` and `check_whole` raise.
    """
    if not capability().jpeg:
        return lambda data: _read(data, max_pixels)
    from wds_tools.pictures import _pixels

    plain = _pixels.Kernel().facts

    def read(data: BytesLike) -> Shape:
        found = plain(data)
        if found is None:
            return _read(data, max_pixels)
        shape = Shape("jpeg", found[0], found[1])
        if shape.width * shape.height > max_pixels:
            check_size(shape, max_pixels)
        return shape

    return read


def _read(data: BytesLike, max_pixels: int) -> Shape:
    facts = read_facts(data)
    check_size(facts, max_pixels)
    check_whole(data, facts)
    return Shape(facts.format, facts.width, facts.height)
