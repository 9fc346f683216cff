"""The words for one sample, used by reader and writer alike.

A raw sample is a plain dict: field name to bytes-like, and the special keys `__key__` and `__url__` (both str).
Plain, since users slice, copy and pickle it, and since webdataset's samples look the same.
"""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["KEY", "SPECIAL", "URL", "BytesLike", "RawSample", "Sample"]

KEY = "__key__"
URL = "__url__"
SPECIAL = frozenset({KEY, URL, "__index__", "__shard__", "__shardindex__"})

BytesLike: TypeAlias = bytes | bytearray | memoryview
RawSample: TypeAlias = dict[str, Any]
"""`__key__` and `__url__` hold str, every other value is BytesLike."""
Sample: TypeAlias = dict[str, Any]
"""As RawSample, with decoded values."""
