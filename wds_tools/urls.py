"""From what the user wrote to the list of shards, in a fixed order.

    "train-{000000..000099}.tar"   braces, as bash expands them
    "data/*.tar"                   a glob, sorted by name; `**` goes down
    "data/"                        a folder: its dataset.json, else its *.tar, *.tar.gz, *.tgz, *.tar.zst, sorted
    "data/dataset.json"            a listing (any *.json): its shards, relative to its place
    Path("data/a{1}.tar")          a Path is taken literally: a folder, a listing or a shard, never a pattern
    "file:///data/a%20b.tar"       percent signs are decoded in file urls only
    ["a.tar", "b-{0..9}.tar"]      any of these one after the other

    "http://host/d/"               a folder on a host: its dataset.json
    "s3://bucket/d/*.tar"          a glob, where the store can list what it has

A string that names something that exists is that thing, even if it has braces, `*`, `?` or `[` in its name. Remote urls
(`http://`, `s3://`) have the braces in their path expanded and are kept as they are; a web server cannot be asked what
it has, so that braces or a listing must say it. A query (`?sig=...`) belongs to the url that has it, and is not passed
on to what a listing names. Nothing unfinished (`.NAME.tar.<random>.tmp`) is ever matched, nor other hidden files. A
shard listed twice is an error that names it, since "every sample exactly once" would silently become twice; a dataset
that shall weigh more is a matter of mixing. A folder whose listing leaves out shards that lie beside it is opened with
a line in the log.
"""

# Urls and the names of shards are text that comes back as it was given: pathlib would change some.
# ruff: noqa: PTH110, PTH112, PTH113, PTH118, PTH119, PTH120, PTH207, PTH208

from __future__ import annotations

import contextlib
import glob
import itertools
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias
from urllib.parse import unquote

from wds_tools import addresses
from wds_tools.errors import NoShardsError, UsageError, public, shown
from wds_tools.index.beside import warn_of_unlisted
from wds_tools.index.cache import IndexCache
from wds_tools.index.fetched import Files
from wds_tools.index.listing import LISTING_NAME
from wds_tools.remote_urls import Place, expand_remote
from wds_tools.sources.options import Remote

__all__ = ["Place", "Urls", "expand", "places", "refuse_duplicates", "urls_shown"]

Urls: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"


def urls_shown(urls: object) -> str:
    """Urls for a repr: as they were given, without what may be secret in them (`errors.public`)."""
    if isinstance(urls, str):
        return repr(public(urls))
    if isinstance(urls, Sequence) and not isinstance(urls, bytes):
        return f"[{', '.join(map(urls_shown, urls))}]"
    return repr(urls)


def expand(urls: Urls, *, remote: Remote | None = None) -> list[str]:
    """The shards that `urls` mean, in order, listings read and expanded.

    Args:
        urls: see the module.
        remote: how remote hosts are asked; the defaults where None.

    Raises:
        NoShardsError: a pattern, a folder or a list without shards.
        UsageError: braces that do not pair, a shard listed twice, something that is no url.
        ListingError: a listing that is damaged.
    """
    found: list[str] = []
    files = Files(IndexCache(None), remote)
    for place in places(urls, remote=remote):
        shards = files.listing(place.url).urls if place.listing else [place.url]
        if place.folder:
            warn_of_unlisted(place.url, shards)
        found += shards
    refuse_duplicates(found)
    return found


def places(urls: Urls, *, remote: Remote | None = None) -> list[Place]:
    """As `expand`, with listings kept as what they are."""
    if isinstance(urls, str | os.PathLike):
        return list(_expand_one(urls, remote))
    try:
        items = list(urls)
    except TypeError as error:
        raise UsageError(f"urls are a str, a Path or a list of these, not {type(urls).__name__}") from error
    if not items:
        raise NoShardsError("an empty list of urls")
    return [place for item in items for place in _expand_one(item, remote)]


def refuse_duplicates(urls: list[str]) -> None:
    """Raise a UsageError if a shard is listed twice, be it relative once and absolute once."""
    absolute = list(map(addresses.absolute, urls))
    if len(set(absolute)) == len(absolute):
        return
    seen: set[str] = set()
    for url, place in zip(urls, absolute, strict=True):
        if place in seen:
            raise UsageError(
                "a shard is listed twice", url=url, cure="List each shard once: mixing repeats data, not urls"
            )
        seen.add(place)


def _expand_one(item: object, remote: Remote | None) -> Iterator[Place]:
    if isinstance(item, os.PathLike):
        yield from _expand_path(_text(os.fspath(item)))
    elif isinstance(item, str):
        yield from _expand_text(item, remote)
    else:
        raise UsageError(f"a url is a str or a Path, not {type(item).__name__}")


def _text(path: str | bytes) -> str:
    return os.fsdecode(path)


def _expand_text(text: str, remote: Remote | None) -> Iterator[Place]:
    if not text.strip():
        raise NoShardsError("an empty url")
    if text.startswith("pipe:"):
        raise UsageError(
            "commands in place of a url are not run here",
            url=text,
            cure="Copy the shards to a local disk, or stream them: loaders.StreamLoader(..., allow_pipe=True)",
        )
    kind = addresses.scheme(text)
    if kind is None and os.path.exists(text):
        yield from _expand_path(text)
        return
    pieces = addresses.expand_braces(text)
    if addresses.is_remote(text):
        for piece in pieces:
            yield from expand_remote(piece, remote)
    else:
        yield from _expand_local(text, pieces)


