"""From a request to its answer: a status, header fields, and a body that is either bytes or a part of an open file."""

from __future__ import annotations

import ipaddress
import os
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import quote

from wds_tools.serve.conditions import decide
from wds_tools.serve.files import content_type, facts_of, index_page, open_below
from wds_tools.serve.head import BadRequestError, Request, names_of

__all__ = ["Answer", "answer_error", "answer_request", "check_request", "page_answer"]

_METHODS = ("GET", "HEAD")


@dataclass(kw_only=True, slots=True)
class Answer:
    """What goes back. Closed with `with`, which closes the file.

    Attributes:
        status: the status code.
        fields: header fields, without those of the connection.
        page: the body, where it is made here.
        descriptor: the file that the body is a part of, where it is not.
        first: where that part begins.
        length: its bytes.
    """

    status: int
    fields: list[tuple[str, str]] = field(default_factory=list)
    page: bytes = b""
    descriptor: int | None = None
    first: int = 0
    length: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


def answer_request(request: Request, *, root: str, loopback: bool) -> Answer:
    """The answer to a request.

    Args:
        request: what the client asks for.
        root: the served folder, resolved.
        loopback: whether only this machine is served; see `check_request`.

    Raises:
        BadRequestError: an error for an answer.
    """
    check_request(request, loopback=loopback)
    names, slash = names_of(request.path)
    descriptor, facts = open_below(root, names)
    answer = None
    try:
        if not stat.S_ISDIR(facts.st_mode):
            answer = _file(request, names, descriptor, facts, slash=slash)
        else:
            answer = _folder(root, names, descriptor) if slash or not names else _with_slash(names)
        return answer
    finally:
        if answer is None or answer.descriptor is None:
            os.close(descriptor)


def check_request(request: Request, *, loopback: bool) -> None:
    """Refuse what no server here answers.

    Args:
        request: what the client asks for.
        loopback: whether only this machine is served. Then requests for any other host's name are refused: a page of
            the web could have its name point here, and its scripts would be let read what they get (DNS rebinding).

    Raises:
        BadRequestError: 405 another method than GET and HEAD; 421 another host's name.
    """
    if request.method not in _METHODS:
        raise BadRequestError(405, "only GET and HEAD are served")
    if loopback and not _is_local(request.host):
        raise BadRequestError(421, "only requests for localhost are served; --host serves a network")


def page_answer(page: bytes, media: str, fields: Sequence[tuple[str, str]] = (), *, status: int = 200) -> Answer:
    """An answer whose body is made here."""
    head = [("Content-Type", media), ("Content-Length", str(len(page))), *fields]
    return Answer(status=status, fields=head, page=page)


def answer_error(error: BadRequestError) -> Answer:
    """The answer that says what is wrong, one line of text."""
    page = f"{error.reason}\n".encode()
    allowed = [("Allow", ", ".join(_METHODS))] if error.status == 405 else []
    return page_answer(page, "text/plain; charset=utf-8", allowed, status=error.status)


def _file(request: Request, names: Sequence[str], descriptor: int, found: os.stat_result, *, slash: bool) -> Answer:
    if slash:
        raise BadRequestError(404, "no such folder")
    facts, now = facts_of(found), time.time()
    decision = decide(request.method, request.fields, facts, now)
    answer = Answer(status=decision.status, fields=facts.fields(now), first=decision.first, length=decision.length)
    if answer.status == 304:
        return answer
    answer.fields.append(("Content-Length", str(answer.length)))
    if answer.status == 412:
        return answer
    answer.fields.append(("Accept-Ranges", "bytes"))
    if answer.status == 416:
        answer.fields.append(("Content-Range", f"bytes */{facts.size}"))
        return answer
    answer.fields.append(("Content-Type", content_type(names[-1])))
    if answer.status == 206:
        last = answer.first + answer.length - 1
        answer.fields.append(("Content-Range", f"bytes {answer.first}-{last}/{facts.size}"))
    answer.descriptor = descriptor
    return answer


def _folder(root: str, names: Sequence[str], descriptor: int) -> Answer:
    page = index_page(root, names, descriptor)
    return page_answer(page, "text/html; charset=utf-8", [("Content-Security-Policy", "default-src 'none'")])


def _with_slash(names: Sequence[str]) -> Answer:
    """Links in an index are relative, so a folder's own path has to end in a slash."""
    place = "".join("/" + quote(os.fsencode(name)) for name in names) + "/"
    return Answer(status=301, fields=[("Location", place), ("Content-Length", "0")])


def _is_local(host: str) -> bool:
    """Whether a Host is no name that somebody else could point here: none, an address, or localhost."""
    if host in {"", "localhost"} or host.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
