"""The file systems of this process: one for each scheme and its options, made when it is first asked.

fsspec runs the asynchronous ones (s3, gs, az) in one event loop on one thread, and neither goes along to a forked
child. So a child begins with an empty table and makes its own. What its parent had is kept there and never used: to
let it go would close the parent's connections under it.
"""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wds_tools.addresses import scheme
from wds_tools.errors import UsageError
from wds_tools.sources.fsspec.refusals import missing_package
from wds_tools.sources.options import Remote

__all__ = ["System", "form_of", "system_of"]


@dataclass(frozen=True, kw_only=True)
class System:
    """One file system.

    Attributes:
        scheme: of the urls that it opens, as they are written.
        fs: fsspec's object.
    """

    scheme: str
    fs: Any = field(repr=False)

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
        """A coroutine function's result, from the file system's own loop."""
        from fsspec.asyn import sync

        return sync(self.fs.loop, coroutine, *args, timeout=within_s, **options)


class _Systems:
    """What this process has made so far. A few entries, found by comparing, since options need not be hashable."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.made: list[tuple[str, Mapping[str, object], System]] = []

    def find(self, kind: str, options: Mapping[str, object]) -> System | None:
        for known, given, system in self.made:
            if known == kind and given == options:
                return system
        return None


_systems = _Systems()
_inherited: list[_Systems] = []


def system_of(url: str, remote: Remote) -> System:
    """The file system that opens `url`.

    Raises:
        UsageError: nobody knows the scheme, a package is missing, or the options are not those of the file system.
    """
    kind, form = form_of(url)
    options = {**form._get_kwargs_from_urls(url), **remote.storage.get(kind, {})}  # noqa: SLF001 - fsspec's own way
    systems = _systems
    with systems.lock:
        system = systems.find(kind, options)
        if system is None:
            system = System(scheme=kind, fs=_made(form, kind, options, remote, url))
            systems.made.append((kind, options, system))
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
    if kind in {"s3", "s3a"}:
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
    if kind in {"s3", "s3a"}:
        fs.retries = 1
    return fs


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _begin_anew() -> None:
    global _systems  # noqa: PLW0603 - the parent's lock may be held by a thread that does not exist here
    _inherited.append(_systems)
    _systems = _Systems()


os.register_at_fork(after_in_child=_begin_anew)
