"""What the options of transcoding take, and what they refuse."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from shardwriter.transcode import Transcode
from wds_tools.errors import UsageError


def test_without_options_everything_keeps_its_format_and_size() -> None:
    options = Transcode()
    assert (options.to, options.resize, options.quality, options.fields) == (None, None, None, None)
    assert pickle.loads(pickle.dumps(options)) == options


def test_a_background_from_a_list_is_as_good() -> None:
    assert Transcode(background=[1, 2, 3]) == Transcode(background=(1, 2, 3))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"to": "gif"}, r"to is 'gif', expected one of None, 'jpg'"),
        ({"to": "JPEG"}, "to is 'JPEG'"),
        ({"resize": 0}, "resize is 0, expected a whole number from 1"),
        ({"resize": 256.0}, "resize is 256.0"),
        ({"resize": True}, "resize is True"),
        ({"quality": 101}, "quality is 101, expected a whole number from 1 to 100"),
        ({"quality": 90, "to": "png"}, "png keeps every value"),
        ({"quality": 90, "to": "npy"}, "npy keeps every value"),
        ({"metadata": "all"}, "metadata is 'all'"),
        ({"icc": "ignore"}, "icc is 'ignore'"),
        ({"enlarge": True}, "enlarge without resize"),
        ({"baseline": True, "to": "webp"}, "baseline is a kind of JPEG"),
        ({"background": (0, 0, 256)}, "background"),
        ({"max_pixels": 0}, "max_pixels"),
        ({"fields": "jpg"}, "expected a tuple of field names"),
        ({"fields": ("jpg", "cls")}, "names 'cls', which is no picture's field"),
        ({"fields": ("jpg.gz",)}, "names 'jpg.gz'"),
        ({"masks": None}, "masks is None"),
        ({"masks": ("seg.npy",)}, "names 'seg.npy'"),
        ({"masks": ("seg.png",), "fields": ("jpg", "seg.png")}, "in fields and in masks: seg.png"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Transcode(**options)
