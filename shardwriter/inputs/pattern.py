"""One file a field, named by a pattern: pairs and triples of .pt or .npy files, pictures and masks in folders apart.

    pattern_files({"a": "train_A_images_{}.pt", "b": "train_B_images_{}.pt", "cls": "train_labels_{}.pt"})

- `{}` stands for the sample's id: any characters but a slash. Every pattern has exactly one, in its last part or in a
  folder's name ("{}/image.npy"). Samples are the ids that any required pattern has, in natural order (2 before 10).
- A sample that lacks one of its files is reported by that file's name, and not packed; a field with `?` behind its name
  may be missing.
- A field whose name says nothing about its content gets the file's extension: `a` becomes `a.pt`.
- Files of the field's own kind go into the shard unchanged, once they have been found to load: .pt files without
  running code (`weights_only`), .npy without pickles. Other kinds are converted: a label's tensor to the number that
  `cls` holds, `a.npy=..._{}.pt` to arrays, which loaders read a hundred times as fast as .pt, and `png=..._{}.npy` to
  pictures (uint8, channels last or first).

Held in memory are the ids as bytes and 8 bytes each, 13 MB a million; while folders are read, a list of the ids.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shardwriter.inputs import tree
from shardwriter.inputs.base import BaseInput, digest, path_shown, read_file
from shardwriter.inputs.folders import field_of
from shardwriter.inputs.texts import Texts
from shardwriter.inputs.values import Layout, check_layout, converted, extended
from shardwriter.keys import Keys, check_keys, key_of, refuse_equal
from wds_tools.errors import MissingFieldError, ShardstreamError, UsageError
from wds_tools.names import check_field
from wds_tools.sample import KEY, Sample

__all__ = ["PatternFiles", "pattern_files"]

_DIGITS = re.compile(r"(\d+)")


class _Pattern(NamedTuple):
    """A pattern, split at its id."""

    field: str
    optional: bool
    text: str
    before: str
    behind: str
    source: str
    """What the files' extension is, as a field's name."""

    def path(self, name: str) -> str:
        return f"{self.before}{name}{self.behind}"


class PatternFiles(BaseInput):
    """Files of one id, as `pattern_files` found them. Picklable."""

    def __init__(
        self, patterns: tuple[_Pattern, ...], ids: Texts, *, keys: Keys = "path", layout: Layout | None = None
    ) -> None:
        self._patterns = patterns
        self._ids = ids
        self._keys = check_keys(keys)
        self._layout = check_layout(layout)

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def renamed(self) -> bool:
        return self._keys != "path"

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields' full names."""
        return tuple(pattern.field for pattern in self._patterns)

    def original(self, index: int) -> str:
        return self._ids[index]

    def name(self, index: int) -> str:
        return self._patterns[0].path(self._ids[index])

    def key(self, index: int) -> str:
        return key_of(self._keys, index, len(self), self._ids[index], _id_key)

    def sample(self, index: int) -> Sample:
        name = self._ids[index]
        sample: Sample = {KEY: self.key(index)}
        for pattern in self._patterns:
            try:
                data = read_file(pattern.path(name))
            except FileNotFoundError as error:
                if pattern.optional:
                    continue
                raise MissingFieldError(
                    f"there is no {path_shown(pattern.path(name))}",
                    field=pattern.field,
                    cure=f"Add it, or name the field {pattern.field}? where it may be missing.",
                ) from error
            try:
                sample[pattern.field] = converted(data, pattern.source, pattern.field, self._layout)
            except ShardstreamError as error:
                raise error.at(url=pattern.path(name), field=pattern.field) from error.__cause__
        return sample

    def fingerprint(self) -> Mapping[str, object]:
        return {
            "input": "files by pattern",
            "patterns": [f"{each.field}{'?' * each.optional}={each.text}" for each in self._patterns],
            "source": str(Path.cwd()),
            "samples": len(self),
            "names": digest(self._ids.pieces()),
            "keys": self._keys,
            "layout": self._layout,
        }


