"""What a path names below the served folder: an open file, or the index of a folder. Nothing outside is ever opened.

Links are followed as long as they end inside the folder. That is decided on the resolved name, and the resolved name is
then walked from the folder down without following anything, so that a link put there in between is refused and not
followed. The folder is looked up anew for each request: a dataset that is replaced as a whole is the new one.
"""

from __future__ import annotations

import errno
import html
import os
import stat
from collections.abc import Iterator, Sequence
from urllib.parse import quote

from wds_tools.serve.conditions import Facts
from wds_tools.serve.head import BadRequestError

__all__ = ["content_type", "index_page", "open_below"]

_TYPES = {
    "gz": "application/gzip",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "json": "application/json",
    "jsonl": "application/jsonl",
    "png": "image/png",
    "tar": "application/x-tar",
    "tgz": "application/gzip",
    "txt": "text/plain; charset=utf-8",
    "webp": "image/webp",
    "zst": "application/zstd",
}
_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENXIO, errno.EINVAL}
_STEP = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
# O_NONBLOCK: a named pipe without writer would block here for ever.
_LAST = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def open_below(root: str, names: Sequence[str]) -> tuple[int, os.stat_result]:
    """A descriptor of the file or folder that `names` lead to from `root` on, and its facts. The caller closes it.

    Args:
        root: the served folder, resolved.
        names: one below the other; none for the folder itself.

    Raises:
        BadRequestError: 404 missing, outside, or neither file nor folder; 403 not to be read; 503 too many open files.
    """
    try:
        descriptor = _walk(root, _inside(root, names))
    except (OSError, ValueError) as error:  # ValueError: a name that the system's encoding does not have
        raise _answer_to(error) from error
    facts = os.fstat(descriptor)
    if not (stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode)):
        os.close(descriptor)
        raise BadRequestError(404, "no such file")
    return descriptor, facts


def content_type(name: str) -> str:
    """Of the few kinds that lie beside shards; all else is bytes."""
    return _TYPES.get(name.rpartition(".")[2].lower(), "application/octet-stream")


def index_page(root: str, names: Sequence[str], descriptor: int) -> bytes:
    """A page with a link to each file and folder in the open folder, as far as it is served."""
    title = html.escape("/" + "".join(f"{_shown(name)}/" for name in names))
    rows = "".join(_rows(root, names, descriptor))
    up = '<tr><td><a href="../">../</a></td><td></td></tr>\n' if names else ""
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>\n'
        f"<body><h1>{title}</h1>\n<table>\n{up}{rows}</table>\n</body></html>\n"
    ).encode()


def facts_of(result: os.stat_result) -> Facts:
    """What conditions are held against."""
    return Facts(size=result.st_size, mtime_ns=result.st_mtime_ns, inode=result.st_ino)


def _inside(root: str, names: Sequence[str]) -> list[str]:
    resolved = os.path.realpath("/".join([root, *names]), strict=True)
    if os.path.commonpath([root, resolved]) != root:
        raise BadRequestError(404, "no such file")
    return [part for part in os.path.relpath(resolved, root).split("/") if part != "."]


def _walk(root: str, parts: Sequence[str]) -> int:
    if not parts:
        return os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    folder = os.open(root, _STEP & ~os.O_NOFOLLOW)
    try:
        for part in parts[:-1]:
            inner = os.open(part, _STEP, dir_fd=folder)
            os.close(folder)
            folder = inner
        return os.open(parts[-1], _LAST, dir_fd=folder)
    finally:
        os.close(folder)


def _answer_to(error: OSError | ValueError) -> BadRequestError:
    number = error.errno if isinstance(error, OSError) else errno.ENOENT
    if number in _GONE:
        return BadRequestError(404, "no such file")
    if number in {errno.EACCES, errno.EPERM}:
        return BadRequestError(403, "the server may not read this file")
    if number in {errno.EMFILE, errno.ENFILE}:
        return BadRequestError(503, "too many open files, try again")
    return BadRequestError(500, "the file cannot be read")


def _rows(root: str, names: Sequence[str], descriptor: int) -> Iterator[str]:
    with os.scandir(descriptor) as entries:
        found = sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)
        for entry in found:
            try:
                if entry.is_symlink():
                    _inside(root, [*names, entry.name])
                facts = entry.stat()
            except (OSError, BadRequestError):
                continue  # it leads out, or went away: it would not be served
            if stat.S_ISDIR(facts.st_mode):
                yield _row(entry.name, "/", "")
            elif stat.S_ISREG(facts.st_mode):
                yield _row(entry.name, "", f"{facts.st_size:,}")


def _row(name: str, slash: str, size: str) -> str:
    # "./" keeps a name with a colon from being taken for a url of its own.
    link = "./" + quote(os.fsencode(name)) + slash
    return f'<tr><td><a href="{link}">{html.escape(_shown(name))}{slash}</a></td><td align="right">{size}</td></tr>\n'


def _shown(name: str) -> str:
    return os.fsencode(name).decode(errors="replace")
