"""The words for one sample, used by reader and writer alike.

A raw sample is a plain dict: field name to bytes-like, and the special keys `__key__` and `__url__` (both str), where
it is known `__index__` too (int, the sample's number in the dataset).
Plain, since users slice, copy and pickle it, and since webdataset's samples look the same.
"""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["INDEX", "KEY", "SPECIAL", "URL", "BytesLike", "RawSample", "Sample"]

KEY = "__key__"
URL = "__url__"
INDEX = "__index__"
SPECIAL = frozenset({KEY, URL, INDEX, "__shard__", "__shardindex__"})

BytesLike: TypeAlias = bytes | bytearray | memoryview
RawSample: TypeAlias = dict[str, Any]
"""`__key__` and `__url__` hold str, every other value is BytesLike."""
Sample: TypeAlias = dict[str, Any]
"""As RawSample, with decoded values."""
