from __future__ import annotations

import pickle

import pytest

from wds_tools.errors import UsageError
from wds_tools.pictures.options import Pictures


def test_defaults_are_white_upright_and_pillows_limit() -> None:
    assert Pictures() == Pictures(background=(255, 255, 255), orient=True, icc="ignore", max_pixels=178_956_970)


def test_a_background_from_a_config_file_is_a_list() -> None:
    assert Pictures(background=[0, 128, 255]) == Pictures(background=(0, 128, 255))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [
        {"background": (0, 0)},
        {"background": (0, 0, 256)},
        {"background": (0.5, 0, 0)},
        {"icc": "p3"},
        {"max_pixels": 0},
        {"max_pixels": 1e6},
        {"max_pixels": True},
    ],
)
def test_options_outside_their_range_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        Pictures(**options)  # type: ignore[arg-type]


def test_options_pickle() -> None:
    options = Pictures(background=(1, 2, 3), orient=False)
    assert pickle.loads(pickle.dumps(options)) == options
