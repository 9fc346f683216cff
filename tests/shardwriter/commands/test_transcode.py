"""The options of transcoding, as a command that has them sees them."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from shardwriter.commands.transcode import transcode_options
from shardwriter.transcode import Transcode
from shardwriter.transcoder import Transcoder
from wds_tools.pictures.compress import FORMATS
from wds_tools.pictures.kernel import capability

needs_kernel = pytest.mark.skipif(not capability().jpeg, reason=capability().missing)


def _seen(*arguments: str) -> tuple[Transcoder | None, str, int]:
    """What a command gets, its output and its exit status."""
    seen: list[Transcoder | None] = []

    @click.command()
    @click.option("--max-pixels", type=int)
    @transcode_options
    def command(*, max_pixels: int | None, transcode: Transcoder | None) -> None:
        """Do something."""
        click.echo(f"{max_pixels}")
        seen.append(transcode)

    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2 or result.exception is None or isinstance(result.exception, ValueError)
    if isinstance(result.exception, ValueError):
        raise result.exception
    return (seen[0] if seen else None), result.output, result.exit_code


def test_without_options_nothing_is_transcoded() -> None:
    assert _seen() == (None, "None\n", 0)
    assert _seen("--max-pixels", "9") == (None, "9\n", 0)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ("--to webp", Transcode(to="webp")),
        ("--resize 256 --quality 80", Transcode(resize=256, quality=80)),
        ("--resize 256 --enlarge", Transcode(resize=256, enlarge=True)),
        ("--metadata keep", Transcode(metadata="keep")),
        ("--metadata strip", Transcode()),
        pytest.param("--icc keep --baseline", Transcode(icc="keep", baseline=True), marks=needs_kernel),
        ("--background white", Transcode(background=(255, 255, 255))),
        ("--background #8000Ff", Transcode(background=(128, 0, 255))),
        ("--background 1,2,3", Transcode(background=(1, 2, 3))),
        ("--to jpg --transcode-field a.png --transcode-field b.png", Transcode(to="jpg", fields=("a.png", "b.png"))),
        ("--resize 9 --mask-field seg.png", Transcode(resize=9, masks=("seg.png",))),
        ("--to png --max-pixels 99", Transcode(to="png", max_pixels=99)),
    ],
)
def test_each_option_arrives(arguments: str, options: Transcode) -> None:
    transcoder, _, _ = _seen(*arguments.split())
    assert transcoder is not None
    assert transcoder.options == options


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--to gif", "'gif' is not one of"),
        ("--resize 0", "0 is not in the range"),
        ("--background puce", "'puce' is no colour"),
        ("--background 1,2,256", "'1,2,256' is no colour"),
    ],
)
def test_what_is_none_is_a_usage_error(arguments: str, words: str) -> None:
    _, output, status = _seen(*arguments.split())
    assert (status, words in output) == (2, True)


def test_options_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="png keeps every value"):
        _seen("--to", "png", "--quality", "3")


def test_help_states_the_qualities_that_are_taken() -> None:
    _, output, _ = _seen("--help")
    qualities = [f"{form} {format_.quality}" for form, format_ in FORMATS.items() if format_.quality is not None]
    assert f"[default: {', '.join(qualities)}, which look alike]" in " ".join(output.split())
