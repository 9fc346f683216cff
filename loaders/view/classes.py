"""Samples by class, for the live server: labels are read once, in the background, when the first class is asked for.

They are kept in the user's cache directory, as those of `wds plan --labels` are. Of a remote dataset they are read only
where the user has named the field, since that means fetching it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from loaders.view.choice import Ints, label_named
from loaders.view.keys import REMOTE_BYTES
from wds_tools.dataset import Dataset
from wds_tools.errors import ShardstreamError, UsageError
from wds_tools.labels import Labels, read_labels
from wds_tools.show.words import size

__all__ = ["ClassIndex"]


class _Stopped(Exception):  # noqa: N818 - no error, but how a reading ends early
    """The server was closed."""


class ClassIndex:
    """The labels of a dataset. To be closed.

    Args:
        dataset: the samples.
        field: with the class.
        asked: whether the user has named the field, and so wants it read wherever it lies.
    """

    def __init__(self, dataset: Dataset, field: str, *, asked: bool) -> None:
        self._dataset = dataset
        self.field = field
        self._asked = asked
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._labels: Labels | None = None
        self._error: ShardstreamError | None = None
        self._closed = False
        self.read = 0
        """Samples whose label was read so far."""

    @property
    def names(self) -> Sequence[str]:
        """What can be asked for, as far as it is known without reading."""
        if self._dataset.classes:
            return self._dataset.classes
        listed = self._dataset.listing.get("labels")
        counts = listed.get(self.field) if isinstance(listed, dict) else None
        if isinstance(counts, dict):
            return list(counts)
        return [] if self._labels is None else [str(value) for value in self._labels.values]

    def numbers(self, name: str, *, wait_s: float = 0.0) -> Ints | None:
        """The samples of a class, int64 (k,), rising; None while the labels are being read.

        Raises:
            UsageError: no such class, or labels that would have to be fetched.
            ShardstreamError: what ended the reading.
        """
        labels = self._known(wait_s)
        if labels is None:
            return None
        label = label_named(labels, self._dataset.classes, name, self.field)
        return np.flatnonzero(labels.codes == labels.values.index(label)).astype(np.int64)

    def close(self) -> None:
        """End the reading, after the shards it is at. Twice does nothing."""
        with self._changed:
            self._closed = True
            thread = self._thread
        if thread is not None:
            thread.join()

    def _known(self, wait_s: float) -> Labels | None:
        self._check_remote()
        with self._changed:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="shardstream-labels", daemon=True)
                self._thread.start()
            self._changed.wait_for(lambda: self._labels is not None or self._error is not None, wait_s)
            if self._error is not None:
                raise self._error
            return self._labels

    def _check_remote(self) -> None:
        nbytes = int(self._dataset.sizes[self._dataset.remote_shards].sum())
        if nbytes > REMOTE_BYTES and not self._asked:
            raise UsageError(
                f"the classes of all samples would have to be read from {size(nbytes)} of remote shards",
                cure=f"Start with --labels {self.field} to have that done once, and kept.",
            )

    def _run(self) -> None:
        labels, error = None, None
        try:
            labels = read_labels(self._dataset, self.field, advance=self._advance)
        except ShardstreamError as found:
            error = found
        except _Stopped:
            return
        with self._changed:
            self._labels, self._error = labels, error
            self._changed.notify_all()

    def _advance(self, count: int) -> None:
        with self._changed:
            if self._closed:
                raise _Stopped
            self.read += count
