"""Threads begin here, so that where none is left (a container's limit, memory) it is said what to do."""

from __future__ import annotations

import threading

from wds_tools.errors import UnavailableError

__all__ = ["begun"]


def begun(thread: threading.Thread) -> threading.Thread:
    """The thread, begun.

    Raises:
        UnavailableError: the machine begins no more.
    """
    try:
        thread.start()
    except RuntimeError as error:
        raise UnavailableError(
            f"this process may begin no more threads ({error}), after {threading.active_count()} of Python's",
            cure="Pass fewer threads=, or raise what limits it: `ulimit -u`, the container's pids limit, its memory.",
        ) from error
    return thread
