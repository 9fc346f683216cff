"""The options that say what is packed, for every command that makes shards of something else.

    @click.command()
    @click.argument("source")
    @input_options
    def pack(source: str, ..., chosen: InputOptions) -> None:
        with make_input(source, chosen, temporary=out, progress=bar.advance) as samples:
            ...

The decorator takes its options away and hands over one `chosen`. Options that the kind of input has no use for are
refused, since a label column that is silently ignored would be found out in training.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from shardwriter.inputs.opening import nearest_folder
from wds_tools.errors import UsageError
from wds_tools.small import read_lines

if TYPE_CHECKING:
    from shardwriter.inputs.base import BaseInput
    from shardwriter.inputs.kinds import Kind
    from wds_tools.sources.options import Remote

__all__ = ["InputOptions", "Pair", "class_names", "input_options", "make_input"]

Command = TypeVar("Command", bound=Callable[..., Any])

_KINDS = ("folders", "flat", "manifest", "pattern", "array", "torch", "shards", "tfrecord", "recordio")


class Pair(click.ParamType[tuple[str, str]]):
    """NAME=VALUE."""

    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, sign, rest = str(value).partition("=")
        if not sign or not name or not rest:
            self.fail(f"{value!r} is no pair; write it as NAME=VALUE.", param, ctx)
        return name, rest


@dataclass(frozen=True, kw_only=True)
class InputOptions:
    """What the options say.

    Attributes:
        kind: which kind of input; None for what the source looks like.
        keys: what samples are called.
        said: the other options that were given, by name.
        remote: how remote hosts are asked.
    """

    kind: Kind | None
    keys: Any
    said: Mapping[str, Any]
    remote: Remote | None = None


class _Option(NamedTuple):
    kinds: frozenset[str]
    add: Callable[[Any], Any]


def _option(kinds: str, *declared: str, **more: Any) -> _Option:
    return _Option(frozenset(kinds.split()), click.option(*declared, **more))


_GENERAL = {
    "kind": click.option(
        "--input",
        "kind",
        type=click.Choice(_KINDS),
        help="What SOURCE is.  [default: what it looks like]",
    ),
    "keys": click.option(
        "--keys",
        type=click.Choice(["path", "number", "hash"]),
        default="path",
        show_default=True,
        help="What samples are called: by their path or name, their number, or a hash of their path.",
    ),
}
_SPECIAL = {
    "classes": _option(
        "folders manifest",
        "--classes",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A classes.txt to take the labels from, so that a validation set has those of its training set.",
    ),
    "fields": _option(
        "flat",
        "--fields",
        metavar="LIST",
        help="The fields of a sample in a flat folder: 'jpg;png,cls,txt?' (; one of, ? may be missing).",
    ),
    "patterns": _option(
        "pattern",
        "--field",
        "patterns",
        type=Pair(),
        multiple=True,
        metavar="FIELD=PATTERN",
        help="One file a field: a=train_A_{}.pt, {} being the sample's id; again for each field.",
    ),
    "columns": _option(
        "manifest tfrecord torch",
        "--column",
        "columns",
        type=Pair(),
        multiple=True,
        metavar="COLUMN=FIELD",
        help="A column (feature, name) that becomes a field: caption=txt; txt? leaves out an empty one.",
    ),
    "image": _option("manifest", "--image-column", "image", metavar="COLUMN", help="The column of pictures' paths."),
    "label": _option("manifest", "--label-column", "label", metavar="COLUMN", help="The column of labels."),
    "key": _option("manifest tfrecord", "--key-column", "key", metavar="COLUMN", help="The column of keys."),
    "labels": _option(
        "manifest",
        "--labels",
        type=click.Choice(["auto", "int", "name"]),
        help="What labels are: whole numbers, or names to be numbered.  [default: auto]",
    ),
    "root": _option(
        "manifest",
        "--root",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="What paths in a table are relative to.  [default: its folder]",
    ),
    "delimiter": _option("manifest", "--delimiter", metavar="SIGN", help="Between the values of a .csv.  [default: ,]"),
    "encoding": _option("manifest", "--encoding", metavar="NAME", help="Of a table's text.  [default: utf-8]"),
    "label_array": _option(
        "array",
        "--label-array",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="The .npy file of an array's labels.",
    ),
    "array_field": _option(
        "array", "--array-field", metavar="FIELD", help="Where an array's rows go: npy, png, jpg.  [default: npy]"
    ),
    "layout": _option(
        "array pattern torch",
        "--layout",
        type=click.Choice(["hwc", "chw"]),
        help="Where an array's channels lie; chw moves them to the end.",
    ),
    "label_field": _option(
        "recordio", "--label-field", metavar="FIELD", help="The field of a RecordIO file's labels.  [default: cls]"
    ),
    "id_field": _option("recordio", "--id-field", metavar="FIELD", help="The field of a RecordIO file's ids."),
    "where": _option("shards", "--where", metavar="CONDITION", help="Of shards only these samples: 'cls == 3'."),
}
_FLAGS = {"patterns": "field", "columns": "column", "image": "image-column", "label": "label-column"}
_FLAGS |= {"key": "key-column"}


def input_options(command: Command) -> Command:
    """Give a command these options; it gets `chosen`, an `InputOptions`, in their place."""

    @functools.wraps(command)
    def call(*arguments: Any, **given: Any) -> Any:
        kind, keys = given.pop("kind"), given.pop("keys")
        said = {name: given.pop(name) for name in _SPECIAL}
        said = {name: value for name, value in said.items() if value not in {None, ()}}
        return command(*arguments, chosen=InputOptions(kind=kind, keys=keys, said=said), **given)

    for add in [*reversed([option.add for option in _SPECIAL.values()]), *reversed(_GENERAL.values())]:
        call = add(call)
    return call  # type: ignore[return-value]  # click's decorators hand the function back


def make_input(
    source: str,
    chosen: InputOptions,
    *,
    temporary: str | os.PathLike[str] | None = None,
    progress: Callable[[int], object] | None = None,
) -> BaseInput:
    """The input that a source and the options mean.

    Args:
        source: a path, a pattern, or a url.
        chosen: what the options say.
        temporary: a folder on whose disk there is room, not necessarily there yet: that of the shards, best.
        progress: called with a number of samples as they are found.

    Raises:
        UsageError: it cannot be seen what the source is, or options that do not belong to it.
        DataError, UnavailableError: a source that is damaged, or cannot be read.
    """
    from shardwriter.inputs.kinds import kind_of_source

    kind = chosen.kind or ("pattern" if "patterns" in chosen.said else kind_of_source(source))
    for name in chosen.said:
        if kind not in _SPECIAL[name].kinds:
            raise UsageError(
                f"--{_FLAGS.get(name, name).replace('_', '-')} is for {_words(_SPECIAL[name].kinds)}, "
                f"and {source} is taken for {_words({kind})}",
                cure="Leave it out, or say what the source is with --input.",
            )
    return _MAKERS[kind](source, chosen, nearest_folder(temporary), progress)


_Progress = Callable[[int], object] | None


def _folders(source: str, chosen: InputOptions, _temporary: Path | None, progress: _Progress) -> BaseInput:
    from shardwriter.inputs.folders import class_folders

    classes = class_names(chosen.said.get("classes"))
    return class_folders(source, classes=classes, keys=chosen.keys, progress=progress)


def _flat(source: str, chosen: InputOptions, _temporary: Path | None, progress: _Progress) -> BaseInput:
    from shardwriter.inputs.flat import flat_folder

    text = chosen.said.get("fields")
    fields = None if text is None else [part.strip() for part in text.split(",")]
    return flat_folder(source, fields=fields, keys=chosen.keys, progress=progress)


def _manifest(source: str, chosen: InputOptions, temporary: Path | None, progress: _Progress) -> BaseInput:
    from shardwriter.inputs.manifest import manifest_file

    said = chosen.said
    return manifest_file(
        source,
        image=said.get("image"),
        label=said.get("label"),
        columns=dict(said.get("columns", ())),
        key=said.get("key"),
        labels=said.get("labels", "auto"),
        classes=class_names(said.get("classes")),
        root=said.get("root"),
        keys=chosen.keys,
        delimiter=_sign(said.get("delimiter")),
        encoding=said.get("encoding", "utf-8"),
        remote=chosen.remote,
        temporary=temporary,
        progress=progress,
    )


def _pattern(source: str, chosen: InputOptions, _temporary: Path | None, progress: _Progress) -> BaseInput:
    from shardwriter.inputs.pattern import pattern_files

    fields = dict(chosen.said.get("patterns", ()))
    if not fields:
        raise UsageError("no patterns are given", cure="Give each field one, as in --field a=train_A_images_{}.pt.")
    return pattern_files(fields, root=source, keys=chosen.keys, layout=chosen.said.get("layout"), progress=progress)


def _array(source: str, chosen: InputOptions, _temporary: Path | None, _progress: _Progress) -> BaseInput:
    from shardwriter.inputs.array import array_file

    said = chosen.said
    field = said.get("array_field", "npy")
    return array_file(source, labels=said.get("label_array"), field=field, keys=chosen.keys, layout=said.get("layout"))


def _torch(source: str, chosen: InputOptions, _temporary: Path | None, progress: _Progress) -> BaseInput:
    import importlib

    module = importlib.import_module("shardwriter.inputs.torch")
    columns = dict(chosen.said.get("columns", ())) or None
    made: BaseInput = module.torch_file(
        source, fields=columns, keys=chosen.keys, layout=chosen.said.get("layout"), progress=progress
    )
    return made


def _shards(source: str, chosen: InputOptions, temporary: Path | None, progress: _Progress) -> BaseInput:
    from shardwriter.inputs.shards import open_shards

    return open_shards(
        source,
        where=chosen.said.get("where"),
        keys=chosen.keys,
        temporary=temporary,
        remote=chosen.remote,
        progress=progress,
    )


def _tfrecord(source: str, chosen: InputOptions, temporary: Path | None, progress: _Progress) -> BaseInput:
    from shardwriter.inputs.tfrecord import tfrecord_files

    columns = dict(chosen.said.get("columns", ())) or None
    key = chosen.said.get("key")
    return tfrecord_files(source, fields=columns, key=key, keys=chosen.keys, temporary=temporary, progress=progress)


def _recordio(source: str, chosen: InputOptions, temporary: Path | None, progress: _Progress) -> BaseInput:
    from shardwriter.inputs.recordio import recordio_files

    label, ids = chosen.said.get("label_field"), chosen.said.get("id_field")
    return recordio_files(source, label=label, ids=ids, keys=chosen.keys, temporary=temporary, progress=progress)


_MAKERS: dict[str, Callable[[str, InputOptions, Path | None, _Progress], BaseInput]] = {
    "folders": _folders,
    "flat": _flat,
    "manifest": _manifest,
    "pattern": _pattern,
    "array": _array,
    "torch": _torch,
    "shards": _shards,
    "tfrecord": _tfrecord,
    "recordio": _recordio,
}


def class_names(path: Path | None) -> list[str] | None:
    """The names in a classes.txt, one a line.

    Raises:
        UsageError: it is no file, or larger than any such file.
    """
    return None if path is None else read_lines(path)


def _sign(text: str | None) -> str | None:
    return "\t" if text in {"\\t", "tab"} else text


def _words(kinds: frozenset[str] | set[str]) -> str:
    from shardwriter.inputs.kinds import KINDS

    return " or ".join(words for kind, words in KINDS.items() if kind in kinds)
