"""Where shards go: the numbered names, what already lies there, who else is writing there, what a killed run left.

A pattern is a path whose last part holds one number such as %06d, and ends in .tar. What it names belongs to one
writer at a time: while it writes, it holds a lock (flock) on `.NAME.lock` for the pattern and for the listing. The
kernel gives the lock back when a process dies, however it dies, so a second writer is refused while the first lives
and not after. Whoever holds the lock knows that temporary files of the same pattern are nobody's, and removes them.
Where the file system has no locks (some Lustre mounts), nothing is refused and nothing removed.

The folder must be free of shards of the pattern and of the listing. `overwrite=True` removes both, the listing first,
when the first sample is written: a listing never lists shards that are gone.

`shardwriter.remote` has the same for a store: what asks the file system here asks the store there.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from wds_tools.addresses import scheme
from wds_tools.errors import TargetError, UnavailableError, UsageError, counted
from wds_tools.index.listing import offsets_name

__all__ = ["Claim", "Names", "Target", "parse_names", "parse_pattern", "remove"]

_NUMBER = re.compile(r"%0?(\d*)d")
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}


class Names(NamedTuple):
    """The parts of a shard's name: before the number, its least number of digits, behind it (ends in .tar)."""

    prefix: str
    digits: int
    suffix: str


@dataclass(frozen=True, kw_only=True)
class Target:
    """The names that a writer uses. Made by `parse_pattern`.

    Attributes:
        folder: where files are made; of a local target this is where everything goes.
        prefix: of the shards' names, before the number.
        digits: the least number of digits; more are used when they are needed.
        suffix: of the shards' names, behind the number; ends in .tar.
        listing: the listing's name, None for no listing.
    """

    folder: Path
    prefix: str
    digits: int
    suffix: str
    listing: str | None

    @property
    def place(self) -> str:
        """Where everything goes, for messages and the listing's reader."""
        return str(self.folder)

    @property
    def pattern(self) -> str:
        """The shards' name with its number as a directive."""
        return f"{self.prefix}%0{self.digits}d{self.suffix}"

    @property
    def name(self) -> str:
        """What to call the dataset: the prefix without the separator, else the folder."""
        return self.prefix.strip("-_. ") or self.folder.absolute().name

    @property
    def offsets(self) -> str | None:
        """The name of the file of offsets that goes with the listing."""
        return None if self.listing is None else offsets_name(self.listing)

    def shard(self, number: int) -> Path:
        """Where shard `number` goes."""
        return self.folder / f"{self.prefix}{number:0{self.digits}d}{self.suffix}"

    def named(self, name: str) -> Path | str:
        """The path (in a store: the url) of a file of this target."""
        return self.folder / name

    def publish(self, name: str, *, replace: bool = False) -> None:
        """Bring the file `name`, which is whole in `folder`, to where everything goes. Here it is there already.

        Args:
            name: of the file.
            replace: whether one of that name may lie there.
        """

    def shards(self) -> list[str]:
        """The names of shards of this pattern that already lie in the folder, sorted."""
        return sorted(name for name in self.names() if self.is_shard(name))

    def leftovers(self, beside: Iterable[str] = ()) -> list[str]:
        """The names of temporary files of this pattern and listing, as a killed writer leaves them.

        Args:
            beside: further files whose temporary names count.
        """
        shard = rf"{re.escape(self.prefix)}\d+{re.escape(self.suffix)}"
        names = [re.escape(name) for name in (self.listing, self.offsets, *beside) if name is not None]
        left = re.compile(rf"\.(?:{'|'.join([shard, *names])})\.[0-9a-z_]+\.tmp")
        return sorted(name for name in self.names() if left.fullmatch(name))

    def check_free(self, *, overwrite: bool) -> None:
        """Read what lies there; nothing is changed.

        Raises:
            TargetError: shards of the pattern or the listing lie there; with `overwrite`, a listing of other shards.
        """
        shards = self.shards()
        listed = self.listing is not None and self.has(self.listing)
        if shards and not overwrite:
            stopped = "" if listed or self.listing is None else " of a run that was stopped, as there is no listing"
            raise TargetError(
                f"{self.place} already holds {counted(len(shards), 'shard')} of {self.pattern}{stopped}; "
                f"one is {shards[0]}",
                cure="Write to another folder, or pass overwrite=True (--overwrite) to remove them first.",
            )
        ours = self.listing is not None and listed and self._lists_ours(self.listing)
        if ours and not overwrite:
            raise TargetError(
                f"{self.place} already holds {self.listing}",
                cure="Write to another folder, or pass overwrite=True (--overwrite) to remove it first.",
            )
        if listed and not ours:
            raise TargetError(
                f"{self.place} already holds {self.listing}, the listing of other shards",
                cure="Write to another folder: one a dataset, such as out/train and out/val.",
            )

    def claim(self) -> Claim:
        """Hold the pattern and the listing; see there."""
        return Claim(self.folder, [self.pattern, *([] if self.listing is None else [self.listing])])

    def clear_leftovers(self, beside: Iterable[str] = ()) -> None:
        """Remove what a killed writer left. To be called by the holder of the claim only."""
        self.remove(self.leftovers(beside))

    def clear_dataset(self) -> None:
        """Remove the dataset that is to be replaced, its listing first. For the holder of the claim only."""
        self.remove(name for name in (self.listing, self.offsets) if name is not None)
        self.remove(self.shards())

    def remove(self, names: Iterable[str]) -> None:
        """Remove these files, where they are there.

        Raises:
            UnavailableError: one cannot be removed.
        """
        remove(self.folder / name for name in names)

    def has(self, name: str) -> bool:
        """Whether anything of that name lies there, a link that leads nowhere included."""
        return os.path.lexists(self.folder / name)

    def read(self, name: str) -> bytes:
        """The whole file.

        Raises:
            OSError: it cannot be read.
        """
        return (self.folder / name).read_bytes()

    def names(self) -> list[str]:
        """The names of all that lies there, in any order; none where there is no such folder.

        Raises:
            TargetError: it is a file; UnavailableError: it cannot be read.
        """
        try:
            return os.listdir(self.folder)  # noqa: PTH208 - names are wanted, a Path each is slow at 20,000 shards
        except FileNotFoundError:
            return []
        except NotADirectoryError as error:
            raise TargetError(
                f"the target {self.folder} is a file, a folder is needed", cure="Name another folder."
            ) from error
        except OSError as error:
            raise UnavailableError(f"the folder {self.folder} cannot be read: {error.strerror}") from error

    def sizes(self) -> dict[str, int]:
        """The bytes of each file that lies there, by name; none where there is no such folder."""
        try:
            with os.scandir(self.folder) as entries:
                return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise UnavailableError(f"the folder {self.folder} cannot be read: {error.strerror}") from error

    def is_shard(self, name: str) -> bool:
        """Whether a file's name is that of a shard of this pattern."""
        number = name.removeprefix(self.prefix).removesuffix(self.suffix)
        whole = len(name) == len(self.prefix) + len(number) + len(self.suffix)
        return whole and number.isascii() and number.isdecimal() and len(number) >= self.digits

    def _lists_ours(self, listing: str) -> bool:
        """Whether the listing lists nothing but shards of this pattern."""
        try:
            shards = json.loads(self.read(listing))["shardlist"]
            return all(self.is_shard(shard["url"]) for shard in shards)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return False


