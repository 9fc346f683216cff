"""The server of files: a folder, and all that lies below it and is not hidden."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Self

from wds_tools.addresses import given
from wds_tools.errors import UsageError
from wds_tools.serve.answers import Answer, answer_request
from wds_tools.serve.connection import Limits, Served
from wds_tools.serve.head import Request
from wds_tools.serve.web import LOOPBACK, WebServer

__all__ = ["LOOPBACK", "Server", "serve"]


class Server(WebServer):
    """Serves a folder from `open` (or `with`) to `close`. Made by `serve`, which tells the arguments."""

    def __init__(
        self,
        directory: Path,
        *,
        host: str,
        port: int,
        connections: int,
        limits: Limits | None,
        on_request: Callable[[Served], object] | None,
    ) -> None:
        super().__init__(
            host=host,
            port=port,
            respond=self._answer,
            connections=connections,
            limits=limits,
            on_request=on_request,
        )
        self.directory = directory
        self._root = ""

    def __repr__(self) -> str:
        return f"serve({str(self.directory)!r}, host={self.host!r}, port={self.port})"

    def open(self) -> Self:
        """Listen from now on.

        Raises:
            UsageError: no such folder, an address that is not this machine's, a port that is taken.
        """
        if self._listener is not None:
            return self
        try:
            self._root = os.path.realpath(self.directory, strict=True)
            os.close(os.open(self._root, os.O_RDONLY | os.O_DIRECTORY))
        except OSError as error:
            raise UsageError(f"{self.directory} cannot be served: {error.strerror}", cure="Name a folder.") from error
        return super().open()

    def _answer(self, request: Request, loopback: bool) -> Answer:  # noqa: FBT001 - called by the base class alone
        return answer_request(request, root=self._root, loopback=loopback)


def serve(
    directory: str | os.PathLike[str],
    *,
    host: str = LOOPBACK,
    port: int = 0,
    connections: int = 256,
    limits: Limits | None = None,
    on_request: Callable[[Served], object] | None = None,
) -> Server:
    """A server of the files in `directory`, to be used with `with`; `.url` says where it listens.

    Args:
        directory: what is served, with all that lies below it and is not hidden.
        host: the address to listen at; the default is seen from this machine only, "0.0.0.0" from everywhere.
        port: the port to listen at, 0 for one that is free.
        connections: the most clients at once.
        limits: seconds that a client may take.
        on_request: called after each request, from several threads.

    Raises:
        UsageError: options that cannot be; from `open`: no such folder, or an address or a port that cannot be had.
    """
    return Server(
        Path(given(directory, "directory")),
        host=host,
        port=port,
        connections=connections,
        limits=limits,
        on_request=on_request,
    )