def pattern_files(
    fields: Mapping[str, str],
    *,
    root: str | os.PathLike[str] = "",
    keys: Keys = "path",
    layout: Layout | None = None,
    progress: Callable[[int], object] | None = None,
) -> PatternFiles:
    """Find the samples of some patterns; see the module for the rules. No file is opened.

    Args:
        fields: a field's name, `?` behind it where it may be missing, to its pattern.
        root: what the patterns are relative to.
        keys: what the samples are called: "path" (their id), "number" or "hash".
        layout: where the channels of arrays lie that become pictures or `npy`: "chw" moves them to the end.
        progress: called with the number of files that each pattern has.

    Raises:
        UsageError: patterns without exactly one `{}`, without files, or without a common id.
        KeyRefusedError: ids with the same key.
        UnavailableError: a folder that cannot be read.
    """
    patterns = tuple(_pattern(field, text, root) for field, text in fields.items())
    required = [pattern for pattern in patterns if not pattern.optional]
    if not required:
        raise UsageError("no field is required", cure="Leave out the ? of at least one field.")
    if len({pattern.field for pattern in patterns}) < len(patterns):
        raise UsageError("two patterns would give the same field", cure="Name each field once.")
    ids = _all_ids(required, progress)
    found = PatternFiles(patterns, ids, keys=keys, layout=layout)
    if keys == "path":
        refuse_equal(len(found), found.key, found.name)
    return found


def _pattern(field: str, text: str, root: str | os.PathLike[str]) -> _Pattern:
    optional = field.endswith("?")
    before, mark, behind = text.partition("{}")
    if not mark or "{}" in behind:
        raise UsageError(
            f"the pattern of {field} must hold {{}} once, found {text!r}",
            cure="Write it as in a=train_A_images_{}.pt: {} stands for the sample's id.",
        )
    base = behind.rpartition("/")[2]
    source = field_of(base) if "." in base else ""
    name = extended(field.removesuffix("?").lower(), source)
    check_field(name)
    return _Pattern(name, optional, text, os.path.join(root, before), behind, source)  # noqa: PTH118 - text, not a Path


def _ids(pattern: _Pattern) -> Iterator[str]:
    """The ids that a pattern has files for, in no order."""
    folder, _, start = pattern.before.rpartition("/")
    end, slash, below = pattern.behind.partition("/")
    place = Path(f"{folder}/" if pattern.before.startswith("/") or folder else ".")
    if not place.is_dir():
        raise UsageError(
            f"the pattern of {pattern.field} lies in {path_shown(place)}, which is no folder",
            cure="Patterns are relative to the folder that is named, else to the working directory.",
        )
    for name in tree.names(place):  # not sorted, nor held: nine million entries would take 2 GB
        if name.startswith(start) and name.endswith(end) and len(name) > len(start) + len(end):
            found = name[len(start) : len(name) - len(end)]
            if not slash or os.path.lexists(place / name / below):
                yield found


def _all_ids(patterns: list[_Pattern], progress: Callable[[int], object] | None) -> Texts:
    """The ids of all patterns in natural order. Of the later patterns only those are kept that the first lacks."""
    names = list(_ids(patterns[0]))
    known = _hashes(names)
    _tell(patterns[0], len(names), progress)
    first = names[0]
    for pattern in patterns[1:]:
        others = _hashes(_ids(pattern))
        _tell(pattern, len(others), progress)
        odd = set(np.setdiff1d(others, known, assume_unique=True).tolist())
        if len(odd) == len(others):
            example = next(_ids(pattern))
            raise UsageError(
                f"the patterns of {patterns[0].field} and {pattern.field} have no id in common: "
                f"{first!r} is one of the first, {example!r} one of the second",
                cure="Put all that is the same for both into the pattern: the prefix, leading zeros, the extension.",
            )
        if odd:
            names += [name for name in _ids(pattern) if hash(name) in odd]
            known = np.union1d(known, np.fromiter(odd, np.int64, len(odd)))
    names.sort()  # so that 01 and 1 have an order
    names.sort(key=int if all(name.isascii() and name.isdecimal() for name in names) else _natural)
    ids = Texts()
    for name in names:
        ids.add(name)
    return ids


def _hashes(names: Iterator[str] | list[str]) -> npt.NDArray[np.int64]:
    return np.unique(np.frombuffer(array("q", map(hash, names)), dtype=np.int64))


def _tell(pattern: _Pattern, count: int, progress: Callable[[int], object] | None) -> None:
    if not count:
        raise UsageError(
            f"no file matches the pattern of {pattern.field}: {pattern.text!r}",
            cure="{} stands for the sample's id, all else is literal; * is no wildcard here.",
        )
    if progress is not None:
        progress(count)


def _natural(name: str) -> list[tuple[int, str]]:
    """Numbers in a name as numbers: img2 before img10."""
    return [(int(part) if at % 2 else 0, part) for at, part in enumerate(_DIGITS.split(name))]


def _id_key(name: str) -> str:
    return name.replace(".", "_")
