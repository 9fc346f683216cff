"""Which kind of input a path is, where nobody says it: by its name, and in folders by what lies in them.

Of a folder the first thousand entries are looked at, and the first hundred of each of its first ten folders. What could
be two things is refused with the words that decide it: a wrong guess would be found out after training.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias

from shardwriter.inputs.base import path_shown
from shardwriter.inputs.folders import field_of
from shardwriter.inputs.tree import is_hidden
from wds_tools import addresses
from wds_tools.codec import kind_of
from wds_tools.errors import UnavailableError, UsageError

__all__ = ["KINDS", "Kind", "kind_of_source"]

Kind: TypeAlias = Literal["folders", "flat", "manifest", "pattern", "array", "torch", "shards", "tfrecord", "recordio"]

KINDS: dict[Kind, str] = {
    "folders": "one folder a class",
    "flat": "files that belong together by name",
    "manifest": "a table with a row a sample",
    "pattern": "one file a field, by --field patterns",
    "array": "one .npy array of all samples",
    "torch": ".pt files that hold many samples",
    "shards": "existing shards",
    "tfrecord": "TFRecord files",
    "recordio": "MXNet RecordIO files",
}

_MOST, _INNER_FOLDERS, _INNER = 1000, 10, 100
_SIDECARS = frozenset({"text", "json", "int"})
_NUMBER = re.compile(r"\d+(?=\D*$)")


def kind_of_source(source: str) -> Kind:
    """The kind of input that a path, a pattern or a url is.

    Raises:
        UsageError: nothing is known by such a name, or it could be several things.
    """
    if addresses.scheme(source) is None and os.path.isdir(source):  # noqa: PTH112 - text that may be a pattern
        return _kind_of_folder(Path(source))
    named = _kind_by_name(source.rstrip("/"))
    if named is not None:
        return named
    if not os.path.lexists(source) and addresses.scheme(source) is None:
        raise UsageError(f"the source does not exist: {path_shown(source)}")
    raise UsageError(
        f"what {path_shown(source)} is cannot be seen from its name",
        cure=f"Say it with --input: {', '.join(KINDS)}. A .zip, .npz or .h5 file has to be unpacked first.",
    )


def _kind_by_name(name: str) -> Kind | None:
    name = name.lower()
    if name.endswith((*addresses.SHARD_SUFFIXES, ".json")):
        return "shards"
    base = name.rpartition("/")[2].removesuffix(".gz")
    endings: tuple[tuple[Kind, tuple[str, ...]], ...] = (
        ("manifest", (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".pq")),
        ("array", (".npy",)),
        ("torch", (".pt", ".pth")),
        ("recordio", (".rec",)),
    )
    if ".tfrecord" in base or ".tfrec" in base:
        return "tfrecord"
    return next((kind for kind, known in endings if base.endswith(known)), None)


def _kind_of_folder(folder: Path) -> Kind:
    files, folders = _look(folder, _MOST)
    named = {_kind_by_name(name) for name in files}
    pictures = any(_is(name, {"picture"}) for name in files)
    if "tfrecord" in named:
        return "tfrecord"
    if "recordio" in named:
        return "recordio"
    if any(addresses.is_shard_name(name) for name in files) and not pictures:
        return "shards"
    if folders:
        return _kind_of_folders(folder, folders, pictures=pictures)
    if pictures or any(_is(name, _SIDECARS) for name in files):
        return "flat"
    if patterns := _patterns(files):
        options = " ".join(f"--field {name}={pattern}" for name, pattern in patterns.items())
        raise UsageError(
            f"{path_shown(folder)} holds .pt or .npy files; which belong together has to be said",
            cure=f"Give a pattern a field, such as {options}; or --input torch where each holds many samples.",
        )
    raise UsageError(
        f"{path_shown(folder)} holds nothing that is known",
        cure="Pictures in class folders, pictures with sidecars, shards, TFRecord or RecordIO files are.",
    )


def _kind_of_folders(folder: Path, folders: list[str], *, pictures: bool) -> Kind:
    paired = False
    for name in folders[:_INNER_FOLDERS]:
        files, _ = _look(folder / name, _INNER)
        stems = {file.rpartition(".")[0] for file in files if _is(file, {"picture"})}
        paired |= any(_is(file, _SIDECARS) and file.rpartition(".")[0] in stems for file in files)
    if not paired:
        return "folders"
    beside = ", and pictures beside them" if pictures else ""
    raise UsageError(
        f"the folders in {path_shown(folder)} hold pictures with sidecars{beside}: they may be classes, or not",
        cure="Say --input folders (class_folders) for one folder a class, its sidecars left out, or --input flat "
        "(flat_folder) for both together.",
    )


def _look(folder: Path, most: int) -> tuple[list[str], list[str]]:
    """Names of some files and folders, hidden ones left out."""
    try:
        with os.scandir(folder) as entries:
            seen = [entry for entry in itertools.islice(entries, most) if not is_hidden(entry.name)]
            folders = sorted(entry.name for entry in seen if entry.is_dir())
            return sorted(entry.name for entry in seen if not entry.is_dir()), folders
    except OSError as error:
        raise UnavailableError(f"the folder {path_shown(folder)} cannot be read: {error.strerror}") from error


def _is(name: str, kinds: Iterable[str]) -> bool:
    return "." in name and kind_of(field_of(name)) in kinds


def _patterns(files: list[str]) -> dict[str, str]:
    """Field names to patterns for numbered files, at most three: train_A_7.pt -> train_a: train_A_{}.pt."""
    found: dict[str, str] = {}
    for name in files:
        if name.lower().endswith((".pt", ".pth", ".npy")) and _NUMBER.search(name):
            pattern = _NUMBER.sub("{}", name)
            found.setdefault(pattern.partition("{}")[0].strip("_-. ").lower() or "x", pattern)
    return dict(itertools.islice(found.items(), 3))
