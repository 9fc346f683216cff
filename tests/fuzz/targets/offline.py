"""No fuzzed address leads out of this machine, and none is waited for."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any
from unittest import mock

from wds_tools.sources.http import hosts, retry
from wds_tools.sources.options import Remote

__all__ = ["REMOTE", "offline"]

REMOTE = Remote(attempts=3, give_up_s=0.5, connect_s=5, stall_s=5)
_look_up = socket.getaddrinfo


@contextlib.contextmanager
def offline() -> Iterator[None]:
    """Names are not looked up but the loopback's; nothing waits between attempts; hosts are met for the first time."""
    hosts._hosts.clear()
    with mock.patch("socket.getaddrinfo", _only_here), mock.patch.multiple(retry, _FIRST_S=0.0, _SPREAD_S=0.0):
        yield


def _only_here(name: Any, *arguments: Any, **named: Any) -> Any:
    if name not in {"127.0.0.1", "localhost"}:
        raise socket.gaierror(socket.EAI_NONAME, "not asked while fuzzing")
    return _look_up("127.0.0.1", *arguments, **named)
