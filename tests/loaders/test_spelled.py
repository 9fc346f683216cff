"""Values as code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import loaders
from loaders.spelled import arguments, imports_of, spelled

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
    assert imports_of(named) == ["from loaders import Reading, Resize"]
    assert imports_of({"batch_size": 8}) == []


def test_what_lies_in_an_argument_is_imported_too() -> None:
    remote = loaders.Remote(headers=loaders.HeaderFile("tokens"), in_flight=3, storage={"s3": {"anon": True}})
    named = {"read": loaders.Reading(remote=remote)}
    code = f"{arguments(named)}"
    lines = imports_of(named)
    assert lines == ["from loaders import HeaderFile, Reading, Remote"]
    made: dict[str, Any] = {}
    exec("\n".join([*lines, f"made = dict({code})"]), made)
    assert made["made"] == named
