"""Class folders, the layout that ImageFolder users have: one folder a class, pictures in it at any depth.

Held in memory are the names as bytes and 8 bytes a file: 41 bytes measured for n01440764/n01440764_10026.JPEG, so 0.8
GB for 20 million (a list of str: 88 and 1.8 GB), and one directory's entries at a time while it is read.

- Classes are the folders' names, sorted, numbered from 0; or as `classes` says, so that a validation set has the
  numbers of its training set. A folder without pictures keeps its number, with a warning.
- A folder of the wrong level is refused. One too deep: more pictures lie beside the class folders than in them. One too
  high: all folders are named like splits (train, val, ...) and hold folders, no pictures. `classes` says that such
  names are classes after all.
- The key is the path below the root without the extension, dots in its last part replaced by `_`, since readers end a
  key at the first dot. Files that get the same key are refused when all has been read: how many, and the first pairs.
  `keys` gives numbers or hashes instead (shardwriter.keys).
- The field is the extension, lower-cased; `jpeg` stays `jpeg`, `jpe` and `jfif` become `jpg`. It is kept where the
  bytes are of another format, since readers go by the bytes and loaders by the name: what was asked for is there.
- Links to files and folders are followed, but not into a folder that they lie in. Hidden files and `__MACOSX` are left
  out, and so is what has no picture's extension and what lies outside the class folders: counted in `skipped`.
"""

from __future__ import annotations

import logging
import os
import shlex
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from shardwriter.inputs import tree
from shardwriter.inputs.base import BaseInput, digest, path_shown, read_file
from shardwriter.inputs.texts import Texts, in_letters
from shardwriter.keys import MOST_SHOWN, Keys, check_keys, equal_keys, fold, key_of, path_key
from wds_tools.codec import kind_of
from wds_tools.errors import UsageError
from wds_tools.sample import KEY, Sample

__all__ = ["ClassFolders", "check_folder", "class_folders", "empty_classes", "field_of"]

_log = logging.getLogger(__name__)

_ALIASES = {"jpe": "jpg", "jfif": "jpg"}
_MOST_REASONS = 50
"""Different extensions that are counted apart, so that a folder of numbered backups does not fill the memory."""

_SPLITS = frozenset({"train", "training", "val", "valid", "validation", "test", "testing", "dev", "eval", "holdout"})


class ClassFolders(BaseInput):
    """Pictures in class folders, as `class_folders` found them. An `Input`; picklable.

    Attributes:
        root: the folder of class folders.
        classes: the classes' names; the label is the place in it.
        skipped: reason to count of files that are left out.
    """

    def __init__(self, root: Path, classes: Sequence[str], *, keys: Keys = "path") -> None:
        self.root = root
        self._begin = os.path.join(root, "")  # noqa: PTH118 - of all paths: a Path costs ten times as much as joining
        self.classes = tuple(classes)
        self.skipped: Counter[str] = Counter()
        self._keys = check_keys(keys)
        self._names = Texts()
        self._firsts: list[int] = []
        """For each class in turn the place of its first picture."""

    def __len__(self) -> int:
        return len(self._names)

    @property
    def empty(self) -> tuple[str, ...]:
        """The classes without pictures."""
        ends = [*self._firsts[1:], len(self)]
        return tuple(name for name, begin, end in zip(self.classes, self._firsts, ends, strict=False) if begin == end)

    def begin_class(self) -> None:
        """What is added from now on belongs to the next class."""
        self._firsts.append(len(self))

    def add(self, name: str) -> None:
        """One more picture: its path below the root."""
        self._names.add(name)

    @property
    def renamed(self) -> bool:
        return self._keys != "path"

    def original(self, index: int) -> str:
        """The picture's path below the root."""
        return self._names[index]

    def name(self, index: int) -> str:
        return self._begin + self._names[index]

    def key(self, index: int) -> str:
        return key_of(self._keys, index, len(self), self._names[index], path_key)

    def label(self, index: int) -> int:
        """The number of the picture's class."""
        return bisect_right(self._firsts, index) - 1

    def sample(self, index: int) -> Sample:
        name = self._names[index]
        key = key_of(self._keys, index, len(self), name, path_key)
        return {KEY: key, field_of(name): read_file(self._begin + name), "cls": self.label(index)}

    def facts(self) -> Mapping[str, object]:
        return {"classes": list(self.classes)}

    def fingerprint(self) -> Mapping[str, object]:
        return {
            "input": "class folders",
            "source": str(self.root.absolute()),
            "samples": len(self),
            "names": digest(self._names.pieces()),
            "classes": digest(f"{name}\n".encode("utf-8", "surrogateescape") for name in self.classes),
            "keys": self._keys,
        }


