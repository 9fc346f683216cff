"""The file systems of this process: one for each scheme and its options, made when it is first asked.

fsspec runs the asynchronous ones (s3, gs, az) in one event loop on one thread, and neither goes along to a forked
child. So a child begins with an empty table and makes its own. What its parent had is kept there and never used: to
let it go would close the parent's connections under it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wds_tools.addresses import scheme
from wds_tools.errors import UnavailableError, UsageError
from wds_tools.sources.fsspec.refusals import missing_package
from wds_tools.sources.options import Remote

__all__ = ["System", "form_of", "system_of"]

_LOOK_S = 0.2
_S3 = {"s3", "s3a"}


@dataclass(frozen=True, kw_only=True)
class System:
    """One file system.

    Attributes:
        scheme: of the urls that it opens, as they are written.
        fs: fsspec's object.
        closed: whether nobody waits for its answers any more; looked at every `_LOOK_S`.
    """

    scheme: str
    fs: Any = field(repr=False)
    closed: Callable[[], bool] = field(default=lambda: False, repr=False)

    def path(self, url: str) -> str:
        """What the file system calls the object at `url`."""
        return str(self.fs._strip_protocol(url))  # noqa: SLF001 - the name that fsspec publishes it by

    def call(self, method: str, *args: object, within_s: float, **options: object) -> Any:
        """The file system's method of that name, ended after so many seconds where it is an asynchronous one."""
        coroutine = getattr(self.fs, f"_{method}", None)
        if not self.fs.async_impl or not inspect.iscoroutinefunction(coroutine):
            return getattr(self.fs, method)(*args, **options)
        return self.run(coroutine, *args, within_s=within_s, **options)

    def run(self, coroutine: Any, *args: object, within_s: float, **options: object) -> Any:
        """A coroutine function's result, from the file system's own loop.

        Raises:
            TimeoutError: it has none in time.
            UnavailableError: it was closed meanwhile.
            Exception: whatever it raises.
        """
        future = asyncio.run_coroutine_threadsafe(coroutine(*args, **options), self.fs.loop)
        ends = time.monotonic() + within_s
        try:
            while not future.done():
                if self.closed():
                    raise UnavailableError("the file is not open")
                if (left := ends - time.monotonic()) <= 0:
                    raise TimeoutError(f"no answer within {within_s:,.0f} s")
                concurrent.futures.wait([future], min(left, _LOOK_S))
            return future.result()
        finally:
            future.cancel()  # nothing, where it has ended


class _Systems:
    """What this process has made so far. A few entries, found by comparing, since options need not be hashable."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.made: list[tuple[object, System]] = []

    def find(self, key: object) -> System | None:
        return next((system for known, system in self.made if known == key), None)


_systems = _Systems()
_inherited: list[_Systems] = []


def system_of(url: str, remote: Remote) -> System:
    """The file system that opens `url`.

    Raises:
        UsageError: nobody knows the scheme, a package is missing, or the options are not those of the file system.
    """
    kind, form = form_of(url)
    options = {**form._get_kwargs_from_urls(url), **remote.storage.get(kind, {})}  # noqa: SLF001 - fsspec's own way
    times = (remote.connect_s, remote.stall_s) if kind in _S3 else None  # which a client of S3 is made with
    systems, key = _systems, (kind, options, times)
    with systems.lock:
        system = systems.find(key)
        if system is None:
            system = System(scheme=kind, fs=_made(form, kind, options, remote, url))
            systems.made.append((key, system))
    return system


def form_of(url: str) -> tuple[str, Any]:
    """The scheme of `url` and fsspec's class for it.

    Raises:
        UsageError: nobody knows the scheme, or a package is missing.
    """
    kind = scheme(url) or ""
    try:
        from fsspec import get_filesystem_class

        return kind, get_filesystem_class(kind)
    except ImportError as error:
        raise missing_package(url, error) from error
    except ValueError as error:
        raise UsageError(f"{kind}:// is no kind of address that is known", url=url, cure="Check the url") from error


def _made(form: Any, kind: str, options: Mapping[str, object], remote: Remote, url: str) -> Any:
    given = dict(options)
    if kind in _S3:
        # One attempt, of botocore as of s3fs: it is tried again here, where the bounds are known.
        ours = {"connect_timeout": remote.connect_s, "read_timeout": remote.stall_s, "retries": {"max_attempts": 0}}
        given["config_kwargs"] = {**ours, **_mapping(given.get("config_kwargs"))}
    try:
        fs = form(**given, use_listings_cache=False, skip_instance_cache=True)
    except ImportError as error:
        raise missing_package(url, error) from error
    except (TypeError, ValueError, KeyError) as error:
        names = ", ".join(sorted(options)) or "none"
        raise UsageError(
            f"the file system of {kind}:// does not take its options (given: {names}): {type(error).__name__}",
            url=url,
            cure=f"Remote(storage={{{kind!r}: {{...}}}}) takes those of {form.__module__}.{form.__qualname__}",
        ) from error
    if kind in _S3:
        fs.retries = 1
    return fs


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _begin_anew() -> None:
    global _systems  # noqa: PLW0603 - the parent's lock may be held by a thread that does not exist here
    _inherited.append(_systems)
    _systems = _Systems()


os.register_at_fork(after_in_child=_begin_anew)