def _expand_local(text: str, pieces: list[str]) -> Iterator[Place]:
    """Pieces of one pattern. A missing shard among many is for the reader to report; a pattern without any is not."""
    several = len(pieces) > 1
    exists = False
    found: list[Place] = []
    for piece in pieces:
        path = addresses.path_of(piece)
        if exists and several and not _is_glob(piece) and addresses.is_shard_name(os.path.basename(path)):
            found.append(Place(path, listing=False))  # no look at each of 20,000 files of a network disk
        elif os.path.exists(path):
            exists = True
            found += _expand_path(path)
        elif matches := _glob(piece):
            exists = True
            found += matches
        elif several and not _is_glob(piece):
            found.append(Place(path, addresses.is_listing(path)))
        else:
            raise _nothing(text if not several else f"{piece} (of {text})", path)
    if not exists:
        raise _nothing(text, addresses.path_of(pieces[0]))
    yield from found


def _expand_path(path: str) -> Iterator[Place]:
    if os.path.isdir(path):
        yield from _expand_folder(path)
    elif not os.path.exists(path):
        raise _nothing(path, path)
    else:
        yield Place(path, addresses.is_listing(path))


def _expand_folder(folder: str) -> Iterator[Place]:
    listing = os.path.join(folder, LISTING_NAME)
    if os.path.isfile(listing):
        yield Place(listing, listing=True, folder=True)
        return
    with os.scandir(folder) as entries:  # a link that leads nowhere is kept, so that the shard is missed
        names = sorted(entry.name for entry in entries if addresses.is_shard_name(entry.name) and not entry.is_dir())
    if not names:
        raise _nothing(folder, os.path.join(folder, "*.tar"))
    yield from (Place(os.path.join(folder, name), listing=False) for name in names)


def _is_glob(piece: str) -> bool:
    return any(mark in piece for mark in "*?[")


def _glob(piece: str) -> list[Place]:
    """The files that match, sorted. Where some look like shards only those: `data/*` shall not give sidecars."""
    if not _is_glob(piece):
        return []
    pattern = piece
    if addresses.scheme(piece) == "file":  # decoded, without turning an encoded %2A into a pattern
        parts = re.split(r"([*?\[\]])", addresses.path_of(piece.replace("%", "%25")))
        pattern = "".join(
            part if at % 2 else glob.escape(unquote(part, errors="surrogateescape")) for at, part in enumerate(parts)
        )
    found = sorted(path for path in glob.glob(pattern, recursive=True) if not os.path.isdir(path))
    found = [path for path in found if not addresses.is_temporary(os.path.basename(path))]
    shards = [path for path in found if addresses.is_shard_name(os.path.basename(path))]
    return [Place(path, addresses.is_listing(path)) for path in shards or found]


def _nothing(asked: str, path: str) -> NoShardsError:
    """The error says what lies in the nearest folder that exists: most often the pattern is nearly right."""
    folder = os.path.dirname(path) or "."
    while not os.path.isdir(folder) and os.path.dirname(folder) not in {folder, ""}:
        folder = os.path.dirname(folder)
    folder = folder if os.path.isdir(folder) else "."
    cure = "Check the path; a list takes several patterns"
    if asked.startswith("~"):
        cure = "`~` is not expanded here: write the path in full"
    elif "::" in asked:
        cure = "Give several urls as a list, not joined by `::`"
    elif path == os.path.join(asked, "*.tar") and _holds_class_folders(asked):
        words = shlex.quote(asked) if asked.isprintable() else "FOLDER"
        cure = f"These look like class folders of pictures: pack them first with `wds pack {words} shards`"
    elif path == os.path.join(asked, "*.tar") and (inner := _datasets_in(asked)):
        cure = f"Each of these is a dataset of its own: name one, such as {shown(os.path.join(asked, inner[0]))}"
    return NoShardsError(f"no shards match {shown(asked)}; {_what_lies_in(folder)}", cure=cure)


def _datasets_in(folder: str, most: int = 20) -> list[str]:
    """Folders in it that hold a listing, as the sets of a split do; only the first few entries are looked at."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:  # a hint, as below
        first = list(itertools.islice(entries, most))
        return sorted(each.name for each in first if os.path.isfile(os.path.join(each.path, LISTING_NAME)))
    return []


def _holds_class_folders(folder: str, most: int = 20) -> bool:
    """Whether a folder in it holds a picture; of both only the first few are looked at."""
    from wds_tools.codec import PICTURE_FIELDS

    endings = tuple(f".{field}" for field in PICTURE_FIELDS)
    with contextlib.suppress(OSError):  # it is a hint and no more
        with os.scandir(folder) as entries:
            inner = [entry.path for entry in itertools.islice(entries, most) if entry.is_dir()]
        for place in inner:
            with os.scandir(place) as files:
                if any(file.name.lower().endswith(endings) for file in itertools.islice(files, most)):
                    return True
    return False


def _what_lies_in(folder: str, most: int = 5) -> str:
    shown_as = "this folder" if folder == "." else shown(folder)
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError as error:
        return f"{shown_as} cannot be listed ({error.strerror})"
    if not names:
        return f"{shown_as} is empty"
    first = [shown(name + "/" if os.path.isdir(os.path.join(folder, name)) else name) for name in names[:most]]
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{shown_as} holds {', '.join(first)}{more}"
