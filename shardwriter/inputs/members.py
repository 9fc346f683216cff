"""One sample of a shard, looked into without reading all of it: its key, its fields, the bytes of one field.

Headers are read in pieces of 4 KiB, each of which mostly holds the small fields too; a large picture is jumped over.
What is no run of plain members (links, long names, sparse files) is read whole and parsed as readers do.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import NamedTuple

from shardwriter.inputs.opened import read_view
from wds_tools import addresses
from wds_tools.sample import KEY, SPECIAL, BytesLike, RawSample
from wds_tools.shard import link_targets, parse_sample
from wds_tools.sources.base import Source
from wds_tools.tar import runs

__all__ = ["Members", "first_key", "read_sample"]

_PIECE = 4096


class _Field(NamedTuple):
    begin: int
    size: int
    data: BytesLike | None
    """The bytes, where they came along with the headers."""


class Members:
    """The fields of the sample that lies from `begin` to `end` of an open shard (shardwriter.inputs.scope.Fields).

    Args:
        source: the shard; read as long as fields are asked for.
        begin: the offset of its first header.
        end: where its last member ends.
        whole: read all of it in one go, as is better where each read is a request.

    Raises:
        ShardError, MemberError: the bytes are no sample.
    """

    def __init__(self, source: Source, begin: int, end: int, *, whole: bool = False) -> None:
        self._source = source
        self.shard = posixpath.basename(source.url)
        self.key = ""
        self._fields: dict[str, _Field] = {}
        if whole or not self._walk(begin, end):
            self._parse(begin, end)

    def names(self) -> Iterator[str]:
        return iter(self._fields)

    def data(self, field: str) -> BytesLike:
        found = self._fields[field]
        return read_view(self._source, found.begin, found.size) if found.data is None else found.data

    def _walk(self, begin: int, end: int) -> bool:
        while begin < end:
            window = read_view(self._source, begin, min(_PIECE, end - begin))
            found = runs.plain_members(window, 0, len(window))
            if not found:
                return False
            for row in found:
                key, field, _, data, stop = row
                if field in self._fields or (self._fields and key != self.key):
                    return False
                self.key = key
                inside = window[data:stop] if stop <= len(window) else None
                self._fields[field] = _Field(begin + data, stop - data, inside)
            begin += found[-1][-1] + 511 & -512
        return begin == end and bool(self._fields)

    def _parse(self, begin: int, end: int) -> None:
        sample = read_sample(self._source, begin, end)
        self.key = sample[KEY]
        self._fields = {field: _Field(0, len(data), data) for field, data in sample.items() if field not in SPECIAL}


def read_sample(source: Source, begin: int, end: int) -> RawSample:
    """The sample that lies there; fields are read-only views on its bytes.

    Raises:
        ShardError, MemberError: the bytes are no sample. UnavailableError: from the source.
    """
    buffer = read_view(source, begin, end - begin)
    return parse_sample(buffer, url=source.url, offset=begin, targets=link_targets(source))


def first_key(source: Source, begin: int, end: int) -> str:
    """The key of the sample that lies there, from its first header where that is a plain one."""
    if not addresses.is_remote(source.url):
        found = runs.plain_members(read_view(source, begin, 512), 0, 512)
        if found:
            return found[0][0]
    return Members(source, begin, end, whole=True).key
