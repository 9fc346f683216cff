"""What lies where in a store, and whole objects put there.

An object store shows an object when all of it has arrived; other file systems (sftp, hdfs) show a file while it grows.
So there an object gets a temporary name first, that of every unfinished file (`.NAME.<random>.tmp`), and is renamed.
S3 takes one request of up to 5 GiB, whose body is read from the disk as it is sent: nothing has to be taken back when
it breaks off or the process is killed, as the parts of a multi-part upload would have to be.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import posixpath
import secrets
from pathlib import Path
from typing import Any

from wds_tools.errors import TargetError, UnavailableError, UsageError
from wds_tools.sources.fsspec.asking import ask, within
from wds_tools.sources.fsspec.ranges import look
from wds_tools.sources.fsspec.refusals import code_of
from wds_tools.sources.fsspec.systems import System
from wds_tools.sources.http.retry import Fault
from wds_tools.sources.options import Remote

__all__ = ["exists", "glob", "names", "put", "remove", "size", "sizes"]

_WHOLE = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "hf", "oss", "oci", "tos", "cos"}
"""Schemes of stores, which show whole objects only."""
_S3 = {"s3", "s3a"}
_ONE_REQUEST = 5 << 30
_TAKEN = {"PreconditionFailed", "412", "ConditionalRequestConflict", "409"}
_MAGIC = frozenset("*?[")


def exists(url: str, remote: Remote | None = None) -> bool:
    """Whether a file lies at `url`; a folder is none.

    Raises:
        UnavailableError: permission, or the network, after all retries.
    """
    remote = remote or Remote()

    def request(system: System, path: str) -> bool:
        try:
            look(system, path, remote)
        except (FileNotFoundError, IsADirectoryError):
            return False
        return True

    return ask(url, remote, request)


def size(url: str, remote: Remote | None = None) -> int:
    """Bytes of the file at `url`.

    Raises:
        ShardMissingError: nothing lies there.
        UnavailableError: permission, or the network, after all retries.
    """
    remote = remote or Remote()
    found = ask(url, remote, lambda system, path: look(system, path, remote)).size
    return found or 0


def glob(url: str, remote: Remote | None = None) -> list[str]:
    """The files that a pattern matches (`*`, `?`, `[...]`, `**` for folders), sorted; as urls that begin as it does.

    Raises:
        UsageError: a pattern that the file system does not know.
        UnavailableError: permission, or the network, after all retries.
    """
    remote = remote or Remote()
    base = url[: next((at for at, sign in enumerate(url) if sign in _MAGIC), len(url))].rpartition("/")[0]

    def request(system: System, path: str) -> list[str]:
        system.fs.invalidate_cache(system.path(base))
        try:
            found = system.call("glob", path, detail=True, within_s=remote.give_up_s)
        except ValueError as error:
            raise UsageError(f"this is no pattern: {error}", url=url, cure="`**` stands for folders, alone") from error
        below = system.path(base).rstrip("/") + "/"
        files = sorted(name for name, info in found.items() if info.get("type") == "file")
        return [f"{base}/{name.removeprefix(below)}" for name in files if name.startswith(below)]

    return ask(url, remote, request)


def names(url: str, remote: Remote | None = None) -> list[str]:
    """The names of the files in the folder at `url`, sorted; none where there is no such folder. Raises as `sizes`."""
    return list(sizes(url, remote))


def sizes(url: str, remote: Remote | None = None) -> dict[str, int]:
    """The bytes of each file in the folder at `url`, by name in order; none where there is no such folder.

    Raises:
        UnavailableError: permission, or the network, after all retries; there is no such bucket.
    """
    remote = remote or Remote()

    def request(system: System, path: str) -> dict[str, int]:
        system.fs.invalidate_cache(path)
        try:
            found = system.call("ls", path, detail=True, within_s=remote.give_up_s)
        except FileNotFoundError as error:
            if code_of(error) == "NoSuchBucket":
                raise
            return {}
        files = {str(info["name"]): int(info["size"] or 0) for info in found if info.get("type") == "file"}
        return {posixpath.basename(name): files[name] for name in sorted(files) if name.strip("/") != path.strip("/")}

    return ask(url, remote, request)


def remove(url: str, remote: Remote | None = None) -> None:
    """Remove the file at `url`; that there is none is no error.

    Raises:
        UnavailableError: permission, or the network, after all retries.
    """

    def request(system: System, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            system.call("rm_file", path, within_s=(remote or Remote()).give_up_s)

    ask(url, remote or Remote(), request)


def put(url: str, path: Path, remote: Remote | None = None) -> None:
    """Put the local file `path` at `url`: wholly, or not at all. Nothing may lie there.

    Raises:
        TargetError: something lies there.
        UnavailableError: permission, or the network, after all retries; the store kept another number of bytes.
    """
    remote = remote or Remote()
    length = path.stat().st_size
    tries = 0

    def request(system: System, place: str) -> None:
        nonlocal tries
        tries += 1
        if tries > 1 and _kept(system, place, remote) == length:
            return  # the attempt before came through, only its answer was lost
        try:
            _put(system, place, path, length, remote)
        except OSError as error:
            if isinstance(error, FileExistsError) or code_of(error) in _TAKEN:
                cure = "Let one writer at a time work on these names"
                raise TargetError("the name was taken in the meantime", url=url, cure=cure) from error
            raise

    ask(url, remote, request)
    kept = size(url, remote)
    if kept != length:
        raise UnavailableError(
            f"the store has kept {kept:,} of {length:,} bytes", url=url, cure="Remove that object and write it again"
        )


def _kept(system: System, place: str, remote: Remote) -> int | None:
    """Bytes of what lies there, None for nothing."""
    try:
        return look(system, place, remote).size
    except FileNotFoundError:
        return None


def _put(system: System, place: str, path: Path, length: int, remote: Remote) -> None:
    if system.scheme in _S3 and length <= _ONE_REQUEST:
        system.run(_put_object, system.fs, place, path, length, remote, within_s=_for_all(remote, length))
        return
    if _kept(system, place, remote) is not None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), place)
    if system.scheme in _WHOLE:
        system.call("put_file", str(path), place, within_s=_for_all(remote, length))
        return
    folder, _, name = place.rpartition("/")
    temporary = f"{folder}/.{name}.{secrets.token_hex(4)}.tmp"
    try:
        system.call("put_file", str(path), temporary, within_s=_for_all(remote, length))
        system.fs.mv(temporary, place)
    except BaseException:
        with contextlib.suppress(Exception):  # it may never have come to be
            system.call("rm_file", temporary, within_s=remote.stall_s)
        raise


async def _put_object(fs: Any, place: str, path: Path, length: int, remote: Remote) -> None:
    """One request that makes the object where there is none. Ended when the store takes no bytes for `stall_s`."""
    bucket, key, _ = fs.split_path(place)
    with path.open("rb") as file:
        request = {"Bucket": bucket, "Key": key, "Body": file, "ContentLength": length, "IfNoneMatch": "*"}
        sending = asyncio.ensure_future(fs._call_s3("put_object", fs.req_kw, **request))  # noqa: SLF001
        before = -1
        try:
            while not (await asyncio.wait({sending}, timeout=remote.stall_s))[0]:
                if file.tell() == before:
                    raise Fault("the store has stopped taking what is sent")
                before = file.tell()
        finally:
            sending.cancel()
            await asyncio.wait({sending})
        sending.result()


def _for_all(remote: Remote, length: int) -> float:
    return remote.give_up_s + within(remote, length)
