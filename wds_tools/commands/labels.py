"""Labels for commands: read with a bar, which is not there where they were kept from an earlier time."""

from __future__ import annotations

import contextlib
import threading

from wds_tools import progress
from wds_tools.dataset import Dataset
from wds_tools.labels import Labels, read_labels

__all__ = ["read_shown"]


def read_shown(dataset: Dataset, field: str) -> Labels:
    """As `labels.read_labels`, with progress on stderr.

    Raises:
        UsageError, ShardError, UnavailableError: as there.
    """
    with contextlib.ExitStack() as stack:
        lock, bars = threading.Lock(), list[progress.Progress]()

        def advance(count: int) -> None:
            with lock:
                if not bars:
                    total = len(dataset)
                    bars.append(stack.enter_context(progress.bar("reading labels", total=total, unit="samples")))
            bars[0].advance(count)

        return read_labels(dataset, field, advance=advance)