def class_folders(
    root: str | os.PathLike[str],
    *,
    classes: Sequence[str] | None = None,
    keys: Keys = "path",
    progress: Callable[[int], object] | None = None,
) -> ClassFolders:
    """Read a folder of class folders; see the module for the rules. No picture is opened.

    Args:
        root: the folder.
        classes: the classes' names in the order of their labels; by default the folders' names, sorted.
        keys: what the samples are called: "path", "number" or "hash".
        progress: called with the number of pictures of each class when it has been read.

    Raises:
        UsageError: no folder, no class folders, no pictures, a folder of the wrong level, or a class folder that
            `classes` does not name.
        KeyRefusedError: files with the same key.
        UnavailableError: a folder that cannot be read.
    """
    root = check_folder(root)
    inside = tree.entries(root)
    folders = _classes(root, [entry.name for entry in inside if tree.is_folder(entry)], classes)
    found = ClassFolders(root, list(map(in_letters, folders)), keys=keys)
    if classes is None:
        _refuse_splits(root, folders)
    collisions = _Collisions(root, on=keys == "path")
    loose = [entry for entry in inside if not tree.is_folder(entry)]
    for entry in loose:
        found.skipped["hidden" if tree.is_hidden(entry.name) else "outside the class folders"] += 1
    for name in folders:
        found.begin_class()
        before = len(found)
        if (root / name).is_dir():
            _add_folder(found, name, [tree.identity(root)], collisions)
        if progress is not None:
            progress(len(found) - before)
    if not len(found):
        raise UsageError(
            f"no pictures in the {len(found.classes)} class folders of {path_shown(root)}{_shown(found.skipped)}",
            cure="Pictures are known by their extension: jpg, png, webp and so on.",
        )
    collisions.check()
    _refuse_loose(found, sum(_why_not(entry) is None for entry in loose))
    if found.empty:
        _log.warning("%s: %s", path_shown(root), empty_classes(found.empty))
    return found


def empty_classes(names: Sequence[str]) -> str:
    """What to say about classes without pictures."""
    shown = ", ".join(map(repr, names[:MOST_SHOWN])) + (", ..." if len(names) > MOST_SHOWN else "")
    return f"{len(names):,} {'class has' if len(names) == 1 else 'classes have'} no pictures: {shown}"


def check_folder(root: str | os.PathLike[str]) -> Path:
    """The source as a Path; UsageError where it is no folder."""
    root = Path(root)
    if not root.is_dir():
        problem = "is no folder" if root.exists() else "does not exist"
        raise UsageError(
            f"the source {problem}: {path_shown(root)}", cure="Name a folder that holds one folder a class."
        )
    return root


def _classes(root: Path, folders: list[str], wanted: Sequence[str] | None) -> list[str]:
    """The folders of the classes in the order of their labels, those that are not there among them."""
    if not folders:
        raise UsageError(
            f"the source holds no class folders: {path_shown(root)}",
            cure="Put the pictures into one folder a class, such as cat/1.jpg and dog/2.jpg.",
        )
    if broken := [name for name in folders if "\n" in name]:
        raise UsageError(
            f"a class folder's name holds a line break: {broken[0]!r}", cure="Rename it: classes.txt has a name a line."
        )
    if wanted is None:
        return folders
    if len(set(wanted)) != len(wanted):
        raise UsageError("a class is named twice in classes", cure="Give each name once, in the order of the labels.")
    named = {in_letters(name): name for name in folders}
    if unknown := sorted(set(named) - set(wanted)):
        raise UsageError(
            f"{len(unknown)} folders in {path_shown(root)} are not among the {len(wanted)} classes given, "
            f"the first is {unknown[0]!r}",
            cure="Give the classes.txt of the same label set, or none.",
        )
    return [named.get(name, name) for name in wanted]


