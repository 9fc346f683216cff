"""From a path alone to an input: for whoever has no options to give."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path

from shardwriter.inputs.array import array_file
from shardwriter.inputs.base import BaseInput
from shardwriter.inputs.flat import flat_folder
from shardwriter.inputs.folders import class_folders
from shardwriter.inputs.kinds import kind_of_source
from shardwriter.inputs.manifest import manifest_file
from shardwriter.inputs.recordio import recordio_files
from shardwriter.inputs.shards import open_shards
from shardwriter.inputs.tfrecord import tfrecord_files
from wds_tools import addresses

__all__ = ["nearest_folder", "open_input"]


def open_input(source: str | os.PathLike[str], *, temporary: Path | None = None) -> BaseInput:
    """What `wds pack SOURCE` without options packs.

    Args:
        source: a path, a pattern or a url.
        temporary: the folder on whose disk what has to be unpacked is unpacked; the system's by default.

    Raises:
        UsageError: it cannot be seen what it is, or what it is needs options; the message names the function to call.
        DataError, UnavailableError: it is damaged, or cannot be read.
    """
    path = os.fspath(source)
    return _MAKERS[kind_of_source(path)](path, temporary)


def _torch_file(path: str) -> BaseInput:
    made: BaseInput = importlib.import_module("shardwriter.inputs.torch").torch_file(path)  # the one that needs torch
    return made


_MAKERS: dict[str, Callable[[str, Path | None], BaseInput]] = {  # no "pattern": which field is which has to be said
    "folders": lambda path, _: class_folders(path),
    "flat": lambda path, _: flat_folder(path),
    "manifest": lambda path, temporary: manifest_file(path, temporary=temporary),
    "array": lambda path, _: array_file(path),
    "torch": lambda path, _: _torch_file(path),
    "shards": lambda path, temporary: open_shards(path, temporary=temporary),
    "tfrecord": lambda path, temporary: tfrecord_files(path, temporary=temporary),
    "recordio": lambda path, temporary: recordio_files(path, temporary=temporary),
}


def nearest_folder(out: str | os.PathLike[str] | None) -> Path | None:
    """The folder `out`, or the nearest one above it that exists; None for a place in a store."""
    if out is None or addresses.is_remote(os.fspath(out)):
        return None
    folder = Path(os.path.abspath(out))  # noqa: PTH100 - links stay
    while not folder.is_dir():
        folder = folder.parent
    return folder
