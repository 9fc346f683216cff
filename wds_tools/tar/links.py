"""Hard and symbolic links inside one archive.

A link in a shard stands for the data of another member, in front of it or behind it. Only members of the same archive
are ever its target: what a link names is looked up among their names, never on a disk. A hard link names a member by
its path in the archive; a symbolic link is taken from the folder of the link's own name. Later members of one name win.

The names are collected once, when the first link is asked for: headers only, some 300 bytes of memory a member.
"""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Callable, Iterable

from wds_tools.errors import DataError, MemberError, shown
from wds_tools.sample import BytesLike
from wds_tools.tar.walk import Member

__all__ = ["Targets"]

_MAX_HOPS = 16
_CURE = "Pack the shard again with the files in place of the links (tar --dereference --hard-dereference)."


class Targets:
    """Looks up what links stand for.

    Args:
        members: walks over the members of the archive; called once, when it is needed.
        read: gives the bytes from an offset on, so many.
    """

    def __init__(self, members: Callable[[], Iterable[Member]], read: Callable[[int, int], BytesLike]) -> None:
        self._members = members
        self._read = read
        self._found: dict[str, Member] | None = None

    def data(self, link: Member) -> BytesLike:
        """The data of the member that a link leads to.

        Raises:
            MemberError: it leads nowhere, out of the archive, in a circle, or to what is no plain file.
        """
        member = link
        for _ in range(_MAX_HOPS):
            if member.kind == "file":
                return self._read(member.data, member.size)
            if member.kind not in ("link", "symlink"):
                raise _refused(link, f"leads to a member of kind {member.kind!r}, not to a file")
            path = _target(member)
            if path.startswith("../") or path == "..":
                raise _refused(link, "leads out of the archive")
            target = self._lookup(path)
            if target is None:
                raise _refused(link, "leads to nothing in this archive")
            member = target
        raise _refused(link, "leads in a circle")

    def _lookup(self, path: str) -> Member | None:
        if self._found is None:
            found: dict[str, Member] = {}
            with contextlib.suppress(DataError):  # damage further on: whoever reads the shard through comes to it
                for member in self._members():
                    found[posixpath.normpath(member.name)] = member
            self._found = found  # whole at once: threads share it
        return self._found.get(path)


def _target(link: Member) -> str:
    folder = posixpath.dirname(link.name) if link.kind == "symlink" else ""
    return posixpath.normpath(posixpath.join(folder, link.link))


def _refused(link: Member, why: str) -> MemberError:
    what = "symbolic link" if link.kind == "symlink" else "hard link"
    return MemberError(f"the {what} {shown(link.name)} -> {shown(link.link)} {why}", offset=link.header, cure=_CURE)
