"""The parts of a run as tasks of Ray, on a cluster that is there already.

Every part is one task that asks for as many CPUs as it has jobs. What a task needs goes to each machine once: the input
(names, not pictures), the settings. Machines must see the pictures under the same paths, and the target, be it a shared
folder or a store; and have shardstream installed.

- A worker or a machine that is lost is made good: Ray begins the part again elsewhere, where it goes on by its journal
  (shardwriter.part). The lock on a part is the kernel's, so the dead do not hold it.
- A part that cannot be packed is no reason to drop the others: they are done before its error is raised.
- How far parts are is told by the workers, twice a second at most, to one small actor, and asked for here, whenever a
  part ends or half a second has passed. An attempt that begins again says where it begins.
- Ctrl-C, or an error here, cancels what runs: workers get a KeyboardInterrupt and keep the shards that they have
  committed, and the same call goes on.

A cluster is never started here, nor stopped; who is not connected yet is for the time of the run.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Generator, Iterator
from typing import Any

import ray

from shardwriter.engines.base import Outcome
from shardwriter.part import pack_part
from shardwriter.summary import PackSummary
from shardwriter.task import Task
from shardwriter.watch import Watch
from wds_tools.errors import ShardstreamError, UnavailableError, UsageError

__all__ = ["run_parts"]

_log = logging.getLogger(__name__)

RETRIES = 5
"""How often a part is begun again when its worker was lost; machines of a preemptible pool are lost often."""
POLL_S = 0.5
GRACE_S = 30.0
"""For cancelled workers to let a shard of a GB reach the disk."""


def run_parts(task: Task, parts: int, watch: Watch, *, address: str | None = None) -> Generator[Outcome, None, None]:
    """All parts, as many at a time as the cluster has CPUs for.

    Args:
        task: the run.
        parts: how many.
        watch: is told of progress.
        address: of the cluster; None for that which this process has joined, else "auto".

    Raises:
        UnavailableError: there is no cluster; UsageError: an input or a stage that cannot be sent to it.
    """
    with _joined(address):
        _check_cpus(task.jobs)
        sent = _sent(task)
        board = ray.remote(num_cpus=0, max_restarts=-1)(_Board).remote()
        pack = ray.remote(num_cpus=task.jobs, max_retries=RETRIES, scheduling_strategy="SPREAD")(_pack)
        waiting = {pack.remote(sent, number, parts, str(os.getcwd()), board): number for number in range(parts)}  # noqa: PTH109
        shown = _Shown(watch)
        try:
            while waiting:
                done, _ = ray.wait(list(waiting), num_returns=1, timeout=POLL_S)
                shown.ask(board)
                for found in done:
                    outcome = _outcome(waiting.pop(found), found)
                    if outcome.summary is not None:
                        shown.whole(outcome.part, outcome.summary)
                    yield outcome
        finally:
            _cancel(list(waiting))


def _pack(task: Task, number: int, parts: int, folder: str, board: Any) -> PackSummary | ShardstreamError:
    """One part, in a worker. Our errors are results, so that they arrive as they are."""
    told = _Told(board, number)
    try:
        with _inside(folder), contextlib.ExitStack() as stack:
            close = getattr(task.samples, "close", None)
            if close is not None:
                stack.callback(close)
            return pack_part(task, number, parts, Watch(progress=told.add, resumed=told.begin))
    except ShardstreamError as error:
        return error
    finally:
        told.flush()


@contextlib.contextmanager
def _inside(folder: str) -> Iterator[None]:
    """Relative paths of the input mean what they mean where the run was begun. A worker does one task at a time."""
    try:
        with contextlib.chdir(folder):
            yield
    except FileNotFoundError as error:
        if error.filename != folder:
            raise
        raise UnavailableError(
            f"the machine {os.uname().nodename} does not see the folder {folder}, where the run was begun",
            cure="Begin it in a folder that all machines share, with the pictures under the same paths on each.",
        ) from error


class _Board:
    """How far each part is. An actor: one for all."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[int, int]] = {}

    def note(self, part: int, done: int, earlier: int) -> None:
        """Take the word of a part's latest attempt; what lay there before this run the first one knows."""
        self._rows[part] = done, self._rows.get(part, (0, earlier))[1]

    def rows(self) -> dict[int, tuple[int, int]]:
        """By part the samples done, and how many of them before this run."""
        return self._rows


