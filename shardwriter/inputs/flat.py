"""Files that belong together by name: x.jpg, x.txt, x.json, x.cls in one folder, or in folders at any depth.

    with a.jpg, a.txt, b.jpg, b.txt:     flat_folder("pairs/")      two samples with jpg and txt

- A sample is what shares a folder and a stem, the name up to its last dot. A field is the extension, lower-cased, `jpe`
  and `jfif` as `jpg`. Longer fields are named: with `fields=("jpg", "seg.png")` x.seg.png is the field seg.png of x,
  and without it a sample x.seg of its own, which then lacks its other fields and is reported.
- `fields` says what a sample has: alternatives separated by `;`, and `?` behind what may be missing: ("jpg;png", "cls",
  "txt?"). Files with other extensions are left out and counted. Without it every extension is a field, pictures are
  alternatives of each other unless one sample has two of them, and all of these are required.
- A sample that lacks a field is reported by the name of the missing file, and not packed.
- Sidecars are checked to be what they say (`cls` a whole number, `txt` UTF-8, `json` JSON, `npy` and `pt` without code)
  and go into the shard unchanged.
- The key is the path below the root without the extension, dots in its last part replaced by `_` (shardwriter.keys).
- Hidden files and `__MACOSX` are left out. Links are followed, but not into a folder that they lie in.

Held in memory are the stems as bytes and 12 bytes a sample, and one directory's entries at a time.
"""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from shardwriter.inputs import tree
from shardwriter.inputs.base import BaseInput, digest, path_shown, read_file
from shardwriter.inputs.folders import field_of
from shardwriter.inputs.texts import Texts
from shardwriter.inputs.values import converted
from shardwriter.inputs.wanted import Wanted, wanted_fields
from shardwriter.keys import Keys, check_keys, key_of, refuse_equal
from wds_tools.codec import kind_of
from wds_tools.errors import MissingFieldError, UsageError, there_are
from wds_tools.sample import KEY, Sample

__all__ = ["FlatFolder", "flat_folder"]

_MOST_REASONS = 50


class FlatFolder(BaseInput):
    """Files grouped by their stems, as `flat_folder` found them. Picklable.

    Attributes:
        root: the folder.
        wanted: the fields of a sample, and which may be missing.
        skipped: reason to count of files that are left out.
    """

    def __init__(self, root: Path, *, keys: Keys = "path") -> None:
        self.root = root
        self.wanted: tuple[Wanted, ...] = ()
        self.skipped: Counter[str] = Counter()
        self._keys = check_keys(keys)
        self._stems = Texts()
        self._kinds = array("I")
        """For each sample the number of its tuple of endings in `_endings`."""
        self._endings: dict[tuple[str, ...], int] = {}
        self._rows: list[tuple[str, ...]] = []

    def __len__(self) -> int:
        return len(self._stems)

    @property
    def renamed(self) -> bool:
        return self._keys != "path"

    @property
    def fields(self) -> frozenset[str]:
        """All fields that some sample has."""
        return frozenset(_field(ending) for endings in self._rows for ending in endings)

    def add(self, stem: str, endings: tuple[str, ...]) -> None:
        """One more sample: its path below the root without extension, and the extensions as they are written."""
        number = self._endings.setdefault(endings, len(self._rows))
        if number == len(self._rows):
            self._rows.append(endings)
        self._stems.add(stem)
        self._kinds.append(number)

    def original(self, index: int) -> str:
        return self._stems[index]

    def name(self, index: int) -> str:
        endings = self._rows[self._kinds[index]]
        return f"{os.path.join(self.root, self._stems[index])}.{endings[0]}"  # noqa: PTH118 - 10 times as fast

    def key(self, index: int) -> str:
        return key_of(self._keys, index, len(self), self._stems[index], _stem_key)

    def sample(self, index: int) -> Sample:
        stem = self._stems[index]
        endings = {_field(ending): ending for ending in self._rows[self._kinds[index]]}
        sample: Sample = {KEY: self.key(index)}
        for wanted in self.wanted:
            field = next((name for name in wanted.names if name in endings), None)
            if field is not None:
                path = os.path.join(self.root, f"{stem}.{endings[field]}")  # noqa: PTH118 - as above
                sample[field] = converted(read_file(path), field, field)
            elif not wanted.optional:
                missing = " or ".join(f"{stem}.{name}" for name in wanted.names)
                raise MissingFieldError(
                    f"there is no {missing}",
                    field=wanted.names[0],
                    cure=f"Add it, remove {stem}.{next(iter(endings.values()))}, or name the field {wanted.names[0]}?.",
                )
        return sample

    def fingerprint(self) -> Mapping[str, object]:
        return {
            "input": "files by stem",
            "source": str(self.root.absolute()),
            "samples": len(self),
            "names": digest([*self._stems.pieces(), self._kinds.tobytes(), repr(self._rows).encode()]),
            "fields": [str(wanted) for wanted in self.wanted],
            "keys": self._keys,
        }


