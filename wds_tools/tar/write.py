"""The writer's half of the tar format: the bytes around a member's data.

A header is one ustar block where name and size fit into it, which every reader of 35 years understands; it is the
same, byte for byte, that tarfile writes in its USTAR format. Else a PAX
extension (two more blocks, seldom three) carries what does not fit: names beyond ustar's 100 bytes (or 155 + 100, cut
at a slash), names that are not ASCII, sizes of 8 GiB and more. Bytes depend on the arguments alone: owner 0/0 without
names, mtime 0 and mode 0644 unless given.

An archive ends with two zero blocks (END). It is not filled up to a multiple of 10,240 bytes, as `tar` does for tape
drives: GNU tar, bsdtar, tarfile and DALI read it silently without, and a shard's size is then what its samples need.
"""

from __future__ import annotations

from zlib import adler32

from wds_tools.errors import KeyRefusedError, shown
from wds_tools.tar.headers import BLOCK

__all__ = ["END", "member_header", "padding"]

END = bytes(2 * BLOCK)
"""What ends an archive."""

_LARGE = 1 << 33
_PAX_NAME = b"././@PaxHeader"
# Name, mode, owner, group, size, mtime; and what follows the checksum: type, link, magic, names, device, prefix, rest.
_ZERO = b"0000000\x00"
_HEAD = b"%b%07o\x00" + 2 * _ZERO + b"%011o\x00%011o\x00"
_TAIL = b"%b" + bytes(100) + b"ustar\x00" + b"00" + bytes(64) + bytes(16) + b"%b" + bytes(12)


def padding(size: int) -> bytes:
    """The zeros that fill the last block of `size` bytes of data."""
    return bytes(-size % BLOCK)


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
        KeyRefusedError: a name that is empty, holds NUL, ends with a slash, or has surrogates that stand for no byte.
        ValueError: a number beyond its range.
    """
    raw = _name_bytes(name)
    if not (0 <= size < 1 << 62 and 0 <= mode < 1 << 21 and 0 <= mtime < _LARGE):
        raise ValueError(f"size {size}, mode {mode:#o} or mtime {mtime} of the member {shown(name)} is out of range")
    if raw.isascii() and size < _LARGE:
        if len(raw) <= 100:
            return _block(raw, size, mode, mtime)
        if (slash := _cut(raw)) > 0:
            return _block(raw[slash + 1 :], size, mode, mtime, prefix=raw[:slash])
    records = _records(raw, size)
    extension = _block(_PAX_NAME, len(records), 0o644, 0, kind=b"x") + records + padding(len(records))
    return extension + _block(raw[:100], size if size < _LARGE else 0, mode, mtime)


def _name_bytes(name: str) -> bytes:
    try:
        raw = name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise KeyRefusedError(
            f"the member name {shown(name)} cannot be written as UTF-8", cure="Choose a name without surrogates."
        ) from error
    if not raw or 0 in raw or raw.endswith(b"/"):  # GNU tar takes the last for a folder, tarfile drops the slash
        raise KeyRefusedError(
            f"the member name {shown(name)} is empty, holds NUL or ends with a slash", cure="Choose another name."
        )
    return raw


def _cut(raw: bytes) -> int:
    """The first slash with a prefix of 1 to 155 bytes before and a name of 1 to 100 behind; 0 where there is none."""
    return max(raw.find(b"/", max(1, len(raw) - 101), min(156, len(raw) - 1)), 0)


def _records(raw: bytes, size: int) -> bytes:
    records = b""
    if len(raw) > 100 or not raw.isascii():
        records += _binary(raw) + _record(b"path", raw)
    if size >= _LARGE:
        records += _record(b"size", b"%d" % size)
    return records


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


def _block(name: bytes, size: int, mode: int, mtime: int, *, prefix: bytes = b"", kind: bytes = b"0") -> bytes:
    head = _HEAD % (name.ljust(100, b"\x00"), mode, size, mtime)
    tail = _TAIL % (kind, prefix.ljust(155, b"\x00"))
    # adler32's low half is one more than the byte sum; the checksum counts its own field as eight spaces.
    checksum = (adler32(tail, adler32(head)) & 0xFFFF) - 1 + 8 * 32
    return b"%b%06o\x00 %b" % (head, checksum, tail)