class _Told:
    """A worker's word on how far it is."""

    def __init__(self, board: Any, part: int) -> None:
        self._board = board
        self._part = part
        self._done = 0
        self._earlier = 0
        self._next = 0.0

    def begin(self, count: int) -> None:
        self._earlier = count
        self.add(count)

    def add(self, count: int) -> None:
        self._done += count
        if (now := time.monotonic()) >= self._next:
            self._next = now + POLL_S
            self.flush()

    def flush(self) -> None:
        self._board.note.remote(self._part, self._done, self._earlier)


class _Shown:
    """What the watch was told so far. It never goes back: a part that begins again catches up first."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._rows: dict[int, tuple[int, int]] = {}
        self._whole: dict[int, tuple[int, int]] = {}
        self._done = 0
        self._earlier = 0

    def ask(self, board: Any) -> None:
        """Hear what the workers have said since."""
        try:
            rows = ray.get(board.rows.remote(), timeout=POLL_S)
        except ray.exceptions.RayError:  # progress is no reason to end a run: the next time, perhaps
            return
        self._rows = self._rows | rows | self._whole
        self._tell()

    def whole(self, part: int, summary: PackSummary) -> None:
        """A part is whole: its summary knows better than its last word, which may be on the way still."""
        done = summary.packed + summary.duplicates + sum(summary.failed.values())
        self._rows[part] = self._whole[part] = done, self._rows.get(part, (0, summary.resumed))[1]
        self._tell()

    def _tell(self) -> None:
        done, earlier = (sum(column) for column in zip(*self._rows.values(), strict=True)) if self._rows else (0, 0)
        if earlier > self._earlier:
            self._watch.begin(earlier - self._earlier)
            self._done, self._earlier = self._done + earlier - self._earlier, earlier
        if done > self._done:
            self._watch.progress(done - self._done)
            self._done = done


def _outcome(number: int, found: Any) -> Outcome:
    try:
        answer = ray.get(found)
    except ray.exceptions.RayTaskError as error:  # not one of ours: its traceback in the worker is the best there is
        return Outcome(number, None, error)
    except ray.exceptions.RayError as error:
        lost = UnavailableError(
            f"its worker was lost {RETRIES + 1} times: {_first_line(error)}",
            cure="Look at the memory and the logs of the machines (`ray logs`).",
        )
        lost.__cause__ = error
        return Outcome(number, None, lost)
    return Outcome(number, None, answer) if isinstance(answer, Exception) else Outcome(number, answer)


def _first_line(error: Exception) -> str:
    return next((line.strip().rstrip(".") for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _cancel(waiting: list[Any]) -> None:
    """End what runs, by an interrupt first, so that half shards are removed and whole ones noted."""
    if not waiting:
        return
    for found in waiting:
        ray.cancel(found)
    _, left = ray.wait(waiting, num_returns=len(waiting), timeout=GRACE_S)
    for found in left:
        ray.cancel(found, force=True)


@contextlib.contextmanager
def _joined(address: str | None) -> Iterator[None]:
    """Connected to the cluster while the block runs."""
    if ray.is_initialized():
        yield
        return
    try:
        ray.init(address=address or "auto", log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        raise UnavailableError(
            f"no Ray cluster can be reached at {address or 'auto'!r}: {_first_line(error)}",
            cure="Start one with `ray start --head`, or name another (--address); engine='local' needs none.",
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _check_cpus(jobs: int) -> None:
    """Say it where no machine is large enough, since Ray would wait for one; one may be about to come."""
    most = max((node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]), default=0)
    if most < jobs:
        _log.warning("a part asks for %d CPUs (jobs), and no machine of the cluster has more than %d", jobs, most)


def _sent(task: Task) -> Any:
    try:
        return ray.put(task)
    except ShardstreamError as error:
        raise error.at(cure=_SPOOLED) from error.__cause__
    except Exception as error:  # what pickling a user's own input raises can be anything
        if isinstance(error.__cause__, ShardstreamError):
            raise error.__cause__ from error
        raise UsageError(
            f"the input or the transcoder cannot be sent to other machines: {_first_line(error)}", cure=_SPOOLED
        ) from error


_SPOOLED = "Let it hold paths and numbers, no open files; or pack with engine='local'."
