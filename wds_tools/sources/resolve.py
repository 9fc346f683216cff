"""From an address to an open source or stream: one table from scheme to opener.

Local paths and http are known here; a scheme that nobody has registered is handed to `fsspec.py`, which knows object
stores and hubs. Another kind of address adds its schemes with `register`; nothing else changes. Commands in place of an
address (`pipe:`) are never run.

Opening something local opens it; opening something remote asks nothing yet (a dataset has thousands of shards), so that
what is wrong with it is raised by the first read.
"""

from __future__ import annotations

from collections.abc import Callable

from wds_tools import addresses
from wds_tools.errors import UsageError
from wds_tools.sources.ahead import AheadStream
from wds_tools.sources.base import Source, Stream
from wds_tools.sources.local import LocalFile
from wds_tools.sources.options import Remote
from wds_tools.sources.sequential import SequentialSource

__all__ = ["Opener", "open_source", "open_stream", "register"]

Opener = Callable[[str, Remote], Source]


def _open_local(url: str, _remote: Remote) -> Source:
    return LocalFile(addresses.path_of(url), url=url).open()


def _open_http(url: str, remote: Remote) -> Source:
    from wds_tools.sources.http import HttpFile  # which needs urllib3: 0.1 s that local datasets do not pay

    return HttpFile(url, remote=remote)


def _open_other(url: str, remote: Remote) -> Source:
    try:
        from wds_tools.sources.fsspec import open_fsspec
    except ImportError as error:
        raise UsageError(
            f"{addresses.scheme(url)}:// cannot be read", url=url, cure="Copy the shards to a local disk first"
        ) from error
    return open_fsspec(url, remote)


_OPENERS: dict[str | None, Opener] = {None: _open_local, "file": _open_local, "http": _open_http, "https": _open_http}


def register(scheme: str, opener: Opener) -> None:
    """Open addresses of `scheme` (lower case, without `://`) with `opener(url, remote)` from now on."""
    _OPENERS[scheme] = opener


def open_source(url: str, *, remote: Remote | None = None) -> Source:
    """Open a shard (or other file) for positioned reads; the caller closes it.

    Args:
        url: a path or a url of any scheme that is read.
        remote: how remote hosts are asked; the defaults where None.

    Raises:
        UsageError: an address of a kind that is not read, or no regular file.
        ShardMissingError: nothing lies there (local; remote ones say so at their first read).
        UnavailableError: disk, permission, too many open files.
    """
    if url.startswith("pipe:"):
        raise UsageError(
            "commands in place of an address are not run", url=url, cure="Copy the shards to a local disk first"
        )
    return _OPENERS.get(addresses.scheme(url), _open_other)(url, remote or Remote())


def open_stream(url: str, *, remote: Remote | None = None) -> Stream:
    """Open a shard (or other file) to be read once from its first byte on; the caller closes it.

    Over http this is one request for all of it, which servers without ranges answer too; of a store ranges are asked
    for ahead. Arguments and errors are those of `open_source`.
    """
    if _OPENERS.get(addresses.scheme(url)) is _open_http:
        from wds_tools.sources.http import HttpStream

        return HttpStream(url, remote=remote or Remote())
    source = open_source(url, remote=remote)
    return AheadStream(source) if addresses.is_remote(url) else SequentialSource(source)
