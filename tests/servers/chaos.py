"""A server that errs at random, the same way for a seed: what it answers, and at which byte of it what goes wrong.

`faults` lists what a server can do, each at one place. Here the place is any byte, of the head as of the body, and one
fault comes upon another. All answers are of one object and none contradicts its version, so that a reader has two ways
out only: the bytes as they are, or that they cannot be had (`UnavailableError`; without ranges `RangesRefusedError`).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from tests.servers.faulty import Behaviour, Conversation, Deliver, FaultyServer, Reply, Request, Stored, whole
from tests.servers.replies import (
    Plan,
    bare,
    chunked,
    clipped,
    ignoring_range,
    names,
    says,
    sends_on,
    shifted,
    until_closed,
    well,
)
from wds_tools.sources.options import Remote

__all__ = ["PATIENCE", "ChaoticServer", "behaviour", "bounded_by", "seeds"]

PATIENCE = Remote(attempts=5, give_up_s=6.0, connect_s=2.0, minimum_rate=2000, stall_s=0.3)
"""How to read from such a server."""

FAULTS = 7
"""Requests to a path that go wrong, at most, before all go well."""


def bounded_by(*, reads: int) -> pytest.MarkDecorator:
    """Who waits for longer than the patience for so many reads allows has no bound, and fails.

    An attempt is a connection, a head and a body, each of two silences at most, for which no slow machine is to blame.
    """
    attempt = PATIENCE.connect_s + 4 * PATIENCE.stall_s
    return pytest.mark.timeout(30 + reads * (PATIENCE.give_up_s + FAULTS * attempt))


def seeds(few: int, many: int) -> pytest.MarkDecorator:
    """Some for each run of the tests, and more for the long one."""
    more = [pytest.param(seed, marks=pytest.mark.long) for seed in range(few, many)]
    return pytest.mark.parametrize("seed", [*range(few), *more])


@dataclass
class ChaoticServer(FaultyServer):
    """The server; `with` runs it.

    Attributes:
        seed: of all that it does.
        faults: how many requests to each path are answered as it likes, before all is well.
        has_ranges: whether it knows ranges at all.
    """

    seed: int = 0
    faults: int = 3
    has_ranges: bool = True

    def __post_init__(self) -> None:
        draw = random.Random(self.seed)
        largest = max(len(each.content if isinstance(each, Stored) else each) for each in self.objects.values())
        self.script = [behaviour(draw, largest, ranges=self.has_ranges) for _ in range(self.faults)]
        self.then = Behaviour() if self.has_ranges else Behaviour(draw.choice([ignoring_range, chunked()]))
        super().__post_init__()


def behaviour(draw: random.Random, size: int, *, ranges: bool = True) -> Behaviour:
    """Anything that may be done with a request for a part or all of an object of so many bytes."""
    size = max(size, 1)
    plans: list[Plan] = [well] * 6 if ranges else []
    plans += [ignoring_range, until_closed(), chunked(piece=_piece(draw, size))] if not ranges else []
    plan = draw.choice([*plans, *(make(draw, size) for make in _RANGED * ranges + _ANY)])
    if draw.random() < 0.2:
        plan = draw.choice([bare(plan), names(plan, ETag=None), names(plan, Last_Modified=None)])
    if draw.random() < 0.1:
        return Behaviour(plan, _after_interims(draw))
    at = draw.choice([draw.randrange(400), draw.randrange(size + 400)])
    return Behaviour(plan, draw.choice(_DELIVERS)(at, draw))


def _piece(draw: random.Random, size: int) -> int:
    return (
        draw.choice([1 + draw.randrange(50), 1 + draw.randrange(size)]) if size < 20_000 else 500 + draw.randrange(size)
    )


def _padded(draw: random.Random, size: int) -> Plan:
    """Chunks whose sizes have zeros in front, extensions behind, and trailers at the end."""
    piece = _piece(draw, size)

    def plan(request: Request, stored: Stored) -> Reply:
        reply = well(request, stored).but(Content_Length=None, Transfer_Encoding="chunked")
        pieces = [reply.body[at : at + piece] for at in range(0, len(reply.body), piece)]
        coded = b"".join(b"%08x;of=%d\r\n%b\r\n" % (len(each), len(reply.body), each) for each in pieces)
        return replace(reply, body=coded + b"0000\r\nDigest: none\r\n\r\n")

    return plan


def _without_total(_draw: random.Random, _size: int) -> Plan:
    def plan(request: Request, stored: Stored) -> Reply:
        reply = well(request, stored)
        named = reply.headers.get("Content-Range")
        return reply if named is None else reply.but(Content_Range=f"{named.rpartition('/')[0]}/*")

    return plan


def _longer(draw: random.Random, _size: int) -> Plan:
    """More bytes than are stated."""
    more = draw.randbytes(1 + draw.randrange(30_000))

    def plan(request: Request, stored: Stored) -> Reply:
        reply = well(request, stored)
        return replace(reply, body=reply.body + more)

    return plan


def _longer_part(draw: random.Random, size: int) -> Plan:
    """A part in chunks, behind which others come."""
    longer = _longer(draw, size)

    def plan(request: Request, stored: Stored) -> Reply:
        reply = longer(request, stored)
        return chunked(lambda *_: reply)(request, stored) if reply.status == 206 else well(request, stored)

    return plan


_RANGED: tuple[Callable[[random.Random, int], Plan], ...] = (
    lambda draw, size: clipped(1 + draw.randrange(size)),
    lambda draw, size: shifted(draw.randrange(-size, size)),
    lambda draw, size: chunked(well, piece=_piece(draw, size)),
    lambda draw, size: bare(chunked(well, piece=_piece(draw, size))),
    _padded,
    _without_total,
    _longer_part,
)
_ANY: tuple[Callable[[random.Random, int], Plan], ...] = (
    _longer,
    lambda draw, _: says(draw.choice([408, 429, 500, 502, 503]), Retry_After="0"),
    lambda draw, _: sends_on(
        lambda request: f"{request.path}?moved={draw.randrange(100)}", draw.choice([301, 302, 307])
    ),
)


def _after_interims(draw: random.Random) -> Deliver:
    said = b"".join(
        b"HTTP/1.1 %d Wait\r\nLink: <x>\r\n\r\n" % draw.choice([100, 102, 103]) for _ in range(1 + draw.randrange(3))
    )

    def deliver(conversation: Conversation, reply: Reply) -> None:
        conversation.write(said)
        whole(conversation, reply)

    return deliver


def _cut(at: int, draw: random.Random, how: Callable[[Conversation], None]) -> Deliver:
    def deliver(conversation: Conversation, reply: Reply) -> None:
        conversation.write((reply.head() + reply.body)[:at])
        how(conversation)

    return deliver


def _trickled(at: int, draw: random.Random) -> Deliver:
    def deliver(conversation: Conversation, reply: Reply) -> None:
        wire = reply.head() + reply.body
        conversation.write(wire[:at])
        for place in range(at, len(wire)):
            if conversation.server.closing.wait(0.02):
                return
            conversation.write(wire[place : place + 1])

    return deliver


def _in_two(at: int, draw: random.Random) -> Deliver:
    """All of it, with a short pause somewhere."""

    def deliver(conversation: Conversation, reply: Reply) -> None:
        wire = reply.head() + reply.body
        conversation.write(wire[:at])
        conversation.server.closing.wait(0.005)
        conversation.write(wire[at:])
        if reply.protocol == "HTTP/1.0":
            conversation.end()

    return deliver


_DELIVERS: tuple[Callable[[int, random.Random], Deliver], ...] = (
    lambda at, draw: whole,
    _in_two,
    lambda at, draw: _cut(at, draw, Conversation.reset),
    lambda at, draw: _cut(at, draw, Conversation.end),
    lambda at, draw: _cut(at, draw, Conversation.await_end),
    _trickled,
)
