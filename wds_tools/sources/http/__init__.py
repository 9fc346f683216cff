"""Shards on web servers: ranges of them (`file.HttpFile`) and whole ones from the first byte on (`stream.HttpStream`)."""

from wds_tools.sources.http.file import HttpFile
from wds_tools.sources.http.stream import HttpStream

__all__ = ["HttpFile", "HttpStream"]
