"""Reading ahead changes when bytes come, and neither the bytes nor the errors."""

from __future__ import annotations

import threading
from typing import Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wds_tools.errors import UnavailableError
from wds_tools.sources.ahead import UNDER_WAY, AheadStream
from wds_tools.sources.base import Source

CONTENT = bytes(range(256)) * 4


class Remote:
    """A source that can be made to wait and to fail from some byte on."""

    url, version = "s3://b/x", "v1"

    def __init__(self, content: bytes = CONTENT, *, fails_from: int | None = None) -> None:
        self._content, self._fails_from = content, fails_from
        self.gate = threading.Event()
        self.gate.set()
        self.asked: list[int] = []
        self.began = threading.Semaphore(0)
        self.closed = False

    def size(self) -> int:
        return len(self._content)

    def read_into(self, offset: int, buffer: memoryview) -> None:
        self.asked.append(offset)
        self.began.release()
        assert self.gate.wait(20)
        if self.closed or (self._fails_from is not None and offset + len(buffer) > self._fails_from):
            raise UnavailableError("gone", url=self.url, offset=offset)
        buffer[:] = self._content[offset : offset + len(buffer)]

    def announce(self, offset: int, length: int) -> None:
        """Not needed."""

    def close(self) -> None:
        self.closed = True
        self.gate.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("shardstream-ahead")]


def read(stream: AheadStream, step: int) -> bytes:
    whole, buffer = b"", bytearray(step)
    while count := stream.readinto(memoryview(buffer)):
        whole += buffer[:count]
    return whole


@given(st.integers(0, len(CONTENT)), st.integers(1, 400), st.integers(1, 400))
def test_the_bytes_are_those_of_the_source(size: int, piece: int, step: int) -> None:
    with AheadStream(Remote(CONTENT[:size]), piece=piece) as stream:
        assert read(stream, step) == CONTENT[:size]
        assert stream.readinto(memoryview(bytearray(1))) == 0
        assert (stream.length, stream.version, stream.shows_cuts) == (size, "v1", True)
    assert not threads()


def test_so_many_pieces_are_under_way_and_no_more() -> None:
    source = Remote()
    with AheadStream(source, piece=100) as stream:
        assert source.asked == []
        stream.readinto(memoryview(bytearray(100)))
        for _ in range(1 + UNDER_WAY):
            assert source.began.acquire(timeout=20)
        assert sorted(source.asked) == [100 * at for at in range(1 + UNDER_WAY)]


def test_an_error_comes_where_its_bytes_would_have_come() -> None:
    with AheadStream(Remote(fails_from=250), piece=100) as stream:
        buffer = memoryview(bytearray(100))
        assert [stream.readinto(buffer), stream.readinto(buffer)] == [100, 100]
        with pytest.raises(UnavailableError) as caught:
            stream.readinto(buffer)
        assert caught.value.offset == 200


def test_closing_ends_a_read_of_another_thread() -> None:
    source = Remote()
    source.gate.clear()
    stream = AheadStream(source, piece=100)
    said: list[Exception] = []

    def wait() -> None:
        try:
            stream.readinto(memoryview(bytearray(10)))
        except UnavailableError as error:
            said.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert source.began.acquire(timeout=20)
    stream.close()
    waiting.join(20)
    assert len(said) == 1
    assert not threads()
    with pytest.raises(UnavailableError, match="closed"):
        stream.readinto(memoryview(bytearray(10)))


def is_a_source(source: Source) -> Source:
    """What the fake stands for is checked by the types."""
    return source


assert is_a_source(Remote())
