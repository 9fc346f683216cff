"""Values as code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import loaders
from loaders.spelled import arguments, classes_in, spelled

RULES: list[tuple[Any, str]] = [
    (loaders.RandomResizedCrop(224), "RandomResizedCrop(224)"),
    (loaders.RandomResizedCrop((96, 128), flip=0.0), "RandomResizedCrop((96, 128), flip=0.0)"),
    (loaders.CenterCrop(224, resize=256), "CenterCrop(224, resize=256)"),
    (loaders.Reading(), "Reading()"),
    (loaders.Reading(prefetch=4, cache_dir=Path("/a b")), 'Reading(prefetch=4, cache_dir="/a b")'),
    (loaders.Reading(remote=loaders.Remote(in_flight=3)), "Reading(remote=Remote(in_flight=3))"),
    (("jpg;png", "cls"), "('jpg;png', 'cls')"),
    ('with "quotes" and \\', '"with \\"quotes\\" and \\\\"'),
    ("a\nline", '"a\\nline"'),
    ("Bücher", '"Bücher"'),
    (3, "3"),
    (None, "None"),
]


@pytest.mark.parametrize(("value", "code"), RULES)
def test_code_makes_the_value(value: Any, code: str) -> None:
    assert spelled(value) == code
    made = eval(code, vars(loaders))
    assert made == value or str(made) == str(value) or spelled(made) == code


def test_arguments_and_what_they_need() -> None:
    named = {"batch_size": 8, "image": loaders.Resize(64), "read": loaders.Reading(prefetch=3)}
    assert arguments(named) == "batch_size=8, image=Resize(64), read=Reading(prefetch=3)"
    assert classes_in(named) == ["Reading", "Resize"]
