"""A webdataset pipeline's options as a loader of ours, each by its own name; what has no counterpart is said.

    wds.WebDataset(urls, shardshuffle=100, handler=h).shuffle(1000).decode("rgb8").to_tuple("jpg;png cls").batched(64)
    loader(urls, shardshuffle=100, handler=h, shuffle=1000, decode="rgb8", to_tuple="jpg;png cls", batch_size=64)

Some options come to less here than they say there: any shuffle is the whole epoch's, whatever the buffer's size, and
splitting by node and worker is always done. Those are taken. What would change which samples come, or what they are, is
refused with the cure and never ignored.
"""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from loaders import loader as numpy_loader
from loaders.fields import ImageSpec, parse_fields
from loaders.interop.stages import Collation, Form, Tupled
from loaders.interop.urls import urls_of
from loaders.policy import OnError, policy_of
from loaders.reading import Reading
from loaders.stream import loader as numpy_stream
from loaders.stream.spelling import PIPE, STDIN
from loaders.torch.loader import ShardLoader
from loaders.torch.stream import StreamLoader
from wds_tools.errors import UsageError

__all__ = ["Made", "loader"]

Made: TypeAlias = numpy_loader.ShardLoader | numpy_stream.StreamLoader
"""What `loader` makes; the classes of `loaders.torch` are of these."""

# decode: whether batches are tensors, and what a picture becomes beyond uint8 RGB.
_DECODE: dict[str, tuple[bool, Form]] = {
    "rgb8": (False, "rgb8"),
    "rgb": (False, "rgb"),
    "pil": (False, "pil"),
    "pilrgb": (False, "pil"),
    "torchrgb8": (True, "torchrgb8"),
    "torchrgb": (True, "torchrgb"),
    "torch": (True, "torchrgb"),
}
_OTHER_MODES = ("l8", "l", "torchl8", "torchl", "pill", "rgba8", "rgba", "torchrgba8", "torchrgba", "pilrgba")

_DONE_ANYWAY = ("empty_check", "verbose", "nodesplitter", "workersplitter")
_EPOCHS = "An epoch is every sample once; iterate the loader again for the next one, or for ever with itertools."
_FIELDS = 'Name what is wanted in to_tuple, "jpg;png" for either.'
_FUNCTION = "Do it in map_tuple=, or in transform= of a ShardLoader, which takes and returns a decoded sample, a dict."
_WITHOUT = {
    "resampled": _EPOCHS,
    "repeat": _EPOCHS,
    "mode": _EPOCHS,
    "with_epoch": f"{_EPOCHS} To stop early, itertools.islice(loader, n).",
    "slice": "Stop with itertools.islice(loader, n), or pass exclude= to a ShardLoader.",
    "rsample": "Pass fewer shards, or exclude= to a ShardLoader.",
    "select": "Pass exclude= to a ShardLoader, with the numbers of the samples to leave out.",
    "select_files": _FIELDS,
    "rename_files": _FIELDS,
    "rename": _FIELDS,
    "rename_keys": _FIELDS,
    "extract_keys": _FIELDS,
    "url_to_name": "The cache names its files by whole urls, so that two shards of one name do not meet.",
    "map": _FUNCTION,
    "map_dict": _FUNCTION,
    "xdecode": _FUNCTION,
    "associate": _FUNCTION,
    "mcached": "The operating system keeps shards in memory while there is room; decoded pictures fill it soon.",
    "lmdb_cached": "Remote shards are kept as they are: cache_dir=.",
    "log_keys": 'Ask for "__key__" in to_tuple.',
    "with_length": "len(loader) is the number of batches of an epoch.",
    "batched": "It is batch_size=, partial= and collation_fn= here.",
    "unlisted": "Ask for the batches that you want with batch_size=.",
    "unbatched": "Ask for the batches that you want with batch_size=.",
    "listed": "Ask for batches with batch_size=, and with collation_fn=list for lists.",
}


