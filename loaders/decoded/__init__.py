"""Pictures decoded once to a stated size and kept, so that later epochs cost a crop, a flip and a copy.

    options   what the user asks for: where, how much, which size
    small     a picture at that size, and where a crop of the original lies in it
    layout    the file as numbers and bytes alone
    places    the folder that holds the files: who uses them, what may be removed, how much is left
    store     one file: what is there is read, what is missing is added while there is room

A crop is drawn on the original and cut from the small picture, whether that came from the cache or was made just now:
so a batch does not depend on what was cached, and pixels differ a little from those without a cache. Reports and states
name the size beside the backend.
"""

from loaders.decoded.options import DecodedCache
from loaders.decoded.small import Small
from loaders.decoded.store import DecodedCounts, DecodedStore, open_store

__all__ = ["DecodedCache", "DecodedCounts", "DecodedStore", "Small", "open_store"]
