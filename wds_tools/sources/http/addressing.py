"""The parts of a web address: what is asked for, and to whom its credentials belong. Pure."""

from __future__ import annotations

import functools
from typing import TypeAlias
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

from wds_tools.errors import UnavailableError, UsageError, public

__all__ = ["Origin", "bare", "led_to", "origin", "split"]

Origin: TypeAlias = tuple[str, str, int]
"""(scheme, host, port)."""

_PORTS = {"http": 80, "https": 443}


@functools.lru_cache(maxsize=1024)
def split(url: str) -> SplitResult:
    """The parts of an http or https url.

    Raises:
        UsageError: no host, or a port that is none.
    """
    try:
        parts = urlsplit(url)
        whole = parts.scheme in _PORTS and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        whole = False
    if not whole:
        raise UsageError("this is no complete http url", url=url, cure="Write http://host/path or https://host/path")
    return parts


@functools.lru_cache(maxsize=1024)
def origin(url: str) -> Origin:
    """(scheme, host, port): what credentials belong to."""
    parts = split(url)
    return parts.scheme, parts.hostname or "", parts.port or _PORTS[parts.scheme]


@functools.lru_cache(maxsize=1024)
def bare(url: str) -> str:
    """The url as it is asked for: without user, password and fragment."""
    parts = split(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment=""))


def led_to(url: str, location: str) -> str:
    """Where a redirect from `url` leads.

    Raises:
        UnavailableError: to something that is not asked: another scheme, or from https to plain http.
    """
    try:
        target = urljoin(url, location)
        scheme = origin(target)[0]
    except (UsageError, ValueError) as error:
        raise UnavailableError(
            f"the server sends us on to what is no http address ({public(location)})", url=url
        ) from error
    if scheme == "http" and origin(url)[0] == "https":
        raise UnavailableError(
            f"the server sends us on from https to plain http ({public(target)}), which anybody on the way can change",
            url=url,
            cure="Name that address yourself, if it is to be trusted",
        )
    return target
