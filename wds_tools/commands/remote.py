"""The options that say how hosts are asked: `--headers`, `--storage`, `--in-flight`, for every command that takes urls.

    @click.command()
    @options.urls
    @remote_options
    def info(urls: tuple[str, ...], remote: Remote | None) -> None: ...

Secrets do not belong on a command line, where every user of the machine reads them. Headers come from a file, which is
read anew before each request, so that a token in it may be renewed; and what looks like a secret of a store is refused.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from wds_tools.errors import UsageError
from wds_tools.sources.options import HeaderFile, Remote

__all__ = ["StorageOption", "remote_options"]

Command = TypeVar("Command", bound=Callable[..., Any])

_STORAGE = re.compile(r"([a-z][a-z0-9+.-]*)\.([A-Za-z_][A-Za-z0-9_.]*)=(.*)", re.DOTALL)
_SECRET = re.compile(r"secret|token|passw|credential|account_key|(?:^|_)sas|(?:^|_)key$", re.IGNORECASE)


class StorageOption(click.ParamType[tuple[str, str, object]]):
    """SCHEME.NAME=VALUE, the value as JSON where it is JSON (true, 3), else as text."""

    name = "scheme.name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str, object]:
        if isinstance(value, tuple):
            return value
        match = _STORAGE.fullmatch(str(value))
        if match is None:
            self.fail(f"{value!r} is no option of a store; write s3.endpoint_url=http://host:9000.", param, ctx)
        scheme, name, text = match.groups()
        if _SECRET.search(name) and text != "anon":  # gs.token=anon is how public buckets are asked
            self.fail(
                f"{scheme}.{name} is a secret, which a command line shows to all users of the machine. Put it into the "
                "store's own settings, such as AWS_SECRET_ACCESS_KEY or ~/.aws/credentials.",
                param,
                ctx,
            )
        try:
            return scheme, name, json.loads(text)
        except ValueError:
            return scheme, name, text


def remote_options(command: Command) -> Command:
    """Give a command these options; it gets `remote`, a `Remote`, or None where nothing was said."""

    @functools.wraps(command)
    def call(
        *arguments: Any,
        headers: str | None,
        storage: tuple[tuple[str, str, object], ...],
        in_flight: int | None,
        **given: Any,
    ) -> Any:
        return command(*arguments, remote=_remote(headers, storage, in_flight), **given)

    for add in reversed(_OPTIONS):
        call = add(call)
    return call  # type: ignore[return-value]  # click's decorators hand the function back


_OPTIONS = (
    click.option(
        "--headers",
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="Send these headers to the hosts that are named, a line each: 'Authorization: Bearer ...'.",
    ),
    click.option(
        "--storage",
        type=StorageOption(),
        multiple=True,
        metavar="SCHEME.NAME=VALUE",
        help="An option of a store's file system, again for each: s3.endpoint_url=http://host:9000.",
    ),
    click.option(
        "--in-flight",
        type=click.IntRange(min=1),
        metavar="N",
        help=f"Ranges asked of a host at once.  [default: {Remote().in_flight}]",
    ),
)


def _remote(headers: str | None, storage: tuple[tuple[str, str, object], ...], in_flight: int | None) -> Remote | None:
    if headers is None and not storage and in_flight is None:
        return None
    stores: dict[str, dict[str, object]] = {}
    for scheme, name, value in storage:
        _put(stores.setdefault(scheme, {}), name.split("."), value)
    made = HeaderFile(headers) if headers is not None else None
    if made is not None:
        made("")  # a file that is none is said now
    return Remote(headers=made, storage=stores, in_flight=in_flight or Remote().in_flight)


def _put(options: dict[str, object], names: list[str], value: object) -> None:
    """Behind further dots lie options of options: client_kwargs.region_name."""
    for name in names[:-1]:
        inner = options.setdefault(name, {})
        if not isinstance(inner, dict):
            raise UsageError(f"--storage gives {name} a value, and options of its own too", cure="Give one of both.")
        options = inner
    options[names[-1]] = value