def parse_pattern(pattern: str | os.PathLike[str], *, listing: str | None) -> Target:
    """The target that a pattern such as "out/train-%06d.tar" names.

    Raises:
        UsageError: no number or several, a number without leading zeros, not .tar, a url instead of a path, a listing
            that is no plain name.
    """
    text = os.fspath(pattern)
    if scheme(text) is not None:
        raise UsageError("a path is wanted here, not a url", url=text, cure="Write the path.")
    folder, name = os.path.split(text)
    return Target(folder=Path(folder), **parse_names(name, text, listing=listing)._asdict(), listing=listing)


def parse_names(name: str, text: str, *, listing: str | None) -> Names:
    """What the last part of a pattern says, with the listing's name checked too.

    Args:
        name: the last part, such as "train-%06d.tar".
        text: the whole pattern, for messages.
        listing: the listing's name, None for none.

    Raises:
        UsageError: as for `parse_pattern`.
    """
    numbers = list(_NUMBER.finditer(name))
    if len(numbers) != 1 or not int(numbers[0][1] or 0) or numbers[0][0][1] != "0":
        raise UsageError(
            f"the name of the shards must hold one number with leading zeros, found {name!r}",
            url=text,
            cure='Write it as in "out/train-%06d.tar"; the zeros keep the names in order.',
        )
    prefix, suffix = name[: numbers[0].start()], name[numbers[0].end() :]
    if prefix.startswith("."):
        raise UsageError(
            f"{name!r} names hidden files, which no folder or glob finds", url=text, cure="Leave out the dot."
        )
    if not suffix.endswith(".tar"):
        raise UsageError(
            f"the name of the shards must end in .tar, found {name!r}",
            url=text,
            cure="Compressed shards cannot be indexed, and pictures are compressed already.",
        )
    if listing is not None and (not listing.endswith(".json") or "/" in listing or listing.startswith(".")):
        raise UsageError(f"listing is {listing!r}, expected a file name such as 'dataset.json', or None", url=text)
    return Names(prefix, int(numbers[0][1]), suffix)


def remove(paths: Iterable[Path]) -> None:
    """Remove these files, where they are there.

    Raises:
        UnavailableError: one cannot be removed.
    """
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise UnavailableError(f"{path} cannot be removed: {error.strerror}") from error


class Claim:
    """One writer's hold on some names in a folder, from construction to `release`.

    Args:
        folder: exists.
        names: for each a lock file `.NAME.lock` is made.

    Raises:
        TargetError: another writer lives there.
        UnavailableError: the folder cannot be written.
    """

    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        self.locked = True
        """Whether the file system knows locks: only then is a temporary file known to be nobody's."""
        self._held: list[tuple[Path, int]] = []
        try:
            for name in names:
                self._take(folder / f".{name}.lock")
        except BaseException:
            self.release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def release(self) -> None:
        """Give the target back. Twice does nothing."""
        while self._held:
            path, descriptor = self._held.pop()
            # Unlinked before it is unlocked: whoever waits for this file finds that it has no name, and makes its own.
            with contextlib.suppress(OSError):
                path.unlink()
            os.close(descriptor)

    def _take(self, path: Path) -> None:
        while True:
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except OSError as error:
                raise UnavailableError(f"the folder {path.parent} cannot be written: {error.strerror}") from error
            try:
                if self._lock(descriptor, path):
                    self._held.append((path, descriptor))
                    return
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _lock(self, descriptor: int, path: Path) -> bool:
        """Whether the lock is held and still has its name; False where its owner removed it in between."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TargetError(
                f"another writer is at work on {path.parent / path.name[1:].removesuffix('.lock')}",
                cure="Write to another folder, or wait until that writer has ended.",
            ) from error
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise UnavailableError(f"the folder {path.parent} cannot be locked: {error.strerror}") from error
            self.locked = False
            return True
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(path))  # noqa: PTH116 - the pair reads better alike
        except FileNotFoundError:
            return False
