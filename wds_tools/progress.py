"""How far a command is: a bar on a terminal, plain lines elsewhere, always on stderr.

    with progress.bar("packing", total=1200, unit="pictures") as bar:
        for picture in pictures:
            ...
            bar.advance()

stdout belongs to a command's answer, so that `wds ls ... | head` and `wds info --json > file` stay clean. On a terminal
the bar shows the rate and the time left and vanishes when done; a log file gets a line every few seconds, since a bar
in a log is noise and silence for an hour is worse. Both end with one line that says how many, how long and how fast.
`advance` may be called from any thread.

Rich is imported on a terminal only, at the first bar.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, Self, TextIO

from wds_tools.errors import counted

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

__all__ = ["Progress", "bar"]

SECONDS_BETWEEN_LINES = 5.0
"""In a log: often enough to see that it lives, 720 lines an hour at most."""


class Progress:
    """One running count; made by `bar`, used with `with`.

    Args:
        title: what is being done, such as "packing".
        total: how many there are, None where nobody knows.
        unit: what is counted, in the plural.
        stream: where to write, stderr by default.
        clock: seconds that never go back; tests bring their own.
    """

    def __init__(
        self,
        title: str,
        *,
        total: int | None = None,
        unit: str = "items",
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.title = title
        self.total = total
        self.unit = unit
        self.count = 0
        self.skipped = 0
        self.noted = ""
        self._stream = stream
        self._clock = clock
        self._lock = threading.Lock()
        self.began = 0.0
        self._face: _Face | None = None

    def __enter__(self) -> Self:
        stream = sys.stderr if self._stream is None else self._stream
        self.began = self._clock()
        self._face = _Bar(self, stream) if stream.isatty() else _Lines(self, stream, self.began)
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        self.close(done=kind is None)

    def advance(self, count: int = 1) -> None:
        """`count` more are done. From any thread; costs about a microsecond between two drawings."""
        with self._lock:
            self.count += count
            if self._face is not None:
                self._face.moved(self._clock())

    def skip(self, count: int) -> None:
        """`count` more were done before this began: they count, and not for the rate or the time that is left."""
        with self._lock:
            self.count += count
            self.skipped += count
            if self._face is not None:
                self._face.moved(self._clock())

    def note(self, text: str) -> None:
        """Show a few words behind the count from now on, such as "12 shards, 3 not packed"."""
        with self._lock:
            self.noted = text

    def say(self, text: str) -> None:
        """Write a whole line to stderr without tearing the bar."""
        with self._lock:
            if self._face is not None:
                self._face.say(text)

    def close(self, *, done: bool = True) -> None:
        """Take the bar away and say how it went. Twice does nothing."""
        with self._lock:
            face, self._face = self._face, None
            if face is not None:
                face.close()
                face.say(self.summary(self._clock(), done=done))

    def summary(self, now: float, *, done: bool = True) -> str:
        """The closing line, such as "packing: 1,200 pictures in 3.2 s, 375/s"."""
        seconds = now - self.began
        stopped = "" if done else "stopped after "
        there = f" ({self.skipped:,} were there)" if self.skipped else ""
        counts = f"{self._counted(self.count)}{there} in {_duration(seconds)}{self.rate(seconds)}"
        return f"{self.title}: {stopped}{counts}{self._noted()}"

    def line(self, now: float) -> str:
        """The line for a log, such as "packing: 600 of 1,200 pictures, 375/s, 2 s left"."""
        seconds = now - self.began
        done = self._counted(self.count) if self.total is None else f"{self.count:,} of {self._counted(self.total)}"
        left, here = "", self.count - self.skipped
        if self.total is not None and here > 0 and self.count < self.total:
            left = f", {_duration(seconds / here * (self.total - self.count))} left"
        return f"{self.title}: {done}{self.rate(seconds)}{left}{self._noted()}"

    def rate(self, seconds: float) -> str:
        """How fast it goes, such as ", 375/s"; empty where nothing has been done yet."""
        return _rate(self.count - self.skipped, seconds)

    def _noted(self) -> str:
        return f"; {self.noted}" if self.noted else ""

    def _counted(self, number: int) -> str:
        return counted(number, self.unit.removesuffix("s"), self.unit)


def bar(
    title: str,
    *,
    total: int | None = None,
    unit: str = "items",
    stream: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Progress:
    """A `Progress` to use with `with`; see there."""
    return Progress(title, total=total, unit=unit, stream=stream, clock=clock)


class _Face(Protocol):
    """How a count is shown; called under the count's lock."""

    def moved(self, now: float) -> None: ...

    def say(self, text: str) -> None: ...

    def close(self) -> None: ...


class _Lines:
    """Plain lines, one every few seconds."""

    def __init__(self, owner: Progress, stream: TextIO, now: float) -> None:
        self._owner = owner
        self._stream = stream
        self._next = now + SECONDS_BETWEEN_LINES

    def moved(self, now: float) -> None:
        if now >= self._next:
            self._next = now + SECONDS_BETWEEN_LINES
            self.say(self._owner.line(now))

    def say(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()

    def close(self) -> None:
        pass


class _Bar:
    """Rich's bar, drawn ten times a second by rich's own thread, which ends with close."""

    def __init__(self, owner: Progress, stream: TextIO) -> None:
        self._owner = owner
        self._rich, self._task = _rich_bar(owner, stream)
        self._rich.start()

    def moved(self, now: float) -> None:
        seconds = now - self._owner.began
        self._rich.update(
            self._task,
            completed=self._owner.count,
            rate=self._owner.rate(seconds).removeprefix(", "),
            note=self._owner.noted,
        )

    def say(self, text: str) -> None:
        self._rich.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        self._rich.stop()


def _rich_bar(owner: Progress, stream: TextIO) -> tuple[RichProgress, TaskID]:
    from rich import progress as rich_progress
    from rich.console import Console

    columns = (
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(),
        rich_progress.TextColumn("{task.completed:,.0f} {task.fields[of]}", markup=False),
        rich_progress.TextColumn("{task.fields[rate]}", markup=False),
        rich_progress.TimeRemainingColumn(),
        rich_progress.TextColumn("{task.fields[note]}", markup=False),
    )
    of = owner.unit if owner.total is None else f"of {owner.total:,} {owner.unit}"
    made = rich_progress.Progress(*columns, console=Console(file=stream), transient=True)
    return made, made.add_task(owner.title, total=owner.total, of=of, rate="", note="")


def _rate(count: int, seconds: float) -> str:
    if not count or seconds <= 0:
        return ""
    each = count / seconds
    return f", {each:,.0f}/s" if each >= 10 else f", {each:.1f}/s"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
