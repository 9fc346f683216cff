"""Values as the code that makes them: options (frozen dataclasses) with what differs from their defaults only."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

__all__ = ["arguments", "imports_of", "spelled"]

_PUBLISHED = ("loaders.", "wds_tools.sources.options", "wds_tools.pictures.options")
"""Where the classes lie that `loaders` exports."""


def spelled(value: Any) -> str:
    """An expression that makes the value: `RandomResizedCrop(224)`, `Reading(prefetch=4)`, a string, a number."""
    if isinstance(value, str | os.PathLike):
        text = str(os.fspath(value))
        return json.dumps(text, ensure_ascii=not text.isprintable())  # as repr, but in double quotes
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return repr(value)
    parts = []
    for number, each in enumerate(dataclasses.fields(value)):
        found = getattr(value, each.name)
        if found != _default(each):
            parts.append(spelled(found) if number == 0 and not each.kw_only else f"{each.name}={spelled(found)}")
    return f"{type(value).__name__}({', '.join(parts)})"


def _default(each: dataclasses.Field[Any]) -> Any:
    return each.default if each.default_factory is dataclasses.MISSING else each.default_factory()


def arguments(named: Mapping[str, Any]) -> str:
    """Keyword arguments as they stand in a call."""
    return ", ".join(f"{name}={spelled(value)}" for name, value in named.items())


def imports_of(named: Mapping[str, Any]) -> list[str]:
    """The lines that import what such arguments, and what lies in them, are made of."""
    names: dict[str, set[str]] = {}
    for each in _made(named.values()):
        module = "loaders" if each.__module__.startswith(_PUBLISHED) else each.__module__
        names.setdefault(module, set()).add(each.__name__)
    return [f"from {module} import {', '.join(sorted(names[module]))}" for module in sorted(names)]


def _made(values: Iterable[Any]) -> Iterator[type]:
    for value in values:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            yield type(value)
            fields = ((getattr(value, each.name), _default(each)) for each in dataclasses.fields(value))
            yield from _made(found for found, default in fields if found != default)
