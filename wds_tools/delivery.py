"""A folder, or a place in a store, that gets a few files: each whole or not at all, in a stated order.

    with Delivery("s3://bucket/train/") as delivery:
        write_atomic(delivery.folder / "classes.txt", lines)
        delivery.deliver("classes.txt")

In a folder of this machine files are made where they belong, so that there is nothing left to deliver. For a store they
are made in a temporary folder and put there in one request each.
"""

from __future__ import annotations

import os
import posixpath
import tempfile
from pathlib import Path
from typing import Self

from wds_tools import addresses
from wds_tools.errors import UnavailableError, UsageError
from wds_tools.sources.options import Remote

__all__ = ["Delivery"]


class Delivery:
    """Used with `with`.

    Args:
        place: a path, or the url of a place in a store.
        remote: how the store is asked; the defaults where None.

    Raises:
        UsageError: a web server, which takes no files.
    """

    def __init__(self, place: str, remote: Remote | None = None) -> None:
        if addresses.scheme(place) in {"http", "https"}:
            raise UsageError(
                "a web server takes no files", url=place, cure="Name a folder that it serves, or a store: s3://"
            )
        self.away = addresses.is_remote(place)
        """Whether it is a place in a store."""
        self.place = place.rstrip("/") + "/" if self.away else os.path.abspath(addresses.path_of(place))  # noqa: PTH100
        self._remote = remote
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    @property
    def folder(self) -> Path:
        """Where the files are made. Inside the `with` block only."""
        if not self.away:
            return Path(self.place)
        if self._scratch is None:
            raise RuntimeError("the delivery is not open")
        return Path(self._scratch.name)

    @property
    def name(self) -> str:
        """The last part of the place."""
        return posixpath.basename(self.place.rstrip("/"))

    def __enter__(self) -> Self:
        if self.away:
            self._scratch = tempfile.TemporaryDirectory(prefix="shardstream-")
            return self
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UnavailableError(f"cannot be made: {error.strerror}", url=self.place) from error
        return self

    def __exit__(self, *exc: object) -> None:
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None

    def named(self, name: str) -> str:
        """The path or url of a file of that name there."""
        return self.place + name if self.away else os.path.join(self.place, name)  # noqa: PTH118

    def has(self, name: str) -> bool:
        """Whether a file of that name lies there."""
        if not self.away:
            return os.path.lexists(self.named(name))
        from wds_tools.sources import fsspec

        return fsspec.exists(self.named(name), self._remote)

    def deliver(self, *names: str) -> None:
        """Bring files, which are whole in `folder`, to the place, in this order. What lies there is replaced.

        Raises:
            UnavailableError: the store cannot be reached, or has kept too few bytes.
        """
        if not self.away:
            return
        from wds_tools.sources import fsspec

        for name in names:
            fsspec.remove(self.named(name), self._remote)
            fsspec.put(self.named(name), self.folder / name, self._remote)

    def remove(self, *names: str) -> None:
        """Remove these files, where they are there.

        Raises:
            UnavailableError: one cannot be removed.
        """
        if not self.away:
            for name in names:
                try:
                    (self.folder / name).unlink(missing_ok=True)
                except OSError as error:
                    raise UnavailableError(f"cannot be removed: {error.strerror}", url=self.named(name)) from error
            return
        from wds_tools.sources import fsspec

        for name in names:
            fsspec.remove(self.named(name), self._remote)
