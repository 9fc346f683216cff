"""Labels in a table: whole numbers as they are, or names that are numbered in sorted order.

Which of both a column holds is seen from all of its values: whole numbers where at least nine in ten are, names where
none is; in between it has to be said. The rest, such as empty cells, is reported row by row. Numbers with a fraction
are neither: pandas writes `3.0` for a whole column as soon as one value in it is missing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

from wds_tools.errors import FieldError, UsageError, shown

__all__ = ["LabelKind", "Labels"]

LabelKind: TypeAlias = Literal["auto", "int", "name"]

_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,18}\s*")
_FRACTION = re.compile(r"\s*[+-]?[0-9]*\.[0-9]*(?:[eE][+-]?[0-9]+)?\s*|\s*nan\s*", re.IGNORECASE)
_MOST_CLASSES = 1_000_000


class Labels:
    """The labels of one column. `see` every value, `settle`, then ask for numbers.

    Args:
        column: its name, for messages.
        kind: "int", "name", or "auto" as in the module.
        classes: the names in the order of their labels; those found, sorted, by default.

    Attributes:
        classes: the names by number once settled; empty for whole numbers.
    """

    def __init__(self, column: str, *, kind: LabelKind = "auto", classes: Sequence[str] | None = None) -> None:
        if kind not in get_args(LabelKind):
            raise UsageError(f"labels is {kind!r}, expected one of {', '.join(map(repr, get_args(LabelKind)))}")
        if classes is not None and len(set(classes)) < len(classes):
            raise UsageError("a class is named twice in classes", cure="Give each name once, in the order of labels.")
        self._column = column
        self._kind = kind
        self._given = classes is not None
        self._seen: Counter[str] = Counter()
        self._names: set[str] = set()
        self.classes: tuple[str, ...] = tuple(classes or ())
        self._numbers: dict[str, int] = {name: number for number, name in enumerate(self.classes)}

    def see(self, value: object) -> None:
        """Take one value into account."""
        sort = _sort(value)
        self._seen[sort] += 1
        if not self._given and (sort == "name" or (self._kind == "name" and sort in {"int", "fraction"})):
            self._names.add(str(value).strip())
            if len(self._names) > _MOST_CLASSES:
                raise UsageError(
                    f"the column {self._column!r} holds more than {_MOST_CLASSES:,} different names",
                    cure="These are no classes: write it into a text field, as in --column caption=txt.",
                )

    def settle(self) -> None:
        """Decide what the column holds.

        Raises:
            UsageError: whole numbers and names are mixed, or it holds neither.
        """
        if self._kind == "auto":
            self._kind = "name" if self._given else self._found()
        if self._kind == "name" and not self._given:
            if broken := [name for name in self._names if "\n" in name]:
                raise UsageError(f"a class's name holds a line break: {broken[0]!r}", cure="Give it another name.")
            self.classes = tuple(sorted(self._names))
            self._numbers = {name: number for number, name in enumerate(self.classes)}

    def number(self, value: object) -> int:
        """The label of one row.

        Raises:
            FieldError: it is missing, no whole number, or no class that is known.
        """
        sort = _sort(value)
        if sort == "missing":
            raise FieldError(f"the label in the column {self._column!r} is missing", field="cls")
        if self._kind == "int":
            if sort != "int":
                raise FieldError(
                    f"the label in the column {self._column!r} is no whole number but {shown(value)}",
                    field="cls",
                    cure="Names become numbers with --labels name." if sort == "name" else None,
                )
            return int(str(value))
        number = self._numbers.get(str(value).strip())
        if number is None:
            raise FieldError(f"the label {shown(value)} is none of the {len(self.classes):,} classes", field="cls")
        return number

    def _found(self) -> LabelKind:
        whole, names, fractions = (self._seen[sort] for sort in ("int", "name", "fraction"))
        if fractions > whole + names:
            raise UsageError(
                f"the labels in the column {self._column!r} have fractions, such as 3.0",
                cure="Whole numbers are needed: pandas keeps them with astype('Int64').",
            )
        if whole and whole >= 9 * (names + fractions):
            return "int"
        if names and not whole:
            return "name"
        if not whole and not names:
            raise UsageError(f"the column {self._column!r} holds no labels, all of it is empty")
        raise UsageError(
            f"the column {self._column!r} holds {whole:,} whole numbers and {names:,} names",
            cure="Say which they are: labels='int' or 'name' (--labels int, --labels name).",
        )


def _sort(value: object) -> str:
    if isinstance(value, str):
        return _sort_of_text(value.strip())
    if value is None or value != value:  # noqa: PLR0124 - NaN, as pandas writes what is missing
        return "missing"
    if isinstance(value, bool | int):
        return "name" if isinstance(value, bool) else "int"
    return "fraction" if isinstance(value, float) else "other"


def _sort_of_text(value: str) -> str:
    if not value:
        return "missing"
    if _WHOLE.fullmatch(value):
        return "int"
    return "fraction" if _FRACTION.fullmatch(value) else "name"
