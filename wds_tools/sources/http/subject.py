"""One object on a web server: the way to it, what all its answers agree on, and the end of what goes on.

Ranges are read from any thread, and there is no lock here that a fork could find taken. What answers say is kept in a
list that only grows: each answer is first entered and then compared with all others, so that of two first answers that
contradict each other at least one is refused, whatever the order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from wds_tools.errors import NotATarError, ShardChangedError, UnavailableError, shown
from wds_tools.sources.http import hosts
from wds_tools.sources.http.addressing import split
from wds_tools.sources.http.ask import Answer
from wds_tools.sources.http.connections import Exchange
from wds_tools.sources.http.facts import Facts
from wds_tools.sources.http.retry import Retry
from wds_tools.sources.http.route import Route
from wds_tools.sources.options import Remote

__all__ = ["Subject"]

_SHOWN = 60
_PACKED = {"gzip": (".gz", ".tgz"), "x-gzip": (".gz", ".tgz"), "zstd": (".zst",), "bzip2": (".bz2",)}


class Subject:
    """What sources and streams know of their object, in common.

    Args:
        url: its address.
        remote: how it is asked for.
        expected: what a listing or a cache knows of it.

    Attributes:
        ranges: whether the server answers ranges; None while nobody has asked.
        conditional: whether it is asked by If-Range; False once it has shown that it does not know that aright.
        closed: whether all that goes on is to end.
    """

    def __init__(self, url: str, remote: Remote, expected: Facts) -> None:
        split(url)  # an address that cannot be asked is the caller's mistake: now, and not at the first read
        self.url = url
        self.remote = remote
        self.ranges: bool | None = None
        self.conditional = True
        self.closed = False
        self._route = Route(url, remote)
        self._said: list[Facts] = []
        self._facts = Facts()
        self.expect(expected)
        self._exchanges: set[Exchange] = set()

    @property
    def facts(self) -> Facts:
        """What is known so far."""
        return self._facts

    @property
    def limited(self) -> bool:
        """Whether a host that it is had from has said 429 or 503 lately."""
        return self._route.limited

    def expect(self, facts: Facts) -> None:
        """Add what somebody knows."""
        self._said.append(facts)
        self._facts = functools.reduce(Facts.with_more, list(self._said))

    def retry(self) -> Retry:
        """The patience for one transfer."""
        return Retry(self.remote, self.url, self._pause)

    @contextmanager
    def asking(self, headers: Mapping[str, str], retry: Retry) -> Iterator[Answer]:
        """Ask, in the host's queue; the place in it is held for as long as the block lasts, and so is the answer."""
        mine: list[Exchange] = []
        try:
            with self._in_turn(retry), self._route.ask(headers, watch=self._watch(mine)) as answer:
                yield answer
        finally:
            self._exchanges.difference_update(mine)

    def ask(self, headers: Mapping[str, str], retry: Retry) -> Answer:
        """Ask, in the host's queue, and leave it; the caller closes the answer, and then calls `forget`."""
        with self._in_turn(retry):
            return self._route.ask(headers, watch=self._watch([]))

    def forget(self) -> None:
        """No answer is open any more."""
        self._exchanges.clear()

    def take_note(self, answer: Answer) -> Facts:
        """What this answer says, if it is an answer with the object and does not contradict earlier ones.

        Raises:
            NotATarError: it is a web page.
            UnavailableError: its body is encoded.
            ShardChangedError: it is of another object than the answers before.
        """
        self._refuse_encoded(answer)
        self._refuse_page(answer)
        facts = Facts.of(answer.status, answer.headers)
        if facts not in self._said:
            self.expect(facts)
        for said in list(self._said):
            if change := said.change(facts):
                raise ShardChangedError(
                    f"another object lies there than before: {change}",
                    url=self.url,
                    cure="Start again; a listing or an index of the old one is made anew by `wds index --force`",
                )
        return facts

    def close(self) -> None:
        """End what goes on, in any thread. Twice does nothing."""
        self.closed = True
        for exchange in list(self._exchanges):
            exchange.cut()
        hosts.wake()

    @contextmanager
    def _in_turn(self, retry: Retry) -> Iterator[None]:
        self._refuse_closed()
        with self._route.host.slot(self.remote.in_flight, retry.left(), lambda: self.closed) as waited:
            retry.waited(waited)
            self._refuse_closed()
            yield

    def _watch(self, mine: list[Exchange]) -> Callable[[Exchange], None]:
        def watch(exchange: Exchange) -> None:
            mine.append(exchange)
            self._exchanges.add(exchange)
            if self.closed:  # by another thread, which has not seen this one
                exchange.cut()

        return watch

    def _pause(self, seconds: float) -> None:
        hosts.pause(seconds, lambda: self.closed)
        self._refuse_closed()

    def _refuse_closed(self) -> None:
        if self.closed:
            raise UnavailableError("it has been closed", url=self.url)

    def _refuse_encoded(self, answer: Answer) -> None:
        encoding = answer.headers.get("Content-Encoding", "identity").strip().lower()
        # What is stored compressed under such a name is often sent with this header: the body is the file itself.
        if encoding in {"identity", ""} or split(answer.url).path.lower().endswith(_PACKED.get(encoding, ())):
            return
        raise UnavailableError(
            f"the server sends it encoded ({shown(encoding)}) though identity was asked for, so that no position in it "
            "is what it seems",
            url=self.url,
            cure="Let the server send it as it is (nginx: take its type out of gzip_types)",
        )

    def _refuse_page(self, answer: Answer) -> None:
        if answer.status != 200 or "html" not in answer.headers.get("Content-Type", "").lower():
            return
        if split(answer.url).path.lower().endswith((".html", ".htm")):
            return
        begin = answer.peek(_SHOWN)
        if begin.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"<":
            raise NotATarError(
                f"the server sends a web page in place of the file; it begins with {begin!r}",
                url=self.url,
                cure="Most such pages ask for a login, or say that something went wrong: open the url in a browser. "
                "If it is a folder, let the url end with a slash, or with the dataset.json in it",
            )
