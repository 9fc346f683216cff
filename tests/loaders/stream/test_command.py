"""Commands as streams: whole or an error, and gone when they are let go."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from loaders.stream.command import Command, Halted
from wds_tools.errors import UnavailableError

Left = Callable[[], tuple[int, set[str], int]]


def python(code: str) -> str:
    return f'pipe:{sys.executable} -c "{code}"'


def content(url: str, stop: threading.Event | None = None) -> bytes:
    with closing(Command(url, stop or threading.Event())) as command:
        return command.read()


def test_the_output_as_it_is(tmp_path: Path, left_behind: Left) -> None:
    data = bytes(range(256)) * 20_000
    (tmp_path / "x y").write_bytes(data)
    before = left_behind()
    assert content(f"pipe:cat '{tmp_path}/x y'") == data
    assert left_behind() == before


def test_the_begin_can_be_looked_at(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0123456789abc")
    with closing(Command(f"pipe:cat {tmp_path}/x", threading.Event())) as command:
        assert command.head(10) == b"0123456789"
        assert command.read() == b"0123456789abc"
    with closing(Command("pipe:printf abc", threading.Event())) as command:
        assert command.head(10) == b"abc"


def test_a_status_is_an_error_that_repeats_what_the_command_said(left_behind: Left) -> None:
    before = left_behind()
    url = python("import sys; print(1); sys.stderr.write('no route\\n'); sys.exit(7)")
    with pytest.raises(UnavailableError, match="status 7 after 2 bytes; it said: no route") as caught:
        content(url)
    assert caught.value.url == url
    assert left_behind() == before


def test_a_signal_is_an_error() -> None:
    with pytest.raises(UnavailableError, match="SIGKILL"):
        content(python("import os; os.kill(os.getpid(), 9)"))


def test_a_command_that_is_not_installed(left_behind: Left) -> None:
    before = left_behind()
    with pytest.raises(UnavailableError, match="'no-such-command' cannot be started"):
        content("pipe:no-such-command x")
    assert left_behind() == before


def test_no_shell_takes_part(tmp_path: Path) -> None:
    assert content("pipe:printf %s $HOME`id`*") == b"$HOME`id`*"
    assert not list(tmp_path.iterdir())


def test_letting_go_early_is_no_error_and_leaves_no_child(left_behind: Left) -> None:
    before = left_behind()
    with closing(Command("pipe:yes", threading.Event())) as command:
        assert command.head(4) == b"y\ny\n"
    command.close()
    assert left_behind() == before


def test_children_of_the_command_end_too(tmp_path: Path) -> None:
    fifo = tmp_path / "held"
    os.mkfifo(fifo)
    held = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    code = f"import subprocess; subprocess.run(['sleep', '300'], stdout=open('{fifo}', 'w'))"
    with closing(Command(python(f"print(1, flush=True); {code}"), threading.Event())) as command:
        assert command.head(2) == b"1\n"
        deadline = time.monotonic() + 30
        while not _has_writer(held):
            assert time.monotonic() < deadline
    ended = select.poll()
    ended.register(held, 0)  # hang-up alone: nobody has it open for writing any more
    assert ended.poll(30_000)
    os.close(held)


def _has_writer(fifo: int) -> bool:
    try:
        return os.read(fifo, 1) != b""
    except BlockingIOError:
        return True


def test_a_command_that_ignores_the_request_to_end_is_killed(left_behind: Left) -> None:
    before = left_behind()
    code = "import signal; signal.signal(15, signal.SIG_IGN); print(1, flush=True); signal.pause()"
    with closing(Command(python(code), threading.Event())) as command:
        assert command.head(2) == b"1\n"
    assert left_behind() == before


def test_waiting_for_a_silent_command_can_be_given_up() -> None:
    stop = threading.Event()
    with closing(Command("pipe:sleep 300", stop)) as command:
        threading.Timer(0.05, stop.set).start()
        with pytest.raises(Halted):
            command.read(1)


def test_a_command_that_closes_its_output_first_is_waited_for() -> None:
    code = "import os, sys; os.write(1, b'x'); os.close(1); sys.stdin.read(); os._exit(3)"
    with pytest.raises(UnavailableError, match="status 3"):
        content(python(code))
