"""Ranges of an object on a web server: positioned reads that fill their buffer or raise, from any thread.

A read is one ranged GET on a pooled connection, whose body goes from the socket into the caller's memory. What breaks
is taken up at the byte where it broke. From the first answer on every request says by If-Range of which version it
wants a part, so that all parts are of one object: a server that has another one now answers with all of it, which is
seen by its ETag, its date or its length, and is an error.

Servers that do not know If-Range aright answer with all of the same version: they are asked without it from then on,
and each of their answers has to name the version, which is compared as before.

What an answer says is checked before a byte of it counts: status, range, length, encoding, version. A part that begins
too early is read from where it matters, one that ends too early is continued, any other range is tried again.

A server that names no version is read anew from the first byte of the read when its answer breaks: what comes of one
answer is of one object.

A server that ignores Range answers with the whole object. A read that begins at byte 0 takes its bytes from there (and
begins again at 0 when that breaks); any other read is a RangesRefusedError, which says to stream. So small files and
whole shards can be had of any server.
"""

from __future__ import annotations

from typing import Any, Self

from wds_tools.errors import RangesRefusedError, TruncatedShardError, UnavailableError, public
from wds_tools.sources.http.ask import Answer
from wds_tools.sources.http.facts import Facts, Part
from wds_tools.sources.http.retry import Fault
from wds_tools.sources.http.subject import Subject
from wds_tools.sources.options import Remote

__all__ = ["HttpFile"]

_SKIPPED_AT_ONCE = 64 << 10


class HttpFile:
    """An object on a web server as a Source. Making one asks nothing; the first need of a byte or of the size does.

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

    def __repr__(self) -> str:
        return f"{type(self).__name__}({public(self.url)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.url, self._remote, self._expected.size, self._expected.version)

    @property
    def url(self) -> str:
        """The address as the user or the listing gave it."""
        return self._subject.url

    @property
    def version(self) -> str | None:
        """The strong ETag, else the date of the last change, else a weak ETag; None before the first answer."""
        return self._subject.facts.version

    @property
    def ranges(self) -> bool | None:
        """Whether the server answers ranges; None while nobody has asked."""
        return self._subject.ranges

    @property
    def limited(self) -> bool:
        """Whether the host has said "too many requests" (429, 503) in this process in the last ten minutes."""
        return self._subject.limited

    def expect(self, *, size: int | None = None, version: str | None = None) -> Self:
        """State what the object must be. Answers that contradict are a ShardChangedError. Returns self."""
        self._expected = self._expected.with_more(Facts.expected(size, version))
        self._subject.expect(Facts.expected(size, version))
        return self

    def size(self) -> int:
        """Bytes in all, as stated or as the server says (it is asked once, for one byte).

        Raises:
            UnavailableError: it does not say, or does not answer.
            ShardMissingError: nothing lies there.
        """
        size = self._subject.facts.size
        if size is None:
            _Range(self._subject, 0, memoryview(bytearray(1))).probe()
            size = self._subject.facts.size
        if size is None:
            raise UnavailableError(
                "the server does not say how long it is", url=self.url, cure="Such a file can be streamed only"
            )
        return size

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` from `offset` on.

        Raises:
            TruncatedShardError: the object ends before.
            RangesRefusedError: the server has no ranges, and `offset` is not 0.
            ShardChangedError: another object lies there than before.
            ShardMissingError: none does.
            UnavailableError: permission, or the network, after all retries.
        """
        if len(buffer):
            _Range(self._subject, offset, buffer).fill()

    def announce(self, offset: int, length: int) -> None:
        """Nothing: a server cannot be told."""

    def close(self) -> None:
        """End the reads of other threads, which then raise. Twice does nothing. Connections stay for other objects."""
        self._subject.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _rebuild(kind: type[HttpFile], url: str, remote: Remote, size: int | None, version: str | None) -> HttpFile:
    return kind(url, remote=remote, size=size, version=version)


