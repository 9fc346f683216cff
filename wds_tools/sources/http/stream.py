"""An object on a web server from its first byte on."""

from __future__ import annotations

from typing import Self

import urllib3

from wds_tools.errors import ShardMissingError, TruncatedShardError, UnavailableError
from wds_tools.sources.options import Remote

__all__ = ["HttpStream"]

_pool = urllib3.PoolManager()


class HttpStream:
    """An object on a web server as a Stream. Opening asks nothing."""

    def __init__(self, url: str, *, remote: Remote | None = None) -> None:
        self._url = url
        self._remote = remote or Remote()
        self._answer: urllib3.BaseHTTPResponse | None = None

    @property
    def url(self) -> str:
        return self._url

    @property
    def shows_cuts(self) -> bool:
        return "Content-Length" in self._begun().headers

    @property
    def length(self) -> int | None:
        """Bytes in all, where the server says so."""
        length = self._begun().headers.get("Content-Length")
        return None if length is None else int(length)

    @property
    def version(self) -> str | None:
        return self._begun().headers.get("ETag")

    def _begun(self) -> urllib3.BaseHTTPResponse:
        if self._answer is None:
            self._answer = _pool.request("GET", self._url, preload_content=False)
            if self._answer.status == 404:
                raise ShardMissingError("no such file (404)", url=self._url)
            if self._answer.status != 200:
                raise UnavailableError(f"status {self._answer.status}", url=self._url)
        return self._answer

    def readinto(self, buffer: memoryview, /) -> int:
        try:
            data = self._begun().read(len(buffer))
        except urllib3.exceptions.HTTPError as error:
            raise TruncatedShardError("the transfer ended too early", url=self._url) from error
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if self._answer is not None:
            self._answer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
