"""Every error of the three packages, in one tree, drawn by whose fault it is.

    ShardstreamError
    ├── UsageError (ValueError)              the caller's: an option, a url, a state, a value to write
    │   ├── NoShardsError (FileNotFoundError)    urls that match nothing
    │   ├── TooFewSamplesError                   less than one global batch
    │   ├── LengthUnknownError (TypeError)       a length that nobody stated
    │   ├── RangesRefusedError                   positions in what its server only streams
    │   ├── StateError                           a state of another dataset or plan
    │   ├── KeyRefusedError                      a key that the writer does not take
    │   ├── FieldRefusedError (TypeError)        a field or value that the writer cannot encode
    │   └── TargetError (FileExistsError)        a target that already holds something else
    ├── DataError (ValueError)               the data's
    │   ├── ShardError                           the shard as a container
    │   │   ├── NotATarError
    │   │   ├── TruncatedShardError (EOFError)
    │   │   ├── HeaderError                      a header that is damaged or absurd
    │   │   └── GroupingError                    keys that come back, fields twice
    │   ├── ListingError                         dataset.json or another sidecar is damaged
    │   │   └── StaleIndexError                  a sidecar that does not fit its shard any more
    │   ├── BatchError                           samples that do not fit into one batch
    │   ├── TooManyFailuresError                 bad samples without end
    │   └── SampleError                          the content of one sample: what on_error="skip" skips
    │       ├── MissingFieldError (KeyError)
    │       ├── FieldError                       a field that does not decode
    │       ├── MemberError                      a member that cannot be read: a link out, a sparse file
    │       └── PictureError
    │           ├── TruncatedPictureError (EOFError)
    │           ├── PictureTooLargeError
    │           └── UnsupportedPictureError
    └── UnavailableError (OSError)           nobody's: disk, network, permission
        ├── ShardMissingError (FileNotFoundError)
        └── ShardChangedError                    another object than the one that was begun

Each says where (url, byte offset, key, field), what was expected and found, and what to do. Lower layers know
offsets, upper layers know keys: `at()` fills in what is missing on the way up. All of them pickle, since worker
processes send them. Foreign exceptions are translated where they enter, with `raise ... from`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Self

__all__ = [
    "BatchError",
    "DataError",
    "FieldError",
    "FieldRefusedError",
    "GroupingError",
    "HeaderError",
    "KeyRefusedError",
    "LengthUnknownError",
    "ListingError",
    "MemberError",
    "MissingFieldError",
    "NoShardsError",
    "NotATarError",
    "PictureError",
    "PictureTooLargeError",
    "RangesRefusedError",
    "SampleError",
    "ShardChangedError",
    "ShardError",
    "ShardMissingError",
    "ShardstreamError",
    "StaleIndexError",
    "StateError",
    "TargetError",
    "TooFewSamplesError",
    "TooManyFailuresError",
    "TruncatedPictureError",
    "TruncatedShardError",
    "UnavailableError",
    "UnsupportedPictureError",
    "UsageError",
    "counted",
    "public",
    "shown",
    "there_are",
]


class ShardstreamError(Exception):
    """The root of the tree.

    Attributes:
        problem: what was expected and what was found, one sentence without a full stop.
        url: the shard (or file), as given by the user or the listing.
        offset: byte offset inside that shard.
        key: the sample's key.
        field: the sample's field.
        cure: what the reader can do about it, one sentence.
    """

    def __init__(
        self,
        problem: str,
        *,
        url: str | None = None,
        offset: int | None = None,
        key: str | None = None,
        field: str | None = None,
        cure: str | None = None,
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.url = url
        self.offset = offset
        self.key = key
        self.field = field
        self.cure = cure

    def at(
        self,
        *,
        url: str | None = None,
        offset: int | None = None,
        key: str | None = None,
        field: str | None = None,
        cure: str | None = None,
    ) -> Self:
        """Fill in what the raiser did not know; what is already set stays. Returns self, for `raise e.at(...)`."""
        self.url = url if self.url is None else self.url
        self.offset = offset if self.offset is None else self.offset
        self.key = key if self.key is None else self.key
        self.field = field if self.field is None else self.field
        self.cure = cure if self.cure is None else self.cure
        return self

    def __str__(self) -> str:
        url = None if self.url is None else public(self.url)
        places = (("shard", url), ("offset", self.offset), ("key", self.key), ("field", self.field))
        where = ", ".join(f"{name} {_bare(value)}" for name, value in places if value is not None)
        problem = _one_line(_hidden(self.problem))
        text = f"{problem} ({where})" if where else problem
        return f"{text}. {_one_line(_hidden(self.cure))}" if self.cure else text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"  # the arguments may hold what a url hides

    def __reduce__(self) -> tuple[Any, ...]:
        places = {"url": self.url, "offset": self.offset, "key": self.key, "field": self.field, "cure": self.cure}
        return _rebuild, (type(self), self.problem, places)


def shown(text: object) -> str:
    r"""A key, a name or a path for a message, quoted: as it is where it can be printed, with escapes where not.

    Keys and urls may hold undecodable bytes (surrogates) and line breaks: an error must always print.

    >>> print(shown("Größe"), shown("a\nb"))
    'Größe' 'a\nb'
    """
    return repr(text) if isinstance(text, str) and text.isprintable() else ascii(text)


def counted(number: int, what: str, several: str | None = None) -> str:
    """1 shard, 2 shards, 1,000 shards; 2 classes where the plural is given."""
    return f"{number:,} {what if number == 1 else several or what + 's'}"


def there_are(names: Iterable[object], *, most: int = 30) -> str:
    """What there is in place of what was asked for, as a cure.

    >>> there_are(["a", "b"]), there_are(["a"]), there_are([])
    ('There are a, b.', 'There is a.', 'There is none at all.')
    """
    found = [str(name) for name in names]
    if not found:
        return "There is none at all."
    more = f" and {len(found) - most:,} more" if len(found) > most else ""
    return f"There {'is' if len(found) == 1 else 'are'} {', '.join(found[:most])}{more}."


def public(address: str) -> str:
    """An address for messages, logs, reprs and names of files: without what may be secret in a url.

    That is the user and password, the values of the query (signatures, tokens) and the fragment. Paths and `file://`
    have none, since `?` and `#` are letters of their names, and stay as they are; only a user before a host, which no
    `file://` has either, is left out. A command in place of an address is treated like a text that holds urls.

    >>> print(public("https://me:pw@host/a b.tar?X-Signature=f00&v=1"))
    https://host/a b.tar?X-Signature=...&v=...
    """
    match = _WHOLE_URL.match(address)
    return _masked(match) if match else _hidden(address)


_PARTS = (
    r"((?<![A-Za-z0-9+.\-])(?!file:)[A-Za-z][A-Za-z0-9+.\-]+://)"
    r"(?:[^/?#%(stop)s]*@)?([^?#%(stop)s]*)(\?[^#%(stop)s]*)?(#[^%(stop)s]*)?"
)
_URL = re.compile(_PARTS % {"stop": r"\s'\"<>"})
_FILE_USER = re.compile(r"(?i)((?<![a-z0-9+.\-])file://)[^/\s'\"<>@]*@")
_WHOLE_URL = re.compile(_PARTS % {"stop": r"\0"} + r"\Z")


def _hidden(text: str) -> str:
    return _FILE_USER.sub(r"\1", _URL.sub(_masked, text))


def _masked(match: re.Match[str]) -> str:
    begin, middle, query, fragment = match.groups()
    names = (part.partition("=") for part in query[1:].split("&")) if query else ()
    values = "&".join(f"{name}=..." if equals else "..." for name, equals, _ in names)
    return begin + middle + (f"?{values}" if query else "") + ("#..." if fragment else "")


def _bare(value: str | int) -> str:
    return str(value) if isinstance(value, int) or value.isprintable() else shown(value)


def _one_line(text: str) -> str:
    """The text as a log or a terminal may have it: what libraries say of hostile bytes may hold these bytes."""
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() else " " if sign in "\t\r\n" else ascii(sign)[1:-1] for sign in text.strip()
    )


def _rebuild(kind: type[ShardstreamError], problem: str, places: dict[str, Any]) -> ShardstreamError:
    return kind(problem, **places)


class UsageError(ShardstreamError, ValueError):
    """The caller asked for something that cannot be: an option, a url, a state, a value to write."""


class NoShardsError(UsageError, FileNotFoundError):
    """The urls match no shard."""


class TooFewSamplesError(UsageError):
    """The dataset has fewer samples than one global batch, or a rank would have nothing to do."""


class LengthUnknownError(UsageError, TypeError):
    """The length of what has none before it has been read."""


class RangesRefusedError(UsageError):
    """The server does not answer ranges: the object can be streamed, and not read here and there."""


class StateError(UsageError):
    """A state that belongs to another dataset or another plan; the message says what changed."""


class KeyRefusedError(UsageError):
    """A key that cannot be a member's name, or was written before."""


