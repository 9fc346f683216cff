"""A condition on a sample, written as Python writes it and evaluated by nobody but this module: `wds reshard --where`.

    cls == 3 and json.width >= 256 and key.startswith('n01')
    txt != None and len(txt) > 10 and not ('watermark' in txt.lower())
    jpg.width * jpg.height >= 1e5 and field('seg.png') != None and matches(key, '^a/[0-9]+$')

- Names are fields, decoded as the codec table says: a number, text, an object. Behind a dot comes a part of a field's
  name (`seg.png`), a key of a json object (`json.meta.width`), the `width`, `height`, `format` or `mode` of a picture,
  read from its header, or the `shape`, `size` and `dtype` of an array. `field('...')` takes any name, `class` and
  `0` too. `key` is the sample's key, `shard` the base name of its shard, `fields` the names of its fields; `image` is
  its first picture where no field is called so.
- What a sample lacks is None: equal to None alone, neither less nor more than anything; it holds nothing, and no text
  holds it.
- Operators: and or not, == != < <= > >= in not in is, + - * / // %, indexing, tuples and lists. Functions: abs float
  int len matches max min round str. Methods of text: endswith find count isdigit lower lstrip replace rstrip split
  startswith strip upper.

The text is parsed by `ast` and turned into closures over a list of allowed nodes; nothing is given to `eval`, no
attribute of a Python object is reached, and what is not listed is an error that points at it.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from shardwriter.inputs.scope import ALWAYS, Fields, Scope, inside
from wds_tools.errors import FieldError, ShardstreamError, UsageError

__all__ = ["Expression"]

_MOST = 10_000
"""Characters of an expression; ten pages."""


def _within(one: Any, many: Any) -> bool:
    return many is not None and not (one is None and isinstance(many, str)) and one in many


_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.eq,
    ast.IsNot: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: _within,
    ast.NotIn: lambda one, many: not _within(one, many),
}
_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def _text(value: Any) -> str:
    """As text what has one that is the same in every run: no picture, no array, whose text leaves out the middle."""
    for odd in _without_text(value):
        raise TypeError(f"{type(odd).__name__.strip('_').lower()} has no text; ask for a part of it, such as its width")
    return str(value)


def _without_text(value: object) -> Iterator[object]:
    if isinstance(value, Mapping):
        yield from _without_text([*value, *value.values()])
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _without_text(each)
    elif not isinstance(value, str | int | float | None):
        yield value


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs, "float": float, "int": int, "len": len, "max": max, "min": min, "round": round, "str": _text,
}  # fmt: skip
_METHODS = frozenset(
    "count endswith find isdigit lower lstrip replace rstrip split startswith strip upper".split()  # noqa: SIM905
)


class Expression:
    """A condition that was parsed. Picklable; may be called from any thread.

    Args:
        text: as in the module.

    Raises:
        UsageError: it does not parse, or uses what is not allowed.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._run = _compiled(text)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"

    def __reduce__(self) -> tuple[type[Expression], tuple[str]]:
        return type(self), (self.text,)

    @property
    def names(self) -> frozenset[str]:
        """The first parts of the fields that it names: fields, or the beginnings of fields."""
        return frozenset(_field_names(ast.parse(self.text, mode="eval").body))

    def __call__(self, fields: Fields) -> bool:
        """Whether the sample fulfils the condition.

        Raises:
            SampleError: a field that does not decode, or values that cannot be compared.
        """
        try:
            return bool(self._run(Scope(fields)))
        except ShardstreamError as error:
            raise error.at(key=fields.key) from error.__cause__
        except (TypeError, ValueError, ArithmeticError, LookupError) as error:
            raise FieldError(
                f"the condition {self.text!r} cannot be decided: {error}",
                key=fields.key,
                cure="Convert the values, as in int(json.width) >= 256.",
            ) from error


_Run: TypeAlias = Callable[[Scope], Any]


def _compiled(text: str) -> _Run:
    if len(text) > _MOST:
        raise UsageError(f"an expression of {len(text):,} characters, {_MOST:,} are allowed")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        return _Compiler(text.strip()).node(tree.body)
    except SyntaxError as error:
        raise UsageError(
            f"the expression {text!r} does not parse: {error.msg}, at {text.strip()[(error.offset or 1) - 1 :]!r}",
            cure="Write it as in \"cls == 3 and json.width >= 256\"; a field called class is field('class').",
        ) from error
    except UsageError:  # a ValueError too, and says it all
        raise
    except (ValueError, RecursionError, MemoryError) as error:  # a NUL; brackets without end
        raise UsageError(f"the expression {text[:80]!r} does not parse: {error}") from error


