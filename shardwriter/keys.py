"""What the samples of an input are called: by their path, by their number, or by a hash of their path.

    path      the path below the root without its extension; dots in its last part become `_`, since readers end a key
              at the first dot. Two samples of one key are refused, with the first pairs.
    number    the place in the input, from 0, in eight digits or as many as are needed. Changes when files are added.
    hash      32 hexadecimal digits, BLAKE2b of the path below the root. Stays when files are added, and splits by hash
              of key stay too.

Numbers and hashes suit names that cannot be keys: not UTF-8, longer than 1,024 bytes, with backslashes or control
characters, or equal but for their extension. Blanks are fine in a key, and so are all printable signs of Unicode. Keys
that differ only in how accents are composed (NFC, NFD) count as equal: on macOS they would be one file. Keys that
differ only in case are different keys, as every reader has it; unpacked with `tar` on macOS or Windows they would be
one file too.

What a number or a hash stands for is kept beside the shards, one line a sample, `KEY<tab>ORIGINAL`, in the file that
`originals_name` names. That costs nothing per sample in the shards, and nothing in memory.
"""

from __future__ import annotations

import unicodedata
from array import array
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Literal, Protocol, TypeAlias, get_args

import numpy as np

from wds_tools.errors import DataError, KeyRefusedError, UsageError, shown

__all__ = [
    "MOST_SHOWN",
    "Keys",
    "Named",
    "check_keys",
    "equal_keys",
    "fold",
    "key_of",
    "original_lines",
    "originals_name",
    "path_key",
    "refuse_equal",
]

Keys: TypeAlias = Literal["path", "number", "hash"]

MOST_SHOWN = 5
"""Colliding pairs that a message names."""

_LINES = 4096
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


class Named(Protocol):
    """What has keys that stand for other names: an input."""

    def __len__(self) -> int: ...

    def key(self, index: int) -> str: ...

    def original(self, index: int) -> str: ...


def check_keys(keys: str) -> Keys:
    """The mode itself, if it is one.

    Raises:
        UsageError: it is not.
    """
    for known in get_args(Keys):
        if keys == known:
            mode: Keys = known
            return mode
    raise UsageError(f"keys is {keys!r}, expected one of {', '.join(map(repr, get_args(Keys)))}")


def key_of(keys: Keys, index: int, count: int, original: str, path: Callable[[str], str]) -> str:
    """The key of one sample.

    Args:
        keys: the mode.
        index: its place in the input.
        count: samples of the input.
        original: its name in the input, such as the path below the root.
        path: makes the key of the name where the mode is "path".
    """
    if keys == "path":
        return path(original)
    if keys == "number":
        return f"{index:0{max(8, len(str(count - 1)))}d}"
    return blake2b(original.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def path_key(path: str) -> str:
    """`a.v1/b.2.jpg` -> `a.v1/b_2`: without the extension, dots in the base name replaced."""
    folder, slash, base = path.rpartition("/")
    return f"{folder}{slash}{base.rpartition('.')[0].replace('.', '_') or base}"


def fold(key: str) -> str:
    """What is the same for keys that count as equal."""
    return key if key.isascii() else unicodedata.normalize("NFC", key)


def refuse_equal(count: int, key: Callable[[int], str], name: Callable[[int], str]) -> None:
    """Refuse samples that would get the key of another, all at once. 8 bytes a sample while it runs.

    Args:
        count: how many samples there are.
        key: makes the key of the sample at a place; called once for each, and again for the few that look equal.
        name: what to call that sample in the message.

    Raises:
        KeyRefusedError: how many, and the first pairs.
    """
    hashes = array("q", (hash(fold(key(index))) for index in range(count)))
    row = np.frombuffer(hashes, dtype=np.int64) if count else np.empty(0, np.int64)
    order = np.argsort(row, kind="stable")
    same = np.flatnonzero(row[order[1:]] == row[order[:-1]])
    firsts: dict[str, int] = {}
    pairs: list[tuple[int, int]] = []
    for place in np.unique(np.concatenate([order[same], order[same + 1]])).tolist():
        first = firsts.setdefault(fold(key(place)), place)
        if first != place:
            pairs.append((first, place))
    if pairs:
        raise equal_keys(
            len(pairs),
            [(name(first), name(second)) for first, second in pairs[:MOST_SHOWN]],
            key=key(pairs[0][1]),
        )


def equal_keys(count: int, first: list[tuple[str, str]], *, key: str | None) -> KeyRefusedError:
    """The error about `count` samples that would get the key of another, of which the first pairs are given."""
    pairs = "; ".join(f"{_bare(one)} and {_bare(two)}" for one, two in first)
    many = f"{count:,} samples would get the key of another{', the first are' * (count > len(first))}"
    return KeyRefusedError(
        f"{'two samples would get the same key' if count == 1 else many}: {pairs}",
        key=key if count == 1 else None,
        cure="Rename or remove one of each pair, or the row that names a file again; dots in names become _, and the "
        "extension does not count. Or let keys be numbers (--keys number), or hashes where names differ (--keys hash).",
    )


def originals_name(name: str) -> str:
    """The file that holds what the keys of the dataset `name` stand for: `train` -> `train.keys.tsv`."""
    return f"{name}.keys.tsv"


def original_lines(samples: Named) -> Iterator[bytes]:
    r"""The lines of that file in the order of the input, in pieces: KEY, a tab, the original name.

    A tab, a line break and a backslash in a name are written as `\t`, `\n`, `\r` and `\\`. A sample that has no key,
    such as a row that does not parse, has no line: it is not packed.
    """
    count = len(samples)
    for begin in range(0, count, _LINES):
        lines = "".join(_line(samples, row) for row in range(begin, min(begin + _LINES, count)))
        yield lines.encode("utf-8", "surrogateescape")


def _line(samples: Named, row: int) -> str:
    try:
        return f"{samples.key(row)}\t{samples.original(row).translate(_ESCAPES)}\n"
    except (DataError, KeyRefusedError):
        return ""


def _bare(name: str) -> str:
    return name if name.isprintable() else shown(name)
