"""Which streams the user named: as `wds_tools.urls`, and besides commands (only where allowed) and standard input.

    "pipe:curl -sf https://host/s-{000..099}.tar"    a command whose output is a shard; braces are expanded
    "-"                                              standard input
    everything else                                  as `ShardLoader` takes it: patterns, folders, listings, paths

A command is split into words as a shell would, and started without one: nothing in it is a redirection, a variable or
a second command, and what looks like one is refused with the cure instead of being handed over as a word.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import shlex
from collections.abc import Sequence

from wds_tools import addresses
from wds_tools.errors import UsageError
from wds_tools.sources.options import Remote
from wds_tools.urls import Urls, expand, refuse_duplicates

__all__ = ["PIPE", "STDIN", "argv_of", "fingerprint", "spell"]

PIPE = "pipe:"
STDIN = "-"

_SHELL_WORDS = frozenset({"|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1"})


def spell(urls: Urls, *, allow_pipe: bool, remote: Remote | None = None) -> tuple[str, ...]:
    """The streams, in order, each once.

    Raises:
        NoShardsError: nothing matches.
        UsageError: a command that was not allowed, or that needs a shell; a stream listed twice.
    """
    items = [urls] if isinstance(urls, str | os.PathLike) else list(urls)
    if not items:
        return tuple(expand(items))  # which says what is wrong
    found: list[str] = []
    for item in items:
        if isinstance(item, str) and item.startswith(PIPE):
            found += _commands(item, allowed=allow_pipe)
        elif item == STDIN:
            found.append(STDIN)
        else:
            found += expand(item, remote=remote)
    refuse_duplicates(found)
    return tuple(found)


def argv_of(url: str) -> list[str]:
    """The words of a `pipe:` url.

    Raises:
        UsageError: no word, quotes that do not pair, or words that only a shell understands.
    """
    try:
        words = shlex.split(url.removeprefix(PIPE))
    except ValueError as error:
        raise UsageError(
            f"the command cannot be split into words: {error}", url=url, cure="Pair its quotes."
        ) from error
    if not words:
        raise UsageError("pipe: without a command", url=url, cure='Write for example "pipe:cat train-000.tar".')
    for word in words:
        if word in _SHELL_WORDS or word.startswith(("$(", "`")):
            raise UsageError(
                f"the command has {word!r}, which only a shell understands, and no shell is started",
                url=url,
                cure="Put it into a script and name that, or quote it if it is meant as it stands.",
            )
    return words


def fingerprint(urls: Sequence[str]) -> str:
    """Tells lists of streams apart by their names and order, wherever they lie, and whatever a signed url ends with."""
    digest = hashlib.sha256()
    for url in urls:
        digest.update(_name(url).encode("utf-8", "surrogateescape") + b"\0")
    return digest.hexdigest()[:16]


def _commands(text: str, *, allowed: bool) -> list[str]:
    if not allowed:
        raise UsageError(
            "a command in place of a url is run only where that is asked for",
            url=text,
            cure="Pass allow_pipe=True, if you trust whoever wrote the urls: it runs what they say.",
        )
    pieces = addresses.expand_braces(text)
    for piece in pieces:
        argv_of(piece)
    return pieces


def _name(url: str) -> str:
    words = argv_of(url) if url.startswith(PIPE) else [url]
    return " ".join(posixpath.basename(word.partition("?")[0] if addresses.scheme(word) else word) for word in words)
