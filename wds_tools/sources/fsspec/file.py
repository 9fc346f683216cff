"""An object that fsspec opens, as a Source: positioned reads that fill their buffer or raise, from any thread.

Each read is one request for a part. An answer that is too short is asked for again and is never taken for the end: the
end is where the store says it is. All parts are of one object, or reading is an error (`ranges` says how that is
known). The description (url and options) pickles, and works in forked and spawned processes alike.
"""

from __future__ import annotations

from typing import Any, Self

from wds_tools.errors import ShardChangedError, TruncatedShardError, public
from wds_tools.sources.fsspec.asking import ask, host_of
from wds_tools.sources.fsspec.ranges import ANEW, ObjectFacts, look, read_part
from wds_tools.sources.fsspec.systems import System, form_of
from wds_tools.sources.http.hosts import wake
from wds_tools.sources.http.retry import Fault
from wds_tools.sources.options import Remote

__all__ = ["FsspecFile", "open_fsspec"]


class FsspecFile:
    """An object that fsspec opens. Making one asks nothing; the first need of a byte or of the size does.

    Args:
        url: its address, such as s3://bucket/train-000000.tar.
        remote: how it is asked for; `storage` has the options of its file system.
        size: bytes that it must have, as a listing knows; None where nobody knows.
        version: the `version` that it must have, as a cache knows.
    """

    def __init__(
        self, url: str, *, remote: Remote | None = None, size: int | None = None, version: str | None = None
    ) -> None:
        self._url = url
        self._remote = remote or Remote()
        self._facts = ObjectFacts(size=size, version=version)
        self._closed = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({public(self._url)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self._url, self._remote, self._facts.size, self._facts.version)

    @property
    def url(self) -> str:
        """The address as the user or the listing gave it."""
        return self._url

    @property
    def version(self) -> str | None:
        """What another object under this url would not have: ETag, checksum or time; None before the first answer."""
        return self._facts.version

    @property
    def limited(self) -> bool:
        """Whether the store has asked for fewer requests in this process in the last ten minutes."""
        return host_of(self._url).limited

    def expect(self, *, size: int | None = None, version: str | None = None) -> Self:
        """State what the object must be. Answers that contradict are a ShardChangedError. Returns self."""
        self._note(ObjectFacts(size=size, version=version))
        return self

    def size(self) -> int:
        """Bytes in all, as stated or as the store says.

        Raises:
            ShardMissingError: nothing lies there.
            UnavailableError: permission, or the network, after all retries.
        """
        while (size := self._facts.size) is None:
            self._note(ask(self._url, self._remote, self._look, closed=self._is_closed))
        return size

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` from `offset` on.

        Raises:
            TruncatedShardError: the object ends before.
            ShardChangedError: another object lies there than before.
            ShardMissingError: none does.
            UnavailableError: permission, or the network, after all retries.
        """
        length = len(buffer)
        if not length:
            return
        self._refuse_beyond(offset, length)
        part = range(offset, offset + length)

        def read(system: System, path: str) -> bytes:
            data, facts = read_part(system, path, part, known=self._facts, remote=self._remote)
            self._note(facts)
            self._refuse_beyond(offset, length)
            if len(data) != length:
                raise Fault(f"the store sends {len(data):,} bytes in place of {length:,}")
            return data

        buffer[:] = ask(self._url, self._remote, read, offset=offset, closed=self._is_closed)

    def announce(self, offset: int, length: int) -> None:
        """Nothing: a store cannot be told."""

    def close(self) -> None:
        """End what other threads wait for here, which then raise. Twice does nothing.

        Of file systems that are not asynchronous (sftp, hdfs) a request goes on until they end it themselves.
        """
        self._closed = True
        wake()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _is_closed(self) -> bool:
        return self._closed

    def _look(self, system: System, path: str) -> ObjectFacts:
        return look(system, path, self._remote)

    def _note(self, found: ObjectFacts) -> None:
        """Take in what an answer says, or raise where it is of another object."""
        known = self._facts
        for what, old, new in (("size", known.size, found.size), ("version", known.version, found.version)):
            if old is not None and new is not None and old != new:
                before, now = (f"{old:,}", f"{new:,}") if what == "size" else (str(old), str(new))
                raise ShardChangedError(
                    f"another object lies there than the one that was begun: its {what} was {before} and is {now}",
                    url=self._url,
                    cure=ANEW,
                )
        size = known.size if found.size is None else found.size
        self._facts = ObjectFacts(size=size, version=known.version or found.version)

    def _refuse_beyond(self, offset: int, length: int) -> None:
        size = self._facts.size
        if size is not None and offset + length > size:
            raise TruncatedShardError(
                f"it ends after {size:,} bytes, {offset + length:,} expected",
                url=self._url,
                offset=size,
                cure="It was cut or replaced: upload it again, or index it again with `wds index --force`",
            )


def _rebuild(kind: type[FsspecFile], url: str, remote: Remote, size: int | None, version: str | None) -> FsspecFile:
    return kind(url, remote=remote, size=size, version=version)


def open_fsspec(url: str, remote: Remote) -> FsspecFile:
    """The opener of all schemes that nothing else opens.

    Raises:
        UsageError: nobody knows the scheme, or its package is missing.
    """
    form_of(url)  # what cannot be opened is said now, and not at the first read
    return FsspecFile(url, remote=remote)