class _Compiler:
    """From the nodes of a tree to closures; one method a kind of node, and no other kinds."""

    def __init__(self, text: str) -> None:
        self._text = text

    def node(self, node: ast.expr) -> _Run:
        method: Callable[[Any], _Run] | None = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise self._refused(node, "this is not part of the language")
        return method(node)

    def _refused(self, node: ast.AST, why: str) -> UsageError:
        return UsageError(
            f"the expression {self._text!r} cannot be used: {why}: {ast.unparse(node)!r}",
            cure="Names, comparisons, and/or/not, in, arithmetic, len() and methods of text are allowed.",
        )

    def _constant(self, node: ast.Constant) -> _Run:
        value = node.value
        if not isinstance(value, str | int | float | None):
            raise self._refused(node, "this kind of constant is not used")
        return lambda _: value

    def _name(self, node: ast.Name) -> _Run:
        parts = (node.id,)
        return lambda scope: scope.dotted(parts)

    def _attribute(self, node: ast.Attribute) -> _Run:
        parts = _dotted(node)
        if parts is not None:
            return lambda scope: scope.dotted(parts)
        inner, name = self.node(node.value), node.attr
        said = ast.unparse(node.value)
        return lambda scope: inside(inner(scope), (name,), said)

    def _boolop(self, node: ast.BoolOp) -> _Run:
        runs = [self.node(value) for value in node.values]
        if isinstance(node.op, ast.And):
            return lambda scope: all(run(scope) for run in runs)
        return lambda scope: any(run(scope) for run in runs)

    def _unaryop(self, node: ast.UnaryOp) -> _Run:
        run = self.node(node.operand)
        if isinstance(node.op, ast.Not):
            return lambda scope: not run(scope)
        if isinstance(node.op, ast.USub):
            return lambda scope: None if (value := run(scope)) is None else -value
        raise self._refused(node, "this operator is not used")

    def _binop(self, node: ast.BinOp) -> _Run:
        act = _ARITHMETIC.get(type(node.op))
        if act is None:
            raise self._refused(node, "this operator is not used")
        left, right = self.node(node.left), self.node(node.right)
        text_only = isinstance(node.op, ast.Add)

        def run(scope: Scope) -> Any:
            one, two = left(scope), right(scope)
            if one is None or two is None:
                return None
            if not text_only and (isinstance(one, str | list | tuple) or isinstance(two, str | list | tuple)):
                raise TypeError(f"arithmetic with {type(one).__name__} and {type(two).__name__}")
            return act(one, two)

        return run

    def _compare(self, node: ast.Compare) -> _Run:
        first = self.node(node.left)
        steps = [
            (_COMPARE[type(kind)], isinstance(kind, _ORDER), self.node(value))
            for kind, value in zip(node.ops, node.comparators, strict=True)
        ]

        def run(scope: Scope) -> bool:
            left = first(scope)
            for act, ordered, value in steps:
                right = value(scope)
                if (ordered and (left is None or right is None)) or not act(left, right):
                    return False
                left = right
            return True

        return run

    def _tuple(self, node: ast.Tuple | ast.List | ast.Set) -> _Run:
        runs = [self.node(value) for value in node.elts]
        return lambda scope: tuple(run(scope) for run in runs)

    _list = _set = _tuple

    def _subscript(self, node: ast.Subscript) -> _Run:
        if isinstance(node.slice, ast.Slice):
            raise self._refused(node, "slices are not used")
        inner, at = self.node(node.value), self.node(node.slice)

        def run(scope: Scope) -> Any:
            value, place = inner(scope), at(scope)
            if value is None:
                return None
            if isinstance(value, Mapping):
                return value.get(place)
            if not isinstance(value, str | list | tuple) or not isinstance(place, int):
                raise TypeError(f"{type(value).__name__.strip('_')} cannot be indexed by {place!r}")
            return value[place] if -len(value) <= place < len(value) else None

        return run

    def _call(self, node: ast.Call) -> _Run:
        if node.keywords:
            raise self._refused(node, "arguments have no names here")
        if isinstance(node.func, ast.Attribute):
            return self._method(node, node.func)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name == "field":
            constant = self._text_of(node, 0, 1)
            return lambda scope: scope.field(constant.lower())
        if name == "matches":
            return self._matches(node)
        if name not in _FUNCTIONS:
            raise self._refused(node, "there is no such function")
        act, runs = _FUNCTIONS[name], [self.node(value) for value in node.args]

        def run(scope: Scope) -> Any:
            values = [each(scope) for each in runs]
            return None if any(value is None for value in values) else act(*values)

        return run

    def _method(self, node: ast.Call, function: ast.Attribute) -> _Run:
        name = function.attr
        if name not in _METHODS:
            raise self._refused(node, "there is no such method")
        inner, runs = self.node(function.value), [self.node(value) for value in node.args]

        def run(scope: Scope) -> Any:
            value = inner(scope)
            if value is None:
                return None
            if not isinstance(value, str):
                raise TypeError(f"{name}() is a method of text, not of {type(value).__name__.strip('_')}")
            return getattr(value, name)(*(each(scope) for each in runs))

        return run

    def _matches(self, node: ast.Call) -> _Run:
        try:
            pattern = re.compile(self._text_of(node, 1, 2))
        except re.error as error:
            raise self._refused(node, f"the pattern is none ({error})") from error
        inner = self.node(node.args[0])
        return lambda scope: None if (value := inner(scope)) is None else pattern.search(value) is not None

    def _text_of(self, node: ast.Call, at: int, count: int) -> str:
        argument = node.args[at] if len(node.args) == count else None
        if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
            raise self._refused(node, f"a text in quotes is expected as argument {at + 1} of {count}")
        return argument.value


def _dotted(node: ast.expr) -> tuple[str, ...] | None:
    """`a.b.c` as its parts; None where it does not begin with a name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return (node.id, *reversed(parts)) if isinstance(node, ast.Name) else None


def _field_names(node: ast.AST) -> Iterable[str]:
    """The first parts of all names of fields in a tree; functions and what is always there left out."""
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name):
            if node.func.id == "field" and isinstance(node.args[0], ast.Constant):
                yield str(node.args[0].value).lower().partition(".")[0]
                return
        else:
            yield from _field_names(node.func)
        for argument in node.args:
            yield from _field_names(argument)
    elif isinstance(node, ast.Name):
        if node.id not in ALWAYS:
            yield node.id
    else:
        for child in ast.iter_child_nodes(node):
            yield from _field_names(child)
