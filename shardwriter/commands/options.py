"""Kinds of options that the commands of shardwriter share."""

from __future__ import annotations

from wds_tools.commands.options import ByteSize

__all__ = ["ByteSize"]
