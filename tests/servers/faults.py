"""The faults that a server can have, by name, and what must come of each: the same bytes, or the named error.

One table for all who read over http: ranges, streams, loaders, caches. Each fault says what happens to the first
requests to each path, and to all later ones. `ranges` and `stream` are the outcomes for positioned reads and for one
pass; None is the byte-identical object. Read with a fault's `patience`, none takes longer than a few seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from email.utils import formatdate
from time import time

from tests.servers.faulty import (
    WELL,
    Behaviour,
    FaultyServer,
    Reply,
    Request,
    Stored,
    bare,
    chunked,
    clipped,
    drops,
    encoded,
    ends,
    ignoring_range,
    page,
    resets,
    says,
    sends_on,
    shifted,
    stalls,
    trickles,
    until_closed,
    well,
)
from wds_tools.errors import (
    NotATarError,
    RangesRefusedError,
    ShardChangedError,
    ShardMissingError,
    ShardstreamError,
    UnavailableError,
)
from wds_tools.sources.options import Remote

__all__ = ["FAULTS", "MIDDLE", "Fault"]

PATIENCE = Remote(attempts=4, give_up_s=50.0, connect_s=20.0, minimum_rate=2000, stall_s=20.0)
"""For faults that pass: a busy machine does not exhaust it."""

BRISK = replace(PATIENCE, attempts=8, stall_s=1.0)
"""For a silence that passes: it is soon over, and a busy machine may be silent a few times more."""

SHORT = replace(PATIENCE, attempts=3, give_up_s=20.0, connect_s=5.0, stall_s=0.2)
"""For faults that stay: it is exhausted soon."""

Outcome = type[ShardstreamError] | None


@dataclass(frozen=True)
class Fault:
    """A fault by name.

    Attributes:
        script: what happens to the first requests to each path.
        then: what happens to all later ones; made anew for each server where it has a memory.
        ranges: what positioned reads come to, whose first one does not begin at byte 0.
        stream: what one pass comes to.
        cuts: whether a pass shows that bytes are missing; where not, the archive's end has to.
        silent: whether it is over only when the reader has waited for long enough, and passes.
    """

    name: str
    script: tuple[Behaviour, ...] = ()
    then: Behaviour | Callable[[], Behaviour] = WELL
    ranges: Outcome = None
    stream: Outcome = None
    cuts: bool = True
    silent: bool = False

    def patience(self, *outcomes: Outcome) -> Remote:
        """How to read from such a server in a way that may come to these outcomes."""
        if UnavailableError in outcomes and None not in outcomes:
            return SHORT
        return BRISK if self.silent else PATIENCE

    def server(self, objects: Mapping[str, bytes]) -> FaultyServer:
        """A server that has these objects and this fault. Objects are a few times as long as `MIDDLE`."""
        then = self.then if isinstance(self.then, Behaviour) else self.then()
        return FaultyServer(objects, self.script, then)


MIDDLE = 70_000
"""Where transfers break: after enough that the next attempt begins at once (64 KiB)."""


def _changed(request: Request, stored: Stored) -> Reply:
    """What lies there after it was replaced by another object of the same size."""
    return well(request, Stored(bytes(len(stored.content)), modified="Tue, 03 Nov 2026 10:00:00 GMT"))


def _grown(request: Request, stored: Stored) -> Reply:
    return bare(well)(request, Stored(stored.content + b"more"))


def _without_part(request: Request, stored: Stored) -> Reply:
    return well(request, stored).but(Content_Range=None)


def _several_parts(request: Request, stored: Stored) -> Reply:
    reply = well(request, stored)
    if reply.status != 206:
        return reply
    body = (
        b"--b\r\nContent-Range: "
        + reply.headers["Content-Range"].encode()
        + b"\r\n\r\n"
        + reply.body
        + b"\r\n--b--\r\n"
    )
    return replace(
        reply.but(Content_Range=None, Content_Type="multipart/byteranges; boundary=b", Content_Length=str(len(body))),
        body=body,
    )


def _contradicts(request: Request, stored: Stored) -> Reply:
    """A body that does not fit the range that it names: one byte more, in front."""
    reply = well(request, stored)
    if reply.status != 206:
        return reply
    return replace(reply, body=b"?" + reply.body).but(Content_Length=str(len(reply.body) + 1))


def _never_true(request: Request, stored: Stored) -> Reply:
    return ignoring_range(request, stored) if "if-range" in request.headers else well(request, stored)


def _beyond(request: Request, stored: Stored) -> Reply:
    if request.range is None:
        return well(request, stored)
    return Reply(416, {"Content-Range": f"bytes */{len(stored.content)}", "Content-Length": "0"})


def _in_a_moment(request: Request, stored: Stored) -> Reply:
    return says(503, Retry_After=formatdate(time() + 1, usegmt=True))(request, stored)


def _elsewhere(request: Request) -> str:
    """The same path under another name of the same host, which is another host to every client."""
    return f"http://localhost:{request.headers['host'].rpartition(':')[2]}{request.path}"


def _sent_elsewhere(request: Request, stored: Stored) -> Reply:
    here = request.headers["host"].startswith("127.0.0.1:")
    return sends_on(_elsewhere, 307)(request, stored) if here else well(request, stored)


class _Signing:
    """Sends on to signed urls elsewhere, each of which is good for two requests, and then 403."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: dict[str, int] = {}

    def __call__(self, request: Request, stored: Stored) -> Reply:
        with self._lock:
            if "?signature=" not in request.target:
                self._left[str(len(self._left))] = 2
                return sends_on(f"{_elsewhere(request)}?signature={len(self._left) - 1}")(request, stored)
            signature = request.target.partition("?signature=")[2]
            self._left[signature] -= 1
            return well(request, stored) if self._left[signature] >= 0 else says(403)(request, stored)


