"""That no public trouble is forgotten: the table of docs/troubles.md and the tests name the same 53, once each."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
NUMBERS = {
    *range(1, 11), 12, 14, 15, 16, *range(20, 30), 31, 32, 33, 35, 37, 38, 39, 40, 42, 45, 46, 48, 50, *range(53, 69)
}  # fmt: skip
ROW = re.compile(r"^\| B(\d\d) \| [^|]+ \| [^|]+ \| (\w+) \|$", re.MULTILINE)


def rows() -> list[tuple[int, str]]:
    """Each number of the table with the module that tries it."""
    return [
        (int(row[1]), f"tests/cases/test_{row[2]}.py") for row in ROW.finditer((ROOT / "docs/troubles.md").read_text())
    ]


def tried(module: Path) -> set[int]:
    """The numbers in the names of a module's tests."""
    names = [node.name for node in ast.parse(module.read_text()).body if isinstance(node, ast.FunctionDef)]
    return {int(found[1]) for name in names if (found := re.match(r"test_b(\d\d)_", name))}


def test_the_table_has_every_number_once() -> None:
    numbers = Counter(number for number, _ in rows())
    assert set(numbers) == NUMBERS
    assert len(NUMBERS) == 53
    assert set(numbers.values()) == {1}


def test_each_is_tried_where_the_table_says_and_nowhere_else() -> None:
    tested = {path: tried(path) for path in sorted((ROOT / "tests/cases").glob("test_*.py"))}
    assert sum(map(len, tested.values())) == 53
    for number, module in rows():
        assert number in tested[ROOT / module], (number, module)