def _refuse_loose(found: ClassFolders, loose: int) -> None:
    """One level too deep, in cat/ of pictures/cat/: its odd sub folder would be the only class."""
    if loose > len(found):
        raise UsageError(
            f"most pictures of {path_shown(found.root)} lie outside its class folders: "
            f"{loose:,} of {loose + len(found):,}, and {len(found):,} in "
            f"{', '.join(map(repr, found.classes[:MOST_SHOWN]))}",
            cure=f"If {found.root.absolute().name!r} is a class itself, give the folder above, "
            f"{path_shown(found.root.absolute().parent)}; else move the pictures into class folders, or away.",
        )


def _refuse_splits(root: Path, names: Sequence[str]) -> None:
    """One level too high, in the folder of train/ and val/: these would be the classes."""
    if not all(name.lower() in _SPLITS for name in names):
        return
    inside = [entry for name in names for entry in tree.entries(root / name)]
    if any(_why_not(entry) is None for entry in inside) or not any(map(tree.is_folder, inside)):
        return
    first, *others = sorted(names, key=lambda name: not name.lower().startswith("train"))
    commands = [f"`wds pack {shlex.quote(path_shown(root / first))} out/{first}`"]
    commands += [
        f"`wds pack {shlex.quote(path_shown(root / name))} out/{name} --classes out/{first}/classes.txt`"
        for name in others
    ]
    raise UsageError(
        f"the folders of {path_shown(root)} look like splits that hold class folders: {', '.join(names)}",
        cure=f"Pack each on its own: {', then '.join(commands)}. If these are the classes, name them (--classes).",
    )


def _add_folder(found: ClassFolders, folder: str, above: list[tuple[int, int]], collisions: _Collisions) -> None:
    """Add the pictures of one directory and of those below it, in the order of their names."""
    path = found.root / folder
    here = tree.identity(path)
    if here in above:
        found.skipped["link to a folder that it lies in"] += 1
        return
    keys: dict[str, str] = {}
    for entry in tree.entries(path):
        name = f"{folder}/{entry.name}"
        if tree.is_folder(entry):
            _add_folder(found, name, [*above, here], collisions)
        elif (reason := _why_not(entry)) is not None:
            known = reason in found.skipped or len(found.skipped) < _MOST_REASONS
            found.skipped[reason if known else "no picture's extension, others"] += 1
        else:
            collisions.look(keys, name)
            found.add(name)


class _Collisions:
    """Files that would get the key of another, counted, and the first of them: all are mended in one go."""

    def __init__(self, root: Path, *, on: bool) -> None:
        self._root = root
        self._on = on
        self._count = 0
        self._first: list[tuple[str, str]] = []
        self._key: str | None = None

    def look(self, keys: dict[str, str], name: str) -> None:
        """Note the file; `keys` are those of its folder, unchanged in keys, so that only files in it can collide."""
        if not self._on:
            return
        key = path_key(name)
        other = keys.setdefault(fold(key), name)
        if other is not name:
            self._count += 1
            self._key = self._key or key
            if len(self._first) < MOST_SHOWN:
                self._first.append((str(self._root / other), str(self._root / name)))

    def check(self) -> None:
        if self._count:
            raise equal_keys(self._count, self._first, key=self._key)


def _why_not(entry: os.DirEntry[str]) -> str | None:
    """Why a directory entry is no picture to pack, None where it is one."""
    if tree.is_hidden(entry.name):
        return "hidden"
    extension = entry.name.rpartition(".")[2] if "." in entry.name else ""
    if kind_of(_field(extension)) != "picture":
        return f"no picture's extension, .{extension}" if extension else "no extension"
    # A broken link was meant to be a picture: it is kept, and reported when it cannot be read.
    return None if entry.is_file() or entry.is_symlink() else "no regular file"


def field_of(name: str) -> str:
    """The field of a file by its extension: `x.JPEG` -> `jpeg`."""
    return _field(name.rpartition(".")[2])


def _field(extension: str) -> str:
    extension = extension.lower()
    return _ALIASES.get(extension, extension)


def _shown(counts: Mapping[str, int]) -> str:
    return "" if not counts else "; left out: " + ", ".join(f"{count:,} {reason}" for reason, count in counts.items())
