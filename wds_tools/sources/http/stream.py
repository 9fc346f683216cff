"""An object on a web server from its first byte on, by one GET: for servers without ranges, and for passes over it all.

When the transfer breaks it is taken up at the byte, by Range with If-Range where the server has named a version. Where
it has not, or has no ranges, all is asked for anew and what has been delivered already is skipped: after the version
has been compared, or, without any, a hash of what is skipped with that of what was delivered. Either way the caller
sees one unbroken object or an error.

The end is proven by Content-Length or by the mark behind the last chunk. A body that just ends (HTTP/1.0) proves
nothing: `shows_cuts` is False then, and what the archive itself says about its end decides. The end of a part is no end
where nobody has said how long the object is: more is asked for.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Any, Self

from wds_tools.errors import ShardChangedError, TruncatedShardError, public
from wds_tools.sources.http.ask import Answer
from wds_tools.sources.http.facts import Facts, Part
from wds_tools.sources.http.retry import Fault
from wds_tools.sources.http.subject import Subject
from wds_tools.sources.options import Remote

__all__ = ["HttpStream"]

_SKIPPED_AT_ONCE = 256 << 10


class HttpStream:
    """An object on a web server as a Stream. Making one asks nothing. For one thread; `close` may come from any.

    Args:
        url: its address, http or https.
        remote: how it is asked for.
        size: bytes that it must have, as a listing knows; None where nobody knows.
        version: the `version` that it must have, as a cache knows.

    Raises:
        UsageError: no address that can be asked.
    """

    def __init__(
        self, url: str, *, remote: Remote | None = None, size: int | None = None, version: str | None = None
    ) -> None:
        self._remote = remote or Remote()
        self._expected = Facts.expected(size, version)
        self._subject = Subject(url, self._remote, self._expected)
        self._retry = self._subject.retry()
        self._answer: Answer | None = None
        self._upto: int | None = None  # where the answer's part ends, however long its body
        self._position = 0
        self._brought = 0
        self._ranges = True
        self._ended = False
        self._shows_cuts: bool | None = None
        self._seen: hashlib.blake2b | None = None
        self._reading = False
        self._left_at = time.monotonic()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({public(self.url)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.url, self._remote, self._expected.size, self._expected.version)

    @property
    def url(self) -> str:
        """The address as the user or the listing gave it."""
        return self._subject.url

    @property
    def shows_cuts(self) -> bool:
        """Whether the end is proven. Asks, if nothing has been read yet."""
        self._be_begun()
        return self._shows_cuts is True

    @property
    def length(self) -> int | None:
        """Bytes in all; None where the server does not say. Asks, if nothing has been read yet."""
        self._be_begun()
        return self._subject.facts.size

    @property
    def version(self) -> str | None:
        """The strong ETag, else the date of the last change, else a weak ETag. Asks, if nothing has been read yet."""
        self._be_begun()
        return self._subject.facts.version

    def readinto(self, buffer: memoryview, /) -> int:
        """Bytes put into the buffer, at least one; 0 at the end, and only there.

        Raises:
            ShardChangedError: the transfer broke, and another object lies there now.
            ShardMissingError: none does.
            UnavailableError: permission, or the network, after all retries.
        """
        return self._persistently(lambda: self._read(buffer))

    def close(self) -> None:
        """End the transfer; a read that another thread is in then raises. Twice does nothing."""
        self._subject.close()
        if not self._reading:  # else the reader lets go on its way out
            self._let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _be_begun(self) -> None:
        if self._shows_cuts is None:
            self._persistently(lambda: len(self._answered().url))

    def _persistently(self, step: Callable[[], int]) -> int:
        """What `step` returns, after as many attempts as it takes."""
        self._reading = True
        self._retry.waited(time.monotonic() - self._left_at)  # between two reads the caller was busy, not the server
        try:
            while True:
                try:
                    return step()
                except Fault as fault:
                    self._let_go()
                    brought, self._brought = self._brought, 0
                    self._retry.again(fault, brought=brought, offset=self._position)
        except BaseException:
            self._let_go()
            raise
        finally:
            self._reading = False
            self._left_at = time.monotonic()
            if self._subject.closed:
                self._let_go()

    def _read(self, buffer: memoryview) -> int:
        if self._ended or not len(buffer):
            return 0
        answer = self._answered()
        room = buffer if self._upto is None else buffer[: self._upto - self._position]
        count = 0 if self._ended or not len(room) else answer.readinto(room)
        if not count:
            self._end(answer)
        size = self._subject.facts.size
        if size is not None and self._position + count > size:
            raise self._beyond(size)
        if self._seen is not None:
            self._seen.update(buffer[:count])
        self._position += count
        self._brought += count
        return count

    def _end(self, answer: Answer) -> None:
        if not self._ended and not self._is_whole(answer):
            raise Fault("the transfer ended before its stated length")
        self._ended = True
        self._let_go()

    def _is_whole(self, answer: Answer) -> bool:
        size = self._subject.facts.size
        if size is not None:
            return self._position == size
        # Of a part only its own end is proven; and what was promised of the end holds for whichever answer comes to it.
        return answer.status == 200 and answer.ended and (answer.proves_its_end or not self._shows_cuts)

    def _answered(self) -> Answer:
        """The answer that is being read; a new one, brought to where we stand, where there is none."""
        if self._answer is None:
            self._answer = answer = self._subject.ask(self._headers(), self._retry)
            skip = self._judge(answer)
            if self._shows_cuts is None:
                self._shows_cuts = answer.proves_its_end
                if self._subject.facts.condition is None:
                    self._seen = hashlib.blake2b()
            self._skip(answer, skip)
        return self._answer

    def _headers(self) -> dict[str, str]:
        condition = self._subject.facts.condition
        if not self._position or not self._ranges or self._seen is not None or condition is None:
            return {}
        return {"Range": f"bytes={self._position}-", "If-Range": condition}

    def _judge(self, answer: Answer) -> int:
        """How many bytes of the body have been delivered already."""
        facts = self._subject.take_note(answer)
        self._upto = None
        if answer.status == 200:
            self._ranges = self._ranges and not self._position
            if self._position and self._seen is None and not facts.names_version_of(self._subject.facts):
                raise Fault("the server sends all of it anew, and no longer says of which version")
            return self._position
        if answer.status == 416 and facts.size is not None and facts.size <= self._position:
            return self._behind_the_end(facts.size)
        part = Part.of(answer.headers)
        if part is None or not part.begin <= self._position < part.end:
            self._ranges = False  # nothing to rely on: the next attempt asks for all of it
            raise Fault("the server sends another part than it was asked for")
        self._upto = part.end
        return self._position - part.begin

    def _behind_the_end(self, size: int) -> int:
        """What broke was only the end mark: nothing is missing."""
        if size < self._position:
            raise TruncatedShardError(
                f"it has {size:,} bytes, where {self._position:,} have been read already",
                url=self.url,
                offset=size,
            )
        self._ended = True
        return 0

    def _beyond(self, size: int) -> ShardChangedError:
        return ShardChangedError(
            f"another object lies there than was stated: more than its {size:,} bytes come",
            url=self.url,
            offset=size,
            cure="Start again; a listing or an index of the old one is made anew by `wds index --force`",
        )

    def _skip(self, answer: Answer, count: int) -> None:
        fresh = hashlib.blake2b()
        scratch = memoryview(bytearray(min(count, _SKIPPED_AT_ONCE)))
        while count:
            read = answer.readinto(scratch[: min(count, len(scratch))])
            if not read:
                raise Fault("the transfer ended before its stated length")
            if self._seen is not None:
                fresh.update(scratch[:read])
            count -= read
        if self._position and self._seen is not None and fresh.digest() != self._seen.digest():
            raise ShardChangedError(
                f"its first {self._position:,} bytes are not what they were before the transfer broke",
                url=self.url,
                offset=0,
                cure="Start again; a server that names versions (ETag, Last-Modified) shows a change at once",
            )

    def _let_go(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.close()
        self._subject.forget()


def _rebuild(kind: type[HttpStream], url: str, remote: Remote, size: int | None, version: str | None) -> HttpStream:
    return kind(url, remote=remote, size=size, version=version)
