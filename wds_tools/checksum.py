"""Checksums of whole files: "xxh3:9f1c..." or "sha256:...", computed while a shard is written, held against it later.

xxh3 (64 bits, as `xxhsum -H3` prints it) finds every accident and costs nothing beside a write: 48 GB/s measured where
the bytes are in the cache. sha256 also tells a forgery, at 1.8 GB/s with the CPU's instructions for it.
What others have put into listings (wids's md5sum) can be checked as well, but not made.
"""

from __future__ import annotations

import hashlib
from typing import Literal, Protocol, TypeAlias, get_args

from wds_tools.errors import UsageError
from wds_tools.sample import BytesLike

__all__ = ["Checksum", "Digest", "begin", "check_kind", "known"]

Checksum: TypeAlias = Literal["xxh3", "sha256"]
"""The kinds that are written."""


class Digest(Protocol):
    """A checksum in the making, as hashlib has it."""

    def update(self, data: BytesLike, /) -> object: ...

    def hexdigest(self) -> str: ...


def check_kind(kind: str | None) -> None:
    """Accept a kind of checksum to write, None for none.

    Raises:
        UsageError: it is no such kind.
    """
    if kind is not None and kind not in get_args(Checksum):
        raise UsageError(f"checksum is {kind!r}, expected one of {', '.join(map(repr, get_args(Checksum)))}, or None")


def known(kind: str) -> bool:
    """Whether a checksum of this kind can be computed here."""
    return kind == "xxh3" or (kind in hashlib.algorithms_available and not kind.startswith("shake"))


def begin(kind: str) -> Digest:
    """A digest of no bytes yet; `known` says whether there is one of this kind."""
    if kind == "xxh3":
        import xxhash

        return xxhash.xxh3_64()
    return hashlib.new(kind, usedforsecurity=False)
