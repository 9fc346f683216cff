"""Shards into a store: s3://bucket/train-%06d.tar, and whatever else fsspec opens (wds_tools.sources.fsspec).

A shard is made as everywhere, as a file, in a folder of its own in the system's temporary folder (TMPDIR names
another). When the disk has it whole it is put into the store in one request, the store is asked how many bytes it has
kept, and the file is removed. So nothing lies under a shard's name before all of it does, whenever the process is
killed; no multi-part upload is left behind; and the local disk needs room for two shards, not for the dataset. The
listing comes last, after its offsets.

What lies there is refused or replaced as in a folder. A store has no locks: two writers of one pattern at a time are
told apart by the names, since a name that is taken is an error (S3 promises that, other stores are looked at just
before). A killed writer leaves its folder behind, with one shard or two in it; the next one removes it, which it knows
to be nobody's by its lock. `pack` can be taken up again, so its folder lasts (shardwriter.place).
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from shardwriter.target import Claim, Target, parse_names, parse_pattern, remove
from wds_tools.addresses import is_temporary, scheme
from wds_tools.errors import TargetError, UnavailableError, UsageError, public
from wds_tools.sources.options import Remote

__all__ = ["RemoteTarget", "is_remote", "parse_target"]

_STAGING = "shardstream-write-"
_LOCK = "shards"
_ABANDONED_S = 60.0  # a younger folder may be one whose writer has not taken its lock yet
_WEB = {"http", "https"}


@dataclass(frozen=True, kw_only=True)
class RemoteTarget(Target):
    """The names that a writer uses in a store. Made by `parse_target`.

    Attributes:
        folder: where shards are made on their way.
        base: the url of the place where everything goes, with a slash at its end.
        remote: how the store is asked.
        lasting: whether `folder` belongs to a run that may be taken up again, and not to this writer.
    """

    base: str
    lasting: bool = False
    remote: Remote = field(default_factory=Remote, repr=False)

    @property
    def place(self) -> str:
        """The url, without what may be secret in it."""
        return public(self.base)

    @property
    def name(self) -> str:
        """What to call the dataset: the prefix without the separator, else the last part of the url."""
        return self.prefix.strip("-_. ") or posixpath.basename(self.base.rstrip("/"))

    def named(self, name: str) -> str:
        """The url of a file of this target."""
        return self.base + name

    def publish(self, name: str, *, replace: bool = False) -> None:
        """Put the file into the store, and remove it here.

        Args:
            name: of the file.
            replace: whether one of that name may lie there. It is gone before the new one is there.

        Raises:
            TargetError: the name is taken; UnavailableError: the store cannot be reached, or has kept too few bytes.
        """
        from wds_tools.sources import fsspec

        path = self.folder / name
        if replace:
            self.remove([name])
        fsspec.put(self.named(name), path, self.remote)
        path.unlink()

    def claim(self) -> Claim:
        """Hold the folder where shards are made. One that does not last is removed when it is released."""
        self.folder.chmod(0o700)  # what goes to a private bucket is not for all users of this machine
        if self.lasting:
            return super().claim()
        claim = _Staging(self.folder)
        _clear_abandoned(self.folder)
        return claim

    def clear_leftovers(self, beside: Iterable[str] = ()) -> None:
        """Remove shards and unfinished files that lie here and never reached the store.

        What lies unfinished there is left alone, since nobody knows whose it is.
        """
        del beside  # all that is unfinished here is this run's
        here = os.listdir(self.folder)  # noqa: PTH208 - names are wanted
        remove(self.folder / name for name in here if is_temporary(name) or self.is_shard(name))

    def remove(self, names: Iterable[str]) -> None:
        """Remove these objects, where they are there."""
        from wds_tools.sources import fsspec

        for name in names:
            fsspec.remove(self.named(name), self.remote)

    def has(self, name: str) -> bool:
        """Whether an object of that name lies there."""
        from wds_tools.sources import fsspec

        return fsspec.exists(self.named(name), self.remote)

    def read(self, name: str) -> bytes:
        """The whole object."""
        from wds_tools.sources.resolve import open_source

        with open_source(self.named(name), remote=self.remote) as source:
            data = bytearray(source.size())
            source.read_into(0, memoryview(data))
        return bytes(data)

    def names(self) -> list[str]:
        """The names of all objects that lie there."""
        return list(self.sizes())

    def sizes(self) -> dict[str, int]:
        """The bytes of each object that lies there, by name."""
        from wds_tools.sources import fsspec

        return fsspec.sizes(self.base, self.remote)


def is_remote(text: str) -> bool:
    """Whether a target is a url of a store, and no path.

    Raises:
        UsageError: a web server, which nobody can write to.
    """
    kind = scheme(text)
    if kind in _WEB:
        raise UsageError(
            "web servers are not written to", url=text, cure="Write to a folder that they serve, or to a store: s3://"
        )
    return kind is not None and kind != "file"  # a file url is refused as a path: its percent signs are no patterns


def parse_target(pattern: str | os.PathLike[str], *, listing: str | None, remote: Remote | None = None) -> Target:
    """The target that a pattern names: a path, or the url of a store.

    Raises:
        UsageError: a pattern that cannot be (`target.parse_pattern`), or a web server, which nobody can write to.
    """
    text = os.fspath(pattern)
    if not is_remote(text):
        return parse_pattern(text, listing=listing)
    name = text.rpartition("/")[2]
    return RemoteTarget(
        folder=Path(tempfile.gettempdir()) / f"{_STAGING}{secrets.token_hex(8)}",
        base=text.removesuffix(name),
        remote=remote or Remote(),
        listing=listing,
        **parse_names(name, text, listing=listing)._asdict(),
    )


class _Staging(Claim):
    """A writer's hold on the folder where it makes its shards."""

    def __init__(self, folder: Path) -> None:
        self._folder: Path | None = None  # until it is held: what fails to hold it releases it, and must not remove it
        super().__init__(folder, [_LOCK])
        self._folder = folder

    def release(self) -> None:
        """Remove the folder. Twice does nothing."""
        super().release()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _clear_abandoned(own: Path) -> None:
    """Remove the folders of writers that were killed: those whose lock nobody holds."""
    with contextlib.suppress(OSError):
        for folder in own.parent.glob(f"{_STAGING}*"):
            with contextlib.suppress(TargetError, UnavailableError, OSError):
                if folder != own and time.time() - folder.stat().st_mtime > _ABANDONED_S:
                    _Staging(folder).release()