BROKEN = Behaviour(deliver=resets(MIDDLE))

FAULTS = [
    Fault("none"),
    # Connections that break.
    Fault("reset before the answer", (Behaviour(deliver=drops),) * 2),
    Fault(
        "reset before the answer, always",
        then=Behaviour(deliver=drops),
        ranges=UnavailableError,
        stream=UnavailableError,
    ),
    Fault("reset at the first byte", (Behaviour(deliver=resets(0)),)),
    Fault("reset after 100 bytes", (Behaviour(deliver=resets(100)),) * 2),
    Fault("reset in the middle", (BROKEN,) * 2),
    Fault("reset in the middle, always", then=BROKEN),  # which advances: it comes to an end
    Fault(
        "reset after 100 bytes, always",
        then=Behaviour(deliver=resets(100)),
        ranges=UnavailableError,
        stream=UnavailableError,
    ),
    Fault("short body", (Behaviour(deliver=ends(MIDDLE)),) * 2),
    Fault("short body, always", then=Behaviour(deliver=ends(MIDDLE))),
    Fault("empty body, always", then=Behaviour(deliver=ends(0)), ranges=UnavailableError, stream=UnavailableError),
    # Servers that keep one waiting.
    Fault("silence before the answer", (Behaviour(deliver=stalls(None)),), silent=True),
    Fault("silence in the middle", (Behaviour(deliver=stalls(MIDDLE)),), silent=True),
    Fault("silence, always", then=Behaviour(deliver=stalls(None)), ranges=UnavailableError, stream=UnavailableError),
    Fault("trickle", (Behaviour(deliver=trickles(MIDDLE)),), silent=True),
    Fault("trickle, always", then=Behaviour(deliver=trickles(0)), ranges=UnavailableError, stream=UnavailableError),
    # Servers that are busy.
    *(Fault(f"{status} once", (Behaviour(says(status)),)) for status in (408, 425, 429, 500, 502, 503, 504)),
    Fault("429 and 503 in a row, without a time", tuple(Behaviour(says(status)) for status in (429, 503, 429))),
    Fault("429 with a time in seconds", (Behaviour(says(429, Retry_After="1")),)),
    Fault("503 with a time as a date", (Behaviour(_in_a_moment),)),
    Fault(
        "429 with a time beyond patience",
        then=Behaviour(says(429, Retry_After="3600")),
        ranges=UnavailableError,
        stream=UnavailableError,
    ),
    Fault("503, always", then=Behaviour(says(503)), ranges=UnavailableError, stream=UnavailableError),
    # Answers that are not what was asked for.
    Fault("a later range", (BROKEN, Behaviour(shifted(512)))),
    Fault("an earlier range", (BROKEN, Behaviour(shifted(-512)))),
    Fault("an earlier range, always", then=Behaviour(shifted(-512))),
    Fault("a later range, always", (BROKEN,), Behaviour(shifted(512)), ranges=UnavailableError),
    Fault("less than the range, always", then=Behaviour(clipped(20_000))),
    Fault("a part that does not say which", (BROKEN, Behaviour(_without_part))),
    Fault("several parts", (BROKEN, Behaviour(_several_parts))),
    Fault("a length that contradicts the range", (BROKEN, Behaviour(_contradicts))),
    Fault("416 inside the object", (BROKEN, Behaviour(_beyond))),
    Fault("a web page", then=Behaviour(page), ranges=NotATarError, stream=NotATarError),
    Fault("gzip", then=Behaviour(encoded), ranges=UnavailableError, stream=UnavailableError),
    # Another object than before.
    Fault("replaced in the middle", (BROKEN,), Behaviour(_changed), ranges=ShardChangedError, stream=ShardChangedError),
    Fault(
        "grown in the middle, without a version",
        (Behaviour(bare(well), resets(MIDDLE)),),
        Behaviour(_grown),
        ranges=ShardChangedError,
        stream=ShardChangedError,
    ),
    Fault(
        "replaced in the middle, without ranges or a version",
        (Behaviour(bare(ignoring_range), resets(MIDDLE)),),
        Behaviour(bare(_changed)),
        stream=ShardChangedError,
        ranges=RangesRefusedError,
    ),
    # Servers without ranges.
    Fault("no ranges", then=Behaviour(ignoring_range), ranges=RangesRefusedError),
    Fault(
        "no ranges, broken",
        (Behaviour(ignoring_range, resets(MIDDLE)),) * 2,
        Behaviour(ignoring_range),
        ranges=RangesRefusedError,
    ),
    Fault(
        "no ranges or version, broken",
        (Behaviour(bare(ignoring_range), resets(MIDDLE)),) * 2,
        Behaviour(bare(ignoring_range)),
        ranges=RangesRefusedError,
    ),
    Fault("chunks without a length", then=Behaviour(chunked()), ranges=RangesRefusedError),
    Fault(
        "chunks without their end",
        (Behaviour(chunked(), ends(MIDDLE)),),
        Behaviour(chunked()),
        ranges=RangesRefusedError,
    ),
    Fault(
        "chunks that never end",
        then=Behaviour(chunked(), ends(MIDDLE)),
        ranges=RangesRefusedError,
        stream=UnavailableError,
    ),
    Fault("If-Range is never true", then=Behaviour(_never_true)),
    Fault("chunked ranges", then=Behaviour(chunked(well))),
    Fault("an end without a proof", then=Behaviour(until_closed()), ranges=RangesRefusedError, cuts=False),
    Fault(
        "a reset without a length",
        (Behaviour(until_closed(), resets(MIDDLE)),),
        Behaviour(until_closed()),
        ranges=RangesRefusedError,
        cuts=False,
    ),
    # Refusals.
    *(
        Fault(f"{status}, always", then=Behaviour(says(status)), ranges=kind, stream=kind)
        for status, kind in (
            (400, UnavailableError),
            (401, UnavailableError),
            (403, UnavailableError),
            (404, ShardMissingError),
            (410, ShardMissingError),
        )
    ),
    # Other places.
    Fault("a redirect to another host", then=Behaviour(_sent_elsewhere)),
    Fault("a redirect to another host, broken", then=Behaviour(_sent_elsewhere, resets(MIDDLE))),
    Fault("signatures that expire", then=lambda: Behaviour(_Signing())),
    Fault("signatures that expire, broken", then=lambda: Behaviour(_Signing(), resets(MIDDLE))),
    Fault(
        "a redirect without end",
        then=Behaviour(sends_on(lambda request: request.target)),
        ranges=UnavailableError,
        stream=UnavailableError,
    ),
    Fault(
        "a redirect to what is no web address",
        then=Behaviour(sends_on("ftp://127.0.0.1/x")),
        ranges=UnavailableError,
        stream=UnavailableError,
    ),
]
