"""Values as the code that makes them: options (frozen dataclasses) with what differs from their defaults only."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

__all__ = ["arguments", "classes_in", "spelled"]


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


def classes_in(named: Mapping[str, Any]) -> list[str]:
    """The names that such arguments need imported, sorted."""
    return sorted({type(value).__name__ for value in named.values() if dataclasses.is_dataclass(value)})
