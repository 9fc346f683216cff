"""A relay in a process of its own, so that it does not share the interpreter with what is measured.

    python -m benchmarks.relay PORT LATENCY_S

Prints the port that it listens on, and ends when its standard input does.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.servers.relay import Relay

__all__ = ["relaying"]


@contextmanager
def relaying(port: int, *, latency_s: float) -> Iterator[str]:
    """The address of a host that is so many seconds away, each way, and leads to this port."""
    command = [sys.executable, "-m", "benchmarks.relay", str(port), str(latency_s)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as relay:
        assert relay.stdout is not None
        yield f"http://127.0.0.1:{int(relay.stdout.readline())}"
        relay.communicate()


def _main() -> None:
    with Relay(int(sys.argv[1]), latency_s=float(sys.argv[2])) as relay:
        print(relay.port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    _main()