class FieldRefusedError(UsageError, TypeError):
    """A field name or a value that the writer cannot encode."""


class TargetError(UsageError, FileExistsError):
    """The target already holds something that would be overwritten."""


class DataError(ShardstreamError, ValueError):
    """The data is not what it should be."""


class ShardError(DataError):
    """The shard as a container is damaged."""


class NotATarError(ShardError):
    """The bytes are not a tar archive; the message shows how they begin."""


class TruncatedShardError(ShardError, EOFError):
    """The shard ends before its end of archive."""


class HeaderError(ShardError):
    """A tar header with a wrong checksum, an absurd size or an extension beyond the limits."""


class GroupingError(ShardError):
    """The members of a sample are not adjacent, or a field comes twice in one sample."""


class ListingError(DataError):
    """A listing or another sidecar cannot be read."""


class StaleIndexError(ListingError):
    """A sidecar that does not fit its shard any more."""


class BatchError(DataError):
    """Samples that do not fit into one batch, such as arrays of unequal shapes."""


class TooManyFailuresError(DataError):
    """So many bad samples in a row that skipping more would only hide the cause."""


class SampleError(DataError):
    """The content of one sample is bad: the only kind that `on_error="skip"` skips."""


class MissingFieldError(SampleError, KeyError):
    """The sample lacks a field that was asked for."""


class FieldError(SampleError):
    """A field's bytes do not decode to what its name says."""


class MemberError(SampleError):
    """A member that cannot be read as data: a link that leads nowhere, a sparse file."""


class PictureError(SampleError):
    """A picture that does not decode."""


class TruncatedPictureError(PictureError, EOFError):
    """A picture whose bytes end too early."""


class PictureTooLargeError(PictureError):
    """A picture with more pixels than the limit, refused from its header."""


class UnsupportedPictureError(PictureError):
    """A format that no installed decoder reads; the message names the format and the package."""


class UnavailableError(ShardstreamError, OSError):
    """The bytes could not be had: disk, network, permission. Never skipped."""


class ShardMissingError(UnavailableError, FileNotFoundError):
    """The shard does not exist where its url says."""


class ShardChangedError(UnavailableError):
    """The shard was replaced or changed since it was first opened."""
