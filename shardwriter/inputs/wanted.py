"""Which fields a sample is to have: `jpg;png` for one of several, `txt?` for one that may be missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wds_tools.errors import UsageError
from wds_tools.names import check_field

__all__ = ["Wanted", "wanted_fields"]


@dataclass(frozen=True)
class Wanted:
    """One field.

    Attributes:
        names: its alternatives, the first that is there counts.
        optional: whether a sample may lack it.
    """

    names: tuple[str, ...]
    optional: bool

    def __str__(self) -> str:
        return ";".join(self.names) + "?" * self.optional


def wanted_fields(fields: Sequence[str]) -> tuple[Wanted, ...]:
    """Read a list such as ("jpg;png", "cls", "txt?").

    Raises:
        UsageError: no fields, or one named twice. FieldRefusedError: a name that no field can have.
    """
    if isinstance(fields, str) or not fields:
        raise UsageError(f"fields is {fields!r}, expected a list of names", cure='fields=("jpg;png", "cls", "txt?")')
    wanted = []
    for text in fields:
        names = tuple(name.strip().lower() for name in text.removesuffix("?").split(";"))
        for name in names:
            check_field(name)
        wanted.append(Wanted(names, text.endswith("?")))
    all_names = [name for each in wanted for name in each.names]
    if twice := sorted({name for name in all_names if all_names.count(name) > 1}):
        raise UsageError(f"the field {twice[0]} is named twice in fields", cure="Name each once.")
    return tuple(wanted)
