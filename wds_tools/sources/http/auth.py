"""Which headers go with a request, and to whom.

What the user gave for an address goes to that address's scheme, host and port, and to no other place that a redirect
leads to. In this order: `Remote.headers` (a mapping, or a function that is asked before each request), the user and
password in the url, and, where there are no `headers`, the user's netrc file (`NETRC`, else `~/.netrc`), as curl and
git read it. A netrc that does not parse is left out with one warning that does not show it.

Header values are checked here, since the standard library would show them in its error.
"""

from __future__ import annotations

import base64
import functools
import logging
import netrc
import os
import re
from collections.abc import Mapping
from urllib.parse import unquote

from wds_tools import __version__
from wds_tools.errors import UsageError, shown
from wds_tools.sources.http.addressing import origin, split
from wds_tools.sources.options import Remote

__all__ = ["headers_for"]

_log = logging.getLogger(__name__)
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_OURS = {"range", "if-range", "accept-encoding", "connection", "host", "content-length", "transfer-encoding"}


def headers_for(url: str, place: str, remote: Remote) -> dict[str, str]:
    """The headers for a request to `place`, to which the address `url` led (or which it is).

    Raises:
        UsageError: a name or value that no header may have, or one that is set here.
    """
    headers = {"User-Agent": f"shardstream/{__version__}", "Accept": "*/*", "Accept-Encoding": "identity"}
    user = _userinfo(place)
    if origin(place) != origin(url):
        return headers | user
    if remote.headers is None:
        return headers | (user or _from_netrc(origin(url)[1]))
    given = remote.headers(url) if callable(remote.headers) else remote.headers
    own = _checked(given, url)
    named = {name.lower() for name in own}
    return {name: value for name, value in (headers | user).items() if name.lower() not in named} | own


def _checked(given: Mapping[str, str], url: str) -> dict[str, str]:
    for name, value in given.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise UsageError(f"Remote.headers has {shown(name)}, which is no name of a header", url=url)
        if name.lower() in _OURS:
            raise UsageError(f"Remote.headers has {name}, which every request sets by itself", url=url)
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            raise UsageError(
                f"Remote.headers has a value for {name} that no header may have (its value is not shown)",
                url=url,
                cure="Values are text without line breaks: strip what was read from a file",
            )
    return dict(given)


def _userinfo(url: str) -> dict[str, str]:
    parts = split(url)
    if parts.username is None and parts.password is None:
        return {}
    return _basic(unquote(parts.username or ""), unquote(parts.password or ""))


def _basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def _from_netrc(host: str) -> dict[str, str]:
    path = os.environ.get("NETRC") or os.path.expanduser("~/.netrc")  # noqa: PTH111 - pathlib raises where there is no home
    try:
        facts = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return {}
    found = _netrc(path, facts.st_mtime_ns, facts.st_size)
    entry = found.authenticators(host) if found is not None else None
    return {} if entry is None else _basic(entry[0] or "", entry[2] or "")


@functools.lru_cache(maxsize=4)
def _netrc(path: str, _changed: int, _size: int) -> netrc.netrc | None:
    try:
        return netrc.netrc(path)
    except (OSError, netrc.NetrcParseError, UnicodeDecodeError) as error:
        line = f" (line {error.lineno})" if isinstance(error, netrc.NetrcParseError) and error.lineno else ""
        _log.warning("%s cannot be read%s and is left out", path, line)
        return None
