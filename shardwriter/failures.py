"""What could not be packed, and what came twice: a line each in failures.jsonl, and a count by kind."""

from __future__ import annotations

import errno
import json
from typing import NamedTuple

from shardwriter.check import failure_kind
from wds_tools.errors import UnavailableError

__all__ = ["DUPLICATE", "Failure", "failure_of"]

DUPLICATE = "duplicate"
"""The kind of what is left out because its pictures came before: no failure, but reported with them."""

_OURS = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}


class Failure(NamedTuple):
    """One sample that is not in the shards.

    Attributes:
        path: what its input calls it.
        kind: unreadable, truncated, damaged, "too large", unsupported, "missing field", "bad field", refused, or
            duplicate.
        reason: a sentence.
        equals: for a duplicate the sample that has the same pictures.
    """

    path: str
    kind: str
    reason: str
    equals: str | None = None

    def line(self) -> bytes:
        """As it stands in failures.jsonl; names that are not UTF-8 come back as they were from the escapes."""
        facts = {"path": self.path, "kind": self.kind, "reason": self.reason}
        return json.dumps(facts if self.equals is None else facts | {"equals": self.equals}).encode() + b"\n"


def failure_of(path: str, error: Exception) -> Failure:
    """What an error says of a sample.

    Raises:
        UnavailableError: it says nothing of the sample: this process has run out of descriptors or memory.
    """
    number = error.errno if isinstance(error, OSError) else None
    if number in _OURS:
        raise UnavailableError(
            f"{path} cannot be read: {_reason(error)}", cure="Raise the limit (ulimit -n, or memory), or lower jobs."
        ) from error
    return Failure(path, failure_kind(error), _reason(error))


def _reason(error: Exception) -> str:
    plain = isinstance(error, OSError) and type(error).__module__ == "builtins"
    return (error.strerror or str(error)) if plain and isinstance(error, OSError) else str(error)
