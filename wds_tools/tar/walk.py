"""Members one by one, with everything that tar has become: extensions, ends, archives one behind the other.

`Walk` is the complete reader; `plain.plain_members` does the common case faster and leaves all else to it.

Where a shard ends:
- two zero blocks and then zeros: the end, silently;
- two zero blocks and then a valid header: another archive (`cat a.tar b.tar`). It is read on, since data that is
  there should not vanish; tarfile, webdataset and GNU tar without -i stop, so it is noted;
- two zero blocks and then anything else: the end, the rest noted as trailing bytes;
- one zero block and then a valid header: read on and noted; GNU tar and tarfile stop there. Anything else: damage;
- exactly at a member's end, or one zero block later: the end, noted, if the bytes are known to be whole (a file of
  that size, a compression with an end of its own); on other streams a cut, since a broken pipe looks the same;
- anywhere else: TruncatedShardError.

A global PAX header (`g`) is read for its form and its records are passed over: it carries comments and times in
practice, and a name or a size for all that follows would be lost to who reads samples by their offsets, so those are
refused. Positions are counted from the shard's start.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from wds_tools.errors import HeaderError, NotATarError, TruncatedShardError, shown
from wds_tools.sample import BytesLike
from wds_tools.sources.base import Source
from wds_tools.tar import headers
from wds_tools.tar.feed import BufferFeed, Feed, Readable, SourceFeed, StreamFeed
from wds_tools.tar.headers import BLOCK, ZERO
from wds_tools.tar.notes import ShardNotes

__all__ = ["Kind", "Member", "Walk", "walk", "walk_source", "walk_stream"]

Kind = Literal["file", "dir", "link", "symlink", "sparse", "other"]

_KINDS: dict[int, Kind] = {
    ord("1"): "link",
    ord("2"): "symlink",
    ord("5"): "dir",
    ord("S"): "sparse",
    # What POSIX and tarfile know as no file, and GNU's multi-volume, volume label and dump entries.
    **{ord(flag): "other" for flag in "346MVDN"},
}
_MAX_EXTENSIONS = 16
_SPARSE = b"GNU.sparse."


class Member(NamedTuple):
    """One entry of an archive."""

    name: str
    """UTF-8; other bytes as surrogates (`surrogateescape`)."""
    kind: Kind
    header: int
    """Offset of the first header block, extensions included."""
    data: int
    """Offset of the data."""
    size: int
    """Bytes of data as stored."""
    link: str
    """What a link names, else empty."""

    @property
    def stop(self) -> int:
        """Offset of what follows: the next header or the end."""
        return self.data + (self.size + BLOCK - 1) // BLOCK * BLOCK


class _Extended:
    """What extension headers said about the member that follows."""

    def __init__(self) -> None:
        self.name: bytes | None = None
        self.link: bytes | None = None
        self.pax: dict[bytes, bytes] = {}
        self.count = 0


class Walk:
    """Reads members in order from a feed.

    Args:
        feed: the bytes.
        notes: counts what is seen at ends; members are counted by who asks for them.
        position: where the next header is. May be moved forward between calls.
        whole: whether the feed's end is sure to be the shard's end, as it is for files.

    Attributes:
        end: where the last member ended, once `next` has given None.
    """

    def __init__(self, feed: Feed, notes: ShardNotes, *, position: int = 0, whole: bool = True) -> None:
        self.position = position
        self.end = position
        self.feed = feed
        self.notes = notes
        self._start = position
        self._whole = whole

    def next(self) -> Member | None:
        """The next member, or None at the end. Does not look at its data, which may be cut off (`check_end`).

        Raises:
            NotATarError: the first block is no header.
            HeaderError: a damaged or absurd header, an extension beyond the limits.
            TruncatedShardError: the bytes end inside headers.
        """
        self.end = self.position
        begin = self._skip_zeros()
        if begin is None:
            return None
        position = begin
        extended = _Extended()
        while True:
            block = self._block(position)
            header = headers.parse(block, url=self.feed.url, offset=position)
            flag = chr(header.kind)
            if flag not in "xXgLK":
                break
            self._extend(extended, flag, self._extension(header, position, extended))
            position += BLOCK + -(-header.size // BLOCK) * BLOCK
        member = self._member(begin, position, header, extended, block)
        self.position = member.stop
        return member

    def check_end(self, member: Member) -> None:
        """See that the feed has all of the member, its padding included.

        Raises:
            TruncatedShardError: it ends before.
        """
        end = self.feed.size
        if end is not None and member.stop > end:
            raise self._cut(end, f"inside the member {shown(member.name)} ({member.size} bytes from {member.data} on)")

    def _skip_zeros(self) -> int | None:
        """Where the next header is, behind zero blocks if there are any; None at the end."""
        begin = self.position
        block = self.feed.fill(begin, BLOCK)
        if len(block) >= BLOCK and block[0]:
            return begin  # a name: by far the most common
        if len(block) == 0:
            self._ended(begin)
            return None
        position, view = begin, bytes(block[:BLOCK])
        while view == ZERO:
            position += BLOCK
            view = bytes(self.feed.fill(position, BLOCK)[:BLOCK])
        zeros = (position - begin) // BLOCK
        if zeros == begin == 0:
            return begin  # less than one block in all
        self.position = position
        if not any(view):
            # Zeros to the very end, be it inside a block.
            if zeros < 2:
                self._unterminated(position)
            return None
        return self._behind_zeros(zeros, position, view)

    def _behind_zeros(self, zeros: int, position: int, view: bytes) -> int | None:
        if zeros < 2 or (len(view) == BLOCK and headers.valid_checksum(view)):
            if zeros == 1:
                self.notes.lone_zero_blocks += 1
            if zeros >= 2:
                self.notes.archives += 1
            return position  # bytes that are no header will be an error there
        self.notes.trailing_bytes = self._drain(position) - position
        return None

    def _drain(self, position: int) -> int:
        while len(view := self.feed.fill(position, 1)) > 0 and self.feed.size is None:
            position += len(view)
        return self.feed.size if self.feed.size is not None else position

    def _ended(self, position: int) -> None:
        end = self.feed.size
        if end is not None and end < position:
            raise self._cut(end, f"inside the data of a member that goes on to {position}")
        if position == 0:
            raise TruncatedShardError(
                "the shard is empty: 0 bytes",
                url=self.feed.url,
                offset=0,
                cure="Copy it again, or remove it from the list of shards.",
            )
        self._unterminated(position)

    def _unterminated(self, position: int) -> None:
        if not self._whole:
            raise self._cut(position, "without an end of archive (two zero blocks)")
        self.notes.unterminated = True

    def _block(self, position: int) -> memoryview:
        block = self.feed.fill(position, BLOCK)[:BLOCK]
        first = position == self._start == 0
        if first and not (headers.valid_checksum(block) if len(block) == BLOCK else 0 in bytes(block)):
            self._check_tar(block)
        if len(block) < BLOCK:
            raise self._cut(self.feed.size or position, f"where a header was expected at {position}")
        return block

    def _check_tar(self, block: memoryview) -> None:
        if bytes(block[257:262]) == b"ustar":
            return  # a tar with a damaged first header: the message about the checksum says more
        raise NotATarError(
            f"a tar archive was expected, found {bytes(block[:60])!r}",
            url=self.feed.url,
            offset=0,
            cure="Look at what lies there: an error page of a server, a file of another kind?",
        )

    def _extension(self, header: headers.Header, position: int, extended: _Extended) -> bytes:
        extended.count += 1
        if header.size > headers.MAX_EXTENSION or extended.count > _MAX_EXTENSIONS:
            raise HeaderError(
                f"an extension header of {header.size} bytes (number {extended.count} of one member); at most "
                f"{_MAX_EXTENSIONS} of {headers.MAX_EXTENSION} bytes are read",
                url=self.feed.url,
                offset=position,
                cure="The shard is damaged or hostile; pack it again with shorter names.",
            )
        data = self.feed.fill(position + BLOCK, header.size)[: header.size]
        if len(data) < header.size:
            raise self._cut(self.feed.size or position, f"inside the extension header at {position}")
        return bytes(data)

    def _extend(self, extended: _Extended, flag: str, data: bytes) -> None:
        if flag == "L":
            extended.name = data.partition(b"\0")[0]
        elif flag == "K":
            extended.link = data.partition(b"\0")[0]
        else:
            records = headers.parse_pax(data, url=self.feed.url, offset=self.position)
            if flag != "g":
                extended.pax = records
            elif not records.keys().isdisjoint((b"path", b"linkpath", b"size")):
                raise HeaderError(
                    "a global PAX header that sets a name or a size for all members",
                    url=self.feed.url,
                    offset=self.position,
                    cure="Pack the shard again without it.",
                )

    def _member(self, begin: int, position: int, header: headers.Header, more: _Extended, block: memoryview) -> Member:
        pax = more.pax
        kind = _KINDS.get(header.kind, "file")
        size = header.size
        if b"size" in pax and kind not in ("link", "symlink", "dir"):
            size = self._pax_size(pax[b"size"], begin)
        data = position + BLOCK
        if kind == "sparse":
            data = self._behind_sparse_map(data, block)
        elif kind == "file" and any(key.startswith(_SPARSE) for key in pax):
            kind = "sparse"
        name = pax.get(_SPARSE + b"name") or pax.get(b"path") or more.name or header.name
        link = pax.get(b"linkpath") or more.link or header.link
        links = kind in ("link", "symlink")
        return Member(headers.decode_name(name), kind, begin, data, size, headers.decode_name(link) if links else "")

    def _pax_size(self, digits: bytes, position: int) -> int:
        if not (digits.isdigit() and len(digits) < 20):
            raise HeaderError(
                f"a PAX size was expected, found {digits[:40]!r}",
                url=self.feed.url,
                offset=position,
                cure="The shard is damaged here, or its writer is: pack it again.",
            )
        return int(digits)

    def _behind_sparse_map(self, data: int, block: memoryview) -> int:
        """Where the data of an old GNU sparse member begin: its header says at 482 whether map blocks follow."""
        goes_on = block[482]
        while goes_on:
            more = self.feed.fill(data, BLOCK)[:BLOCK]
            if len(more) < BLOCK:
                raise self._cut(self.feed.size or data, f"inside the map of a sparse member at {data}")
            goes_on = more[504]
            data += BLOCK
        return data

    def _cut(self, end: int, where: str) -> TruncatedShardError:
        return TruncatedShardError(
            f"the shard ends at byte {end}, {where}",
            url=self.feed.url,
            offset=end,
            cure="It was cut while it was copied or written: copy it again, or make it again.",
        )


def walk(buffer: BytesLike, *, base: int = 0, url: str = "", notes: ShardNotes | None = None) -> Iterator[Member]:
    """The members of a whole archive in memory, or of a part that begins at a header. Nothing is copied.

    Args:
        buffer: the bytes.
        base: the offset of the first byte in the shard, which all offsets then are counted from.
        url: for messages.
        notes: takes what is to be said about the archive's end.

    Raises:
        ShardError: as Walk.next, and TruncatedShardError where the data of a member are cut.
    """
    return _members(Walk(BufferFeed(buffer, base=base, url=url), notes or ShardNotes(), position=base))


def walk_source(source: Source, *, notes: ShardNotes | None = None) -> Iterator[Member]:
    """The members of a shard, headers read only: the data are jumped over. See `walk`."""
    return _members(Walk(SourceFeed(source, skim=True), notes or ShardNotes()))


def walk_stream(
    stream: Readable, *, url: str = "", notes: ShardNotes | None = None, whole: bool = False
) -> Iterator[Member]:
    """The members of a binary stream, read through from its present place. See `walk`, and `Walk` for `whole`."""
    return _members(Walk(StreamFeed(stream, url=url), notes or ShardNotes(), whole=whole))


def _members(steps: Walk) -> Iterator[Member]:
    while (member := steps.next()) is not None:
        steps.check_end(member)
        yield member