def flat_folder(
    root: str | os.PathLike[str],
    *,
    fields: Sequence[str] | None = None,
    keys: Keys = "path",
    progress: Callable[[int], object] | None = None,
) -> FlatFolder:
    """Read a folder of files that belong together by stem; see the module for the rules. No file is opened.

    Args:
        root: the folder.
        fields: the fields of a sample, such as ("jpg;png", "cls", "txt?"); what is found by default.
        keys: what the samples are called: "path", "number" or "hash".
        progress: called with the number of samples of each folder when it has been read.

    Raises:
        UsageError: no such folder, no samples in it, or fields that no file has.
        KeyRefusedError: samples with the same key.
        UnavailableError: a folder that cannot be read.
    """
    root = Path(root)
    if not root.is_dir():
        raise UsageError(f"the source {'is no folder' if root.exists() else 'does not exist'}: {path_shown(root)}")
    found = FlatFolder(root, keys=keys)
    wanted = None if fields is None else wanted_fields(fields)
    _add_folder(found, "", [], _Splitter(wanted), progress)
    if not len(found):
        left = ", ".join(f"{count:,} {reason}" for reason, count in found.skipped.items())
        raise UsageError(f"no samples in {path_shown(root)}{'; left out: ' + left if left else ''}")
    found.wanted = _found_fields(found) if wanted is None else wanted
    for each in found.wanted:
        if not each.optional and not found.fields.intersection(each.names):
            raise UsageError(
                f"no file in {path_shown(root)} has the field {each}",
                cure=there_are(sorted(found.fields)),
            )
    if keys == "path":
        refuse_equal(len(found), found.key, found.name)
    return found


class _Splitter:
    """Stem and ending of a file's name; None where no field is wanted of it."""

    def __init__(self, wanted: tuple[Wanted, ...] | None) -> None:
        names = {name for each in wanted or () for name in each.names}
        self._wanted = None if wanted is None else names
        self._long = sorted((f".{name}" for name in names if "." in name), key=len, reverse=True)

    def split(self, name: str) -> tuple[str, str] | None:
        lower = name.lower()
        for long in self._long:
            if lower.endswith(long) and len(name) > len(long):
                return name[: -len(long)], name[1 - len(long) :]
        stem, _, ending = name.rpartition(".")
        if not stem or not ending:
            return None
        return None if self._wanted is not None and _field(ending) not in self._wanted else (stem, ending)


def _add_folder(
    found: FlatFolder,
    folder: str,
    above: list[tuple[int, int]],
    splitter: _Splitter,
    progress: Callable[[int], object] | None,
) -> None:
    path = found.root / folder
    here = tree.identity(path)
    if here in above:
        found.skipped["link to a folder that it lies in"] += 1
        return
    stems: dict[str, list[str]] = {}
    folders: list[str] = []
    for entry in tree.entries(path):
        if tree.is_folder(entry):
            folders.append(f"{folder}{entry.name}/")
        elif tree.is_hidden(entry.name):
            found.skipped["hidden"] += 1
        elif not (entry.is_file() or entry.is_symlink()):
            found.skipped["no regular file"] += 1
        elif (parts := splitter.split(entry.name)) is None:
            _leave_out(found, entry.name)
        else:
            stems.setdefault(parts[0], []).append(parts[1])
    for stem, endings in stems.items():
        _refuse_twice(found, folder, stem, endings)
        found.add(folder + stem, tuple(endings))
    if progress is not None:
        progress(len(stems))
    for each in folders:
        _add_folder(found, each, [*above, here], splitter, progress)


def _leave_out(found: FlatFolder, name: str) -> None:
    ending = name.rpartition(".")[2] if "." in name else ""
    reason = f"no wanted field, .{ending}" if ending else "no extension"
    known = reason in found.skipped or len(found.skipped) < _MOST_REASONS
    found.skipped[reason if known else "no wanted field, others"] += 1


def _refuse_twice(found: FlatFolder, folder: str, stem: str, endings: list[str]) -> None:
    """x.jpg and x.JPG are one field twice."""
    seen: dict[str, str] = {}
    for ending in endings:
        if (other := seen.setdefault(_field(ending), ending)) is not ending:
            one, two = (path_shown(found.root / f"{folder}{stem}.{each}") for each in (other, ending))
            raise UsageError(f"two files would be the same field of one sample: {one} and {two}", cure="Remove one.")


def _found_fields(found: FlatFolder) -> tuple[Wanted, ...]:
    """Every field that there is, required; pictures stand for each other unless a sample has several."""
    pictures = sorted(field for field in found.fields if kind_of(field) == "picture")
    several = any(sum(_field(ending) in pictures for ending in endings) > 1 for endings in found._rows)  # noqa: SLF001
    rest = sorted(found.fields.difference(pictures))
    names = [*pictures, *rest] if several else [*([";".join(pictures)] if pictures else []), *rest]
    return wanted_fields(names)


def _field(ending: str) -> str:
    return field_of(ending) if "." not in ending else ending.lower()


def _stem_key(stem: str) -> str:
    folder, slash, base = stem.rpartition("/")
    return f"{folder}{slash}{base.replace('.', '_')}"
