"""The writer's half of the tar format: the bytes around a member's data.

A header is one ustar block where name and size fit into it, which every reader of 35 years understands. Else a PAX
extension (two more blocks, seldom three) carries what does not fit: names beyond ustar's 100 bytes (or 155 + 100, cut
at a slash), names that are not ASCII, sizes of 8 GiB and more. Bytes depend on the arguments alone: owner 0/0 without
names, mtime 0 and mode 0644 unless given.

An archive ends with two zero blocks (END). It is not filled up to a multiple of 10,240 bytes, as `tar` does for tape
drives: GNU tar, bsdtar, tarfile and DALI read it silently without, and a shard's size is then what its samples need.
"""

from __future__ import annotations

from zlib import adler32

from wds_tools.errors import KeyRefusedError
from wds_tools.tar.headers import BLOCK

__all__ = ["END", "member_header", "padding", "stored_size"]

END = bytes(2 * BLOCK)
"""What ends an archive."""

_LARGE = 1 << 33
_PAX_NAME = b"././@PaxHeader"
_BLANK = 8 * 32


def padding(size: int) -> bytes:
    """The zeros that fill the last block of `size` bytes of data."""
    return bytes(-size % BLOCK)


def stored_size(name: str, size: int) -> int:
    """Bytes that a member takes in the archive: header, data and padding."""
    return len(member_header(name, size)) + size + -size % BLOCK


def member_header(name: str, size: int, *, mode: int = 0o644, mtime: int = 0) -> bytes:
    """The header of a regular file, extension included where one is needed.

    Args:
        name: the member's name. Surrogates from `surrogateescape` are written as the bytes they stand for.
        size: bytes of data that will follow.
        mode: permission bits, at most 0o7777777.
        mtime: seconds since 1970, at least 0 and below 2**33.

    Returns:
        A multiple of 512 bytes.

    Raises:
        KeyRefusedError: a name that is empty or holds NUL or surrogates that stand for no byte.
        ValueError: a number beyond its range.
    """
    raw = _name_bytes(name)
    if not (0 <= size < 1 << 62 and 0 <= mode < 1 << 21 and 0 <= mtime < _LARGE):
        raise ValueError(f"size {size}, mode {mode:#o} or mtime {mtime} of the member {ascii(name)} is out of range")
    if len(raw) <= 100 and size < _LARGE and raw.isascii():
        return _block(raw, b"", size, b"0", mode, mtime)
    folder, base = _split(raw)
    if base and size < _LARGE and raw.isascii():
        return _block(base, folder, size, b"0", mode, mtime)
    return _extension(raw, size, fits=bool(base)) + _block(
        raw[:100], b"", size if size < _LARGE else 0, b"0", mode, mtime
    )


def _name_bytes(name: str) -> bytes:
    try:
        raw = name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise KeyRefusedError(
            f"the member name {ascii(name)} cannot be written as UTF-8", cure="Choose a name without surrogates."
        ) from error
    if not raw or 0 in raw:
        raise KeyRefusedError(f"the member name {ascii(name)} is empty or holds NUL", cure="Choose another name.")
    return raw


def _split(raw: bytes) -> tuple[bytes, bytes]:
    """Prefix (at most 155 bytes) and name (1 to 100) with a slash between, or no name where they do not fit."""
    if len(raw) <= 100:
        return b"", raw
    slash = raw.rfind(b"/", 1, 156)
    base = raw[slash + 1 :]
    return (raw[:slash], base) if slash > 0 and len(base) <= 100 else (b"", b"")


def _extension(raw: bytes, size: int, *, fits: bool) -> bytes:
    records = b""
    if not fits or not raw.isascii():
        records += _binary(raw) + _record(b"path", raw)
    if size >= _LARGE:
        records += _record(b"size", b"%d" % size)
    return _block(_PAX_NAME, b"", len(records), b"x", 0o644, 0) + records + padding(len(records))


def _binary(raw: bytes) -> bytes:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return _record(b"hdrcharset", b"BINARY")
    return b""


def _record(keyword: bytes, value: bytes) -> bytes:
    """`<length> <keyword>=<value>` and a line break, where the length counts its own digits."""
    rest = len(keyword) + len(value) + 3
    length = rest + len(str(rest))
    length = rest + len(str(length))
    return b"%d %b=%b\n" % (length, keyword, value)


def _block(name: bytes, prefix: bytes, size: int, kind: bytes, mode: int, mtime: int) -> bytes:
    head = b"%b%07o\00000000\00000000\0%011o\0%011o\0" % (name.ljust(100, b"\0"), mode, size, mtime)
    tail = b"%b%bustar\00000%b%b%b" % (kind, bytes(100), bytes(64), b"0000000\0" * 2, prefix.ljust(167, b"\0"))
    checksum = (adler32(tail, adler32(head)) & 0xFFFF) - 1 + _BLANK
    return b"%b%06o\0 %b" % (head, checksum, tail)
