"""How tests read what is left of a stream."""

from __future__ import annotations

from wds_tools.sources.base import Stream

__all__ = ["rest_of"]


def rest_of(stream: Stream, piece: int = 7000) -> bytes:
    """All of it, so many bytes at a time."""
    whole, buffer = bytearray(), bytearray(piece)
    while count := stream.readinto(memoryview(buffer)):
        whole += buffer[:count]
    return bytes(whole)
