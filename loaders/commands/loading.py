"""The options of commands that run a loader, and the loader that they mean."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import click

from loaders.crops import CenterCrop, Geometry, RandomResizedCrop, Resize
from loaders.fields import DEFAULT_FIELDS, parse_fields
from loaders.reading import Reading
from wds_tools.commands import options
from wds_tools.commands.remote import remote_options
from wds_tools.sources.options import Remote

__all__ = ["BATCH_SIZE", "Asked", "CommandFunction", "loader_options", "use_of"]

BATCH_SIZE = 64
"""Where nobody says: of `wds plan`, `bench` and `tune` alike, so that what the one says is what the others measure."""

CommandFunction: TypeAlias = Callable[..., None]

_CROPS: dict[str, Callable[[int], Geometry]] = {"random": RandomResizedCrop, "center": CenterCrop, "resize": Resize}
_DEFAULT: Literal["default"] = "default"
_SIDE = 224


class _Crop(click.ParamType[Geometry | Literal["default", "none"]]):
    """`224` or `random:224`, `center:224`, `resize:224`, `none`."""

    name = "crop"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Geometry | Literal["default", "none"]:
        if value in {_DEFAULT, "none"} or isinstance(value, Geometry):
            return value  # type: ignore[no-any-return]
        kind, colon, side = str(value).rpartition(":")
        crop = _CROPS.get(kind if colon else "random")
        if crop is None or not side.isdecimal() or int(side) < 1:
            self.fail(f"{value!r} is no crop; write 224, center:224, resize:224 or none.", param, ctx)
        return crop(int(side))


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A loader as it was asked for: the arguments of ShardLoader and ShardDataset.

    Attributes:
        urls: shards.
        batch_size: of this rank.
        fields: columns; empty for the loader's default.
        image: what pictures become.
        shuffle: whether the order is shuffled.
        lanes: runs that are open at once; None for the default.
        threads: decode threads; None for the cores.
        read: how far ahead is read.
    """

    urls: tuple[str, ...]
    batch_size: int = 64
    fields: tuple[str, ...] = ()
    image: Geometry | None = None
    shuffle: bool = True
    lanes: int | None = None
    threads: int | None = None
    read: Reading = field(default_factory=Reading)

    @property
    def place(self) -> str | list[str]:
        """The urls as a loader takes them."""
        return self.urls[0] if len(self.urls) == 1 else list(self.urls)

    def arguments(self) -> dict[str, Any]:
        """All but the urls; what the loader would take by itself is left out."""
        plain = Asked(urls=self.urls, batch_size=0)
        names = ("batch_size", "fields", "image", "shuffle", "lanes", "threads", "read")
        return {name: getattr(self, name) for name in names if getattr(self, name) != getattr(plain, name)}


def use_of(asked: Asked, image: Geometry | Literal["default", "none"]) -> Asked:
    """The same with pictures as they were asked for: a random crop of 224 where nothing was said and there are any."""
    if image == _DEFAULT:
        pictures = any(spec.picture for spec in parse_fields(asked.fields or DEFAULT_FIELDS, None))
        return replace(asked, image=RandomResizedCrop(_SIDE) if pictures else None)
    return replace(asked, image=None if image == "none" else image)


def loader_options(command: CommandFunction) -> CommandFunction:
    """Options that say what a loader makes; the command gets them in one piece, as `asked`."""

    @functools.wraps(command)
    def called(
        *args: Any,
        urls: tuple[str, ...],
        batch_size: int,
        fields: tuple[str, ...],
        image: Geometry | Literal["default", "none"],
        no_shuffle: bool,
        lanes: int | None,
        block_bytes: int | None,
        cache_dir: str | None,
        remote: Remote | None,
        **others: Any,
    ) -> None:
        read = Reading(block_bytes=block_bytes, cache_dir=cache_dir, remote=remote)
        asked = Asked(urls=urls, batch_size=batch_size, fields=fields, shuffle=not no_shuffle, lanes=lanes, read=read)
        command(*args, asked=use_of(asked, image), **others)

    return functools.reduce(lambda made, option: option(made), reversed(_OPTIONS), remote_options(called))


_OPTIONS = (
    options.urls,
    click.option(
        "--batch-size", type=click.IntRange(min=1), default=BATCH_SIZE, show_default=True, help="As for ShardLoader."
    ),
    click.option("--field", "fields", multiple=True, help="A column, again for each.  [default: pictures and cls]"),
    click.option(
        "--image",
        type=_Crop(),
        default=_DEFAULT,
        metavar="CROP",
        help="What pictures become: 224 (a random crop), center:224, resize:224, none.  [default: 224]",
    ),
    click.option("--no-shuffle", is_flag=True, help="Dataset order."),
    click.option("--lanes", type=click.IntRange(min=1), help="As for ShardLoader."),
    click.option("--block-bytes", type=options.ByteSize(), metavar="SIZE", help="As for Reading."),
    click.option(
        "--cache-dir", type=options.Target(file_okay=False), help="Where remote shards are kept, as for Reading."
    ),
)