class _Range:
    """One read: where it stands."""

    def __init__(self, subject: Subject, offset: int, buffer: memoryview) -> None:
        self._subject = subject
        self._offset = offset
        self._buffer = buffer
        self._done = 0
        self._furthest = 0
        self._condition: str | None = None

    def fill(self) -> None:
        """Bring all bytes, over as many answers as it takes."""
        self._refuse_beyond(self._subject.facts.size)
        if self._subject.ranges is False and self._offset:
            raise self._no_ranges()
        retry = self._subject.retry()
        while self._done < len(self._buffer):
            try:
                with self._subject.asking(self._headers(), retry) as answer:
                    self._take(answer, *self._judge(answer))
                if self._done < len(self._buffer):  # a server may send less than was asked for: the rest comes next
                    retry.advanced(self._brought(), offset=self._offset + self._done)
            except Fault as fault:
                brought = self._brought()
                if self._subject.facts.version is None:
                    self._done = brought = 0  # nothing would show that the rest is another object's
                retry.again(fault, brought=brought, offset=self._offset + self._done)

    def _brought(self) -> int:
        """Bytes further than ever before: what is begun anew each time and never ended does not advance."""
        before, self._furthest = self._furthest, max(self._furthest, self._done)
        return self._furthest - before

    def probe(self) -> None:
        """Ask, and look at the head of the answer only."""
        retry = self._subject.retry()
        while True:
            try:
                with self._subject.asking(self._headers(), retry) as answer:
                    size = self._subject.take_note(answer).size
                    if answer.status == 206:
                        self._from_part(answer)
                    if answer.status != 416 and size != 0:  # of nothing there is no range, and some servers say 200
                        self._subject.ranges = answer.status == 206
                    return
            except Fault as fault:
                retry.again(fault)

    def _headers(self) -> dict[str, str]:
        headers = {"Range": f"bytes={self._offset + self._done}-{self._offset + len(self._buffer) - 1}"}
        self._condition = self._subject.facts.condition if self._subject.conditional else None
        return headers if self._condition is None else headers | {"If-Range": self._condition}

    def _judge(self, answer: Answer) -> tuple[int, int]:
        """How many bytes of the body lie before those that are wanted, and up to which place it fills the buffer."""
        facts = self._subject.take_note(answer)
        self._refuse_beyond(facts.size)
        if answer.status == 416:
            raise Fault("the server says that the range lies behind the end, which it does not")
        if answer.status == 200:
            return self._from_whole(facts)
        self._subject.ranges = True
        if not self._subject.conditional:
            self._refuse_undated(facts)
        return self._from_part(answer)

    def _from_whole(self, facts: Facts) -> tuple[int, int]:
        subject = self._subject
        if self._condition is not None and subject.ranges is not False:
            self._refuse_undated(facts)
            subject.conditional = False
            raise Fault("the server takes the version that it names itself for another one")
        if subject.ranges:
            raise Fault("the server has answered ranges before, and now sends the whole")
        subject.ranges = False
        if self._offset:
            raise self._no_ranges()
        self._done = 0
        return 0, len(self._buffer)

    def _refuse_undated(self, facts: Facts) -> None:
        """Where If-Range is no proof that it is the same object, only the version in the answer is one."""
        known = self._subject.facts
        if known.version is not None and not facts.names_version_of(known):
            raise Fault("the server no longer says of which version its bytes are")

    def _from_part(self, answer: Answer) -> tuple[int, int]:
        part, at = Part.of(answer.headers), self._offset + self._done
        if part is None:
            raise Fault("the server sends a part and does not say which, or contradicts itself")
        if not part.begin <= at < part.end:
            raise Fault(f"the server sends bytes {part.begin:,} to {part.end - 1:,} in place of those from {at:,} on")
        return at - part.begin, min(part.end - self._offset, len(self._buffer))

    def _take(self, answer: Answer, skip: int, upto: int) -> None:
        while skip:
            count = answer.readinto(memoryview(bytearray(min(skip, _SKIPPED_AT_ONCE))))
            if not count:
                raise self._ended_early(answer)
            skip -= count
        while self._done < upto:
            count = answer.readinto(self._buffer[self._done : upto])
            if not count:
                raise self._ended_early(answer)
            self._done += count

    def _ended_early(self, answer: Answer) -> Exception:
        if answer.status == 200 and answer.ended and answer.proves_its_end:
            return self._truncated(self._offset + self._done)
        return Fault("the transfer ended before its stated length")

    def _refuse_beyond(self, size: int | None) -> None:
        if size is not None and self._offset + len(self._buffer) > size:
            raise self._truncated(size)

    def _truncated(self, size: int) -> TruncatedShardError:
        return TruncatedShardError(
            f"it ends after {size:,} bytes, {self._offset + len(self._buffer):,} expected",
            url=self._subject.url,
            offset=size,
            cure="It was cut or replaced: upload it again, or index it again with `wds index --force`",
        )

    def _no_ranges(self) -> RangesRefusedError:
        return RangesRefusedError(
            "the server does not answer ranges",
            url=self._subject.url,
            offset=self._offset,
            cure="It can be streamed from its first byte on; for random order nginx or `wds serve` serves it",
        )