def loader(
    urls: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    batch_size: int,
    to_tuple: str | Sequence[str],
    decode: str = "rgb8",
    shuffle: float = 0,
    shardshuffle: float | None = None,
    detshuffle: float = 0,
    map_tuple: Sequence[Callable[[Any], Any] | None] = (),
    collation_fn: Callable[[list[tuple[Any, ...]]], Any] | None = None,
    partial: bool = True,
    handler: OnError = "raise",
    seed: int | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    cache_size: int = -1,
    image: ImageSpec = None,
    threads: int | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    allow_pipe: bool = False,
    **others: Any,
) -> Made:
    """A ShardLoader from the options of `wds.WebDataset` and the stages behind it.

    Args:
        urls: as webdataset takes them: braces, several joined by "::", a list; also what ShardLoader takes.
        batch_size: of `.batched`.
        to_tuple: of `.to_tuple`: one string with spaces, or names. A batch is a NamedTuple of these.
        decode: of `.decode`. "rgb8": uint8 (N, H, W, 3) arrays; "rgb": float32 of 0 to 1; "torchrgb8", "torchrgb",
            "torch": the same as (N, 3, H, W) tensors, and int64 tensors of labels; "pil": pictures of PIL, for
            map_tuple. Other fields are decoded by their names in any case, never unpickled.
        shuffle: of `.shuffle`: anything but 0, None and False shuffles the epoch as a whole.
        shardshuffle: of WebDataset, likewise.
        detshuffle: likewise.
        map_tuple: of `.map_tuple`: a function, or None, for each of the first elements. Runs in threads.
        collation_fn: of `.batched`: makes the batch of a list of tuples.
        partial: of `.batched`: whether a last batch may be short (tail="exact"), or is left out (tail="drop").
        handler: what on_error takes; `wds.warn_and_continue` and its like.
        seed: 0 where None.
        cache_dir: where remote shards are kept.
        cache_size: how many bytes at most; -1 means nine tenths of what is free.
        image: beyond webdataset: the crop that decoding makes, far less work than decoding whole pictures.
        threads: decode threads, as for ShardLoader.
        rank: of this process, as for ShardLoader.
        world_size: number of ranks, as for ShardLoader.
        allow_pipe: run `pipe:` urls, by a StreamLoader, which promises less than a ShardLoader.
        others: further options of theirs, to be told whether they are needed and what takes their place.

    Returns:
        A `loaders.ShardLoader`; where `decode` says torch a `loaders.torch.ShardLoader`; for `pipe:` urls and "-" the
        StreamLoader of the same place.

    Raises:
        UsageError: an option that has no counterpart, or does not exist.
    """
    _check_others(others)
    tensors, form = _decoded(decode)
    names = tuple(to_tuple.split()) if isinstance(to_tuple, str) else tuple(to_tuple)
    specs = parse_fields(names, image)
    if len(map_tuple) > len(specs):
        raise UsageError(f"map_tuple has {len(map_tuple)} functions for the {len(specs)} fields of to_tuple")
    stages = Tupled(
        names=tuple(spec.name for spec in specs),
        pictures=tuple(spec.name for spec in specs if spec.picture),
        form=form,
        functions=tuple(map_tuple),
    )
    options: dict[str, Any] = {
        "batch_size": batch_size,
        "fields": names,
        "image": image,
        "transform": stages if stages.needed else None,
        "collate": Collation(stages.names, collation_fn) if collation_fn is not None else None,
        "seed": seed if seed is not None else 0,
        "shuffle": any((shuffle, shardshuffle, detshuffle)),
        "tail": "exact" if partial else "drop",
        "on_error": policy_of(handler),
        "threads": threads,
        "rank": rank,
        "world_size": world_size,
        "read": _reading(cache_dir, cache_size),
    }
    given = urls_of(urls) if isinstance(urls, str) else urls
    if allow_pipe and any(map(_streams, [given] if isinstance(given, str | os.PathLike) else given)):
        return (StreamLoader if tensors else numpy_stream.StreamLoader)(given, **options, allow_pipe=True)
    return (ShardLoader if tensors else numpy_loader.ShardLoader)(given, **options)


def _streams(url: str | os.PathLike[str]) -> bool:
    return isinstance(url, str) and (url == STDIN or url.startswith(PIPE))


def _reading(cache_dir: str | os.PathLike[str] | None, cache_size: int) -> Reading:
    if cache_dir is None or cache_size == 0:
        return Reading()
    return Reading(cache_dir=cache_dir, cache_bytes=None if cache_size < 0 else cache_size)


def _decoded(decode: str) -> tuple[bool, Form]:
    if decode in _DECODE:
        return _DECODE[decode]
    if decode in _OTHER_MODES:
        raise UsageError(
            f"decode is {decode!r}, and pictures are decoded to RGB here",
            cure='Pass decode="rgb8" or "pil", and convert in map_tuple=. What is transparent is put on the background '
            "that Pictures(background=...) of a ShardLoader says, white by default.",
        )
    if callable(decode):
        raise UsageError(
            f"decode is {decode!r}, and decoders of your own have no counterpart",
            cure="Fields are decoded by their names; go on from there in map_tuple=.",
        )
    raise UsageError(f"decode is {decode!r}, expected one of {', '.join(_DECODE)}")


def _check_others(others: Mapping[str, Any]) -> None:
    for name, value in others.items():
        if name in _DONE_ANYWAY and _known(value):
            continue
        if name in _WITHOUT or name in _DONE_ANYWAY:
            if value is None or value is False:
                continue
            raise UsageError(
                f"{name}={value!r} has no counterpart",
                cure=_WITHOUT.get(name, "Samples are dealt to ranks by themselves; rank= and world_size= say which."),
            )
        near = difflib.get_close_matches(name, [*_NAMES, *_WITHOUT, *_DONE_ANYWAY], n=1)
        raise UsageError(
            f"webdataset has no option {name!r}", cure=f"Did you mean {near[0]!r}?" if near else f"Known: {_NAMES}."
        )


def _known(value: Any) -> bool:
    """Whether a flag, or one of webdataset's own splitters."""
    return not callable(value) or getattr(value, "__module__", "") == "webdataset.shardlists"


_NAMES = sorted(set(inspect.signature(loader).parameters) - {"others"})
