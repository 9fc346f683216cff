"""What the names in an expression stand for: the values of one sample, each decoded once, when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from wds_tools.codec import decode_field, kind_of
from wds_tools.errors import FieldError
from wds_tools.sample import BytesLike

__all__ = ["ALWAYS", "Fields", "Scope", "inside"]

ALWAYS = frozenset({"fields", "image", "key", "shard"})
"""Names that stand for something where no field is called so."""

_FACTS = frozenset({"format", "height", "mode", "width"})
_ARRAY = frozenset({"dtype", "shape", "size"})


class Fields(Protocol):
    """What an expression asks of a sample."""

    @property
    def key(self) -> str: ...

    @property
    def shard(self) -> str: ...

    def names(self) -> Iterable[str]:
        """The sample's fields."""
        ...

    def data(self, field: str) -> BytesLike:
        """The bytes of a field that it has."""
        ...


class Scope:
    """The values of one sample, each decoded once."""

    def __init__(self, fields: Fields) -> None:
        self.fields = fields
        self.names = frozenset(fields.names())
        self._values: dict[str, object] = {}

    def field(self, name: str) -> object:
        """A field's value, None where the sample lacks it."""
        if name not in self.names:
            return None
        if name not in self._values:
            data = self.fields.data(name)
            self._values[name] = _Picture(data) if kind_of(name) == "picture" else decode_field(name, data)
        return self._values[name]

    def dotted(self, parts: tuple[str, ...]) -> object:
        """What `a.b.c` means: the longest field that it begins with, and in that the rest."""
        for end in range(len(parts), 0, -1):
            name = ".".join(parts[:end])
            if name in self.names:
                return inside(self.field(name), parts[end:], name)
        return inside(self._own(parts[0]), parts[1:], parts[0])

    def _own(self, name: str) -> object:
        if name == "key":
            return self.fields.key
        if name == "shard":
            return self.fields.shard
        if name == "fields":
            return tuple(self.fields.names())
        if name == "image":
            picture = next((field for field in self.fields.names() if kind_of(field) == "picture"), None)
            return None if picture is None else self.field(picture)
        return None


class _Picture:
    """A picture's bytes; its facts are read from the header when one is asked for."""

    def __init__(self, data: BytesLike) -> None:
        self._data = data
        self._facts: object = None

    def __len__(self) -> int:
        return len(self._data)

    def fact(self, name: str) -> object:
        from wds_tools.pictures.facts import read_facts

        if self._facts is None:
            self._facts = read_facts(self._data)
        return getattr(self._facts, name)


def inside(value: object, parts: Sequence[str], name: str) -> object:
    """What lies behind the dots of a value that is called `name`; None where it is missing."""
    for part in parts:
        if value is None:
            return None
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, _Picture) and part in _FACTS:
            value = value.fact(part)
        elif hasattr(value, "shape") and hasattr(value, "dtype") and part in _ARRAY:
            value = _array_fact(value, part)
        else:
            raise FieldError(f"{name} is no object with a key {part!r} but {type(value).__name__.strip('_')}")
        name = f"{name}.{part}"
    return value


def _array_fact(value: Any, part: str) -> object:
    if part == "dtype":
        return str(value.dtype).removeprefix("torch.")
    shape = tuple(map(int, value.shape))
    if part == "shape":
        return shape
    size = 1
    for side in shape:
        size *= side
    return size
