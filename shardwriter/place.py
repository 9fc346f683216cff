"""Where a run of packing goes: a folder, or a place in a store, beside which files are made and the journal lies here.

For a store that is a folder of the user's cache directory, `pack/` and a hash of the url and the part: the same call
finds it again after a kill, wherever the temporary folder has gone. It holds the journal, small files and two shards at
the most, and is removed when the run is whole.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

from shardwriter.parts import Part
from shardwriter.remote import RemoteTarget, is_remote
from shardwriter.target import Target, parse_names, parse_pattern
from wds_tools import addresses
from wds_tools.errors import public
from wds_tools.index.cache import default_cache_dir
from wds_tools.sources.options import Remote

__all__ = ["Place", "place_of"]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a run goes. Made by `place_of`.

    Attributes:
        home: where files are made and the journal lies; of a local place this is where everything goes.
        base: the url, with a slash at its end; None for a folder.
        remote: how the store is asked.
    """

    home: Path
    base: str | None = None
    remote: Remote = field(default_factory=Remote, repr=False)

    def __str__(self) -> str:
        return str(self.home) if self.base is None else public(self.base)

    def below(self, name: str) -> Place:
        """A folder in it."""
        base = None if self.base is None else f"{self.base}{name}/"
        return replace(self, home=self.home / name, base=base)

    def target(self, name: str, *, listing: str) -> Target:
        """The target of the shards `name`, such as "train-%06d.tar".

        Raises:
            UsageError: a name that cannot be.
        """
        if self.base is None:
            return parse_pattern(self.home / name, listing=listing)
        names = parse_names(name, self.base + name, listing=listing)
        return RemoteTarget(
            folder=self.home, base=self.base, remote=self.remote, lasting=True, listing=listing, **names._asdict()
        )

    def leave(self) -> None:
        """Remove what lies here of a run into a store that is whole."""
        if self.base is not None:
            shutil.rmtree(self.home, ignore_errors=True)


def place_of(out: str | os.PathLike[str], remote: Remote | None = None, *, part: Part | None = None) -> Place:
    """The place that a path or a url names. Parts on their way into a store have folders of their own here.

    Raises:
        UsageError: nothing, or a url that nobody can write to.
    """
    text = addresses.given(out, "out")
    if not is_remote(text):
        return Place(home=Path(text))
    base = text if text.endswith("/") else text + "/"
    home = (default_cache_dir() or Path(tempfile.gettempdir())) / "pack"
    name = base if part is None else f"{base} {part[0]} of {part[1]}"
    return Place(
        home=home / hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:16],
        base=base,
        remote=remote or Remote(),
    )
