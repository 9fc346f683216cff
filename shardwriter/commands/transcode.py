"""The options that say what pictures shall become, for every command that writes shards.

    @click.command()
    @transcode_options
    def pack(..., transcode: Transcoder | None) -> None: ...

The decorator takes its options away and hands over one `transcode`: None where none of them was given, and then bytes
are unchanged.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from shardwriter.transcoder import Transcoder

__all__ = ["Colour", "make_transcode", "transcode_options"]

Command = TypeVar("Command", bound=Callable[..., Any])

_NAMED = {"white": "ffffff", "black": "000000", "grey": "808080", "gray": "808080"}


class Colour(click.ParamType[tuple[int, int, int]]):
    """A colour: white, black, grey, #rrggbb, or red,green,blue from 0 to 255."""

    name = "colour"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int, int]:
        found = value if isinstance(value, tuple) else _colour(str(value).strip().lower())
        if found is None:
            self.fail(f"{value!r} is no colour; write white, #808080 or 128,128,128.", param, ctx)
        return found


def _colour(text: str) -> tuple[int, int, int] | None:
    if match := re.fullmatch(r"#?([0-9a-f]{6})", _NAMED.get(text, text)):
        red, green, blue = bytes.fromhex(match[1])
    elif match := re.fullmatch(r"(\d{1,3}),\s*(\d{1,3}),\s*(\d{1,3})", text):
        red, green, blue = map(int, match.groups())
    else:
        return None
    return (red, green, blue) if max(red, green, blue) < 256 else None


_OPTIONS = {
    "to": click.option(
        "--to",
        type=click.Choice(["jpg", "webp", "avif", "png", "jxl", "npy"]),
        help="The pictures' format; npy is uint8 (height, width, 3).  [default: each picture's own]",
    ),
    "resize": click.option(
        "--resize",
        type=click.IntRange(1, 65_535),
        metavar="PIXELS",
        help="The shorter side, at most: larger pictures are made smaller, antialiased.",
    ),
    "enlarge": click.option("--enlarge", is_flag=True, help="Make smaller pictures larger too (with --resize)."),
    "quality": click.option(
        "--quality",
        type=click.IntRange(1, 100),
        help="Of pictures that are encoded.  [default: jpg 90, webp 87, avif 76, jxl 90, which look alike]",
    ),
    "metadata": click.option(
        "--metadata",
        type=click.Choice(["strip", "keep"]),
        help="EXIF, XMP and the like of pictures that are transcoded.  [default: strip]",
    ),
    "baseline": click.option("--baseline", is_flag=True, help="Make progressive JPEGs baseline, without loss."),
    "background": click.option(
        "--background",
        type=Colour(),
        help="Put under what is transparent.  [default: kept where the format has it, else white]",
    ),
    "icc": click.option(
        "--icc",
        type=click.Choice(["srgb", "keep"]),
        help="Convert colours of other profiles to sRGB, or keep them and the profile.  [default: srgb]",
    ),
    "transcode_fields": click.option(
        "--transcode-field",
        "transcode_fields",
        multiple=True,
        metavar="FIELD",
        help="A field to transcode, again for each.  [default: pictures whose field has no dot]",
    ),
    "mask_fields": click.option(
        "--mask-field",
        "mask_fields",
        multiple=True,
        metavar="FIELD",
        help="A field of labels, such as seg.png, to be resized without inventing values.",
    ),
}


def transcode_options(command: Command) -> Command:
    """Give a command these options; it gets `transcode`, a `Transcoder` or None, in their place.

    Where the command has --max-pixels of its own, this counts here too.
    """

    @functools.wraps(command)
    def call(*arguments: Any, **given: Any) -> Any:
        chosen = {name: given.pop(name) for name in _OPTIONS}
        return command(*arguments, transcode=make_transcode(**chosen, max_pixels=given.get("max_pixels")), **given)

    for add in reversed(_OPTIONS.values()):
        call = add(call)
    return call  # type: ignore[return-value]  # click's decorators hand the function back


def make_transcode(
    *,
    to: Any = None,
    resize: int | None = None,
    enlarge: bool = False,
    quality: int | None = None,
    metadata: Any = None,
    baseline: bool = False,
    background: tuple[int, int, int] | None = None,
    icc: Any = None,
    transcode_fields: tuple[str, ...] = (),
    mask_fields: tuple[str, ...] = (),
    max_pixels: int | None = None,
) -> Transcoder | None:
    """The transcoder that the options ask for; None where nothing but `max_pixels` is said.

    Raises:
        UsageError: options that contradict each other, or what this installation cannot write.
    """
    from shardwriter.transcode import Transcode
    from shardwriter.transcoder import Transcoder

    said: dict[str, Any] = {
        "to": to,
        "resize": resize,
        "enlarge": enlarge,
        "quality": quality,
        "metadata": metadata,
        "baseline": baseline,
        "background": background,
        "icc": icc,
        "fields": transcode_fields or None,
        "masks": mask_fields,
    }
    chosen = {name: value for name, value in said.items() if value not in {None, False, ()}}
    if not chosen:
        return None
    return Transcoder(Transcode(**chosen) if max_pixels is None else Transcode(**chosen, max_pixels=max_pixels))
