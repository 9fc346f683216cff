"""Ranges of an object on a web server."""

from __future__ import annotations

import re
from typing import Self

import urllib3

from wds_tools.errors import (
    RangesRefusedError,
    ShardChangedError,
    ShardMissingError,
    TruncatedShardError,
    UnavailableError,
)
from wds_tools.sources.options import Remote

__all__ = ["HttpFile"]

_pool = urllib3.PoolManager()


class HttpFile:
    """An object on a web server as a Source. Opening asks nothing."""

    def __init__(
        self, url: str, *, remote: Remote | None = None, size: int | None = None, version: str | None = None
    ) -> None:
        self._url = url
        self._remote = remote or Remote()
        self._size = size
        self._version = version
        self._ranges: bool | None = None

    @property
    def url(self) -> str:
        return self._url

    @property
    def version(self) -> str | None:
        return self._version

    @property
    def ranges(self) -> bool | None:
        return self._ranges

    @property
    def limited(self) -> bool:
        return False

    def expect(self, *, size: int | None = None, version: str | None = None) -> Self:
        self._size = size
        self._version = version
        return self

    def size(self) -> int:
        if self._size is None:
            self._get(0, 1)
        if self._size is None:
            raise UnavailableError("the server does not say how long it is", url=self._url)
        return self._size

    def read_into(self, offset: int, buffer: memoryview) -> None:
        if not len(buffer):
            return
        data = self._get(offset, len(buffer))
        if len(data) < len(buffer):
            raise TruncatedShardError("it ends too early", url=self._url, offset=offset + len(data))
        buffer[:] = data

    def _get(self, offset: int, length: int) -> bytes:
        headers = {"Range": f"bytes={offset}-{offset + length - 1}", "Accept-Encoding": "identity"}
        answer = _pool.request("GET", self._url, headers=headers, preload_content=False)
        try:
            if answer.status == 404:
                raise ShardMissingError("no such file (404)", url=self._url)
            if answer.status == 200:
                self._ranges = False
                self._size = int(answer.headers["Content-Length"])
                raise RangesRefusedError("the server does not answer ranges", url=self._url)
            if answer.status != 206:
                raise UnavailableError(f"status {answer.status}", url=self._url)
            total = int(re.fullmatch(r"bytes \d+-\d+/(\d+)", answer.headers["Content-Range"])[1])
            version = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
            if self._size not in {None, total} or self._version not in {None, version}:
                raise ShardChangedError("another object lies there now", url=self._url)
            self._size, self._version, self._ranges = total, version, True
            return answer.read()
        finally:
            answer.release_conn()

    def announce(self, offset: int, length: int) -> None:
        pass

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
