"""How remote shards are asked for: one frozen value that travels with the loader into worker processes.

Secrets do not belong on command lines nor into urls that are logged. Without `headers` the user's netrc file is
asked, as curl and git do; a callable is asked again before each attempt, so that a token may expire. The repr shows
names of headers and of stores, never their values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from wds_tools.errors import UsageError
from wds_tools.small import read_lines

__all__ = ["HeaderFile", "Headers", "Remote"]

_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*")

Headers: TypeAlias = Mapping[str, str] | Callable[[str], Mapping[str, str]]
"""Headers for every request, or a function from the url to them; picklable where worker processes are started."""


@dataclass(frozen=True)
class HeaderFile:
    """Headers from a file, for `Remote(headers=)`: `Name: value`, a line each; what `--headers FILE` of commands means.

    The file is read anew before each request, so that a token in it may be renewed while a job runs.

    Attributes:
        path: of the file.
        same_for_all: they do not depend on the url, so they are for the hosts that the user names alone.
    """

    path: str
    same_for_all: ClassVar[bool] = True

    def __call__(self, url: str) -> Mapping[str, str]:
        """The headers for a request; the same for every url.

        Raises:
            UsageError: there is no such file, or a line of it is no header, which is not shown: it may hold a secret.
        """
        del url
        try:
            lines = read_lines(self.path)
        except OSError as error:
            raise UsageError(f"the file of headers cannot be read: {error.strerror}", url=self.path) from error
        found = [_HEADER.fullmatch(line) for line in lines]
        if None in found:
            raise UsageError(
                f"line {found.index(None) + 1} of the file of headers is no header",
                url=self.path,
                cure="Write one a line, as in 'Authorization: Bearer ...'.",
            )
        return {match[1]: match[2] for match in found if match is not None}


@dataclass(frozen=True, kw_only=True)
class Remote:
    """How remote shards are asked for.

    Attributes:
        headers: sent to the hosts that the user named, never to one that a redirect leads to; a listing on a host that
            names another one is refused, unless they are a function of the url, which says who gets them.
        sign: from a shard's http address to the url that is asked in its place, for stores that sign: asked once a
            shard, and again when the store refuses what it gave before. `headers` do not go to another host by it.
        attempts: how often in a row a transfer is tried without advancing before it is an error; waits between them
            double, with jitter, and are those that the server asks for where it does.
        give_up_s: seconds without advancing after which it is given up, waits included.
        connect_s: seconds for a connection to be made.
        minimum_rate: bytes a second below which a transfer is cut off and resumed, measured over `stall_s`.
        stall_s: seconds without that rate.
        in_flight: ranges asked for at once, for each host; fewer while it says 429. At 40 ms a round trip, 16 of 430 KB
            (four pictures, as blocks of small datasets are) bring 140 MB/s; 8 bring 70.
        storage: for each scheme that fsspec opens the options of its file system: {"s3": {"endpoint_url": ...}}.
    """

    headers: Headers | None = field(default=None, repr=False)
    sign: Callable[[str], str] | None = field(default=None, repr=False)
    attempts: int = 8
    give_up_s: float = 120.0
    connect_s: float = 10.0
    minimum_rate: int = 1024
    stall_s: float = 20.0
    in_flight: int = 16
    storage: Mapping[str, Mapping[str, object]] = field(default_factory=dict, repr=False)

    @property
    def same_for_all(self) -> bool:
        """Whether there are headers, and the same for every url, so that nobody has said which hosts they are for.

        A function says it, except one that has an attribute of this name that is true.
        """
        return bool(self.headers) and getattr(self.headers, "same_for_all", not callable(self.headers))

    def __post_init__(self) -> None:
        for name in ("attempts", "in_flight", "minimum_rate"):
            if getattr(self, name) < 1:
                raise UsageError(f"Remote.{name} is {getattr(self, name)}, expected at least 1")
        for name in ("give_up_s", "connect_s", "stall_s"):
            if not getattr(self, name) > 0:
                raise UsageError(f"Remote.{name} is {getattr(self, name)}, expected seconds above 0")
