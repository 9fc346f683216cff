"""The name of an entry: which object, which size and version of it. Pure.

    0f3a...c2 (url, 32 hex) - 9b1e...47 (size and version, 16 hex) - train-000017.tar (for people)

Two urls with one base name never share a file, since the whole url is hashed. What signs a url is left out of the hash:
a signed url is another text every hour and the same object. But a parameter called `se` or `Signature` may select an
object on another server, so it is left out only where the query as a whole is recognisably a signature of a known kind
(`_SIGNATURES`). User names, passwords and the fragment (which is never sent) do not tell objects apart either.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import unquote

from wds_tools import addresses

__all__ = ["dataset_of", "entry_name", "group_name", "is_entry", "object_key", "url_prefix"]

_WEB = re.compile(r"(https?)://(?:[^/?#]*@)?([^/?#]*)([^?#]*)(?:\?([^#]*))?", re.IGNORECASE)
_ENTRY = re.compile(r"[0-9a-f]{32}-[0-9a-f]{16}-[A-Za-z0-9._-]*")
_PORTS = {"http": ":80", "https": ":443"}
_TAIL = 60


class _Signature(NamedTuple):
    """A kind of signed url: the parameters that prove it, and those that then belong to the signature. Lower case."""

    proof: frozenset[str]
    parts: re.Pattern[str]


def _signature(proof: str, parts: str) -> _Signature:
    return _Signature(frozenset(proof.split()), re.compile(parts))


_SIGNATURES = (
    _signature("x-amz-signature x-amz-credential", r"x-amz-.*"),  # S3 and all that speak it, version 4
    _signature("awsaccesskeyid signature expires", r"awsaccesskeyid|signature|expires|x-amz-security-token"),
    _signature("x-goog-signature x-goog-credential", r"x-goog-.*"),  # Google Cloud Storage, version 4
    _signature("googleaccessid signature expires", r"googleaccessid|signature|expires"),
    _signature("key-pair-id signature", r"key-pair-id|signature|expires|policy|hash-algorithm"),  # CloudFront
    _signature(  # Azure: shared access signatures; sr, sp and the like say what is granted, not which object
        "sig sv", r"sig|sv|ss|srt|sr|sp|se|st|spr|sip|si|skoid|sktid|skt|ske|sks|skv|saoid|suoid|scid|sdd|rsc[cdelt]"
    ),
    _signature("x-oss-signature", r"x-oss-(?!process).*"),  # Alibaba, version 4; `process` makes another object
    _signature("ossaccesskeyid signature expires", r"ossaccesskeyid|signature|expires|security-token"),
    _signature("q-signature q-ak", r"q-.*|x-cos-security-token"),  # Tencent
)


def object_key(url: str) -> str:
    """The url as far as it says which object it is: no user, no signature; host in lower case, without default port.

    >>> object_key("https://me:pw@H:443/a.tar?v=2&X-Amz-Credential=c&X-Amz-Signature=s#x")
    'https://h/a.tar?v=2'
    """
    match = _WEB.match(url)
    if match is None:
        return url
    scheme = match.group(1).lower()
    host = match.group(2).lower().removesuffix(_PORTS[scheme])
    query = _unsigned(match.group(4) or "")
    return f"{scheme}://{host}{match.group(3) or '/'}" + (f"?{query}" if query else "")


def _unsigned(query: str) -> str:
    pairs = [(unquote(pair.partition("=")[0]).lower(), pair) for pair in query.split("&")] if query else []
    names = {name for name, _ in pairs}
    for signature in _SIGNATURES:
        if signature.proof <= names:
            pairs = [(name, pair) for name, pair in pairs if not signature.parts.fullmatch(name)]
    return "&".join(pair for _, pair in pairs)


def url_prefix(url: str) -> str:
    """How the names of all entries of an object begin."""
    return f"{_hash(object_key(url), 32)}-"


def entry_name(url: str, size: int, version: str | None) -> str:
    """The name of the entry for this version of an object."""
    path = re.split(r"[?#]", object_key(url))[0]
    tail = re.sub(r"[^A-Za-z0-9._-]", "_", path.rsplit("/", 1)[-1])[-_TAIL:]
    return f"{url_prefix(url)}{_hash(repr((size, version)), 16)}-{tail}"


def is_entry(name: str) -> bool:
    """Whether a file of this name is an entry."""
    return _ENTRY.fullmatch(name) is not None


def group_name(dataset: str) -> str:
    """The name of the file that lists a dataset's entries."""
    return _hash(dataset, 32)


def dataset_of(urls: Iterable[str]) -> str:
    """A name for the dataset that these shards are, whatever their order and signatures."""
    keys = sorted({object_key(addresses.absolute(url)) for url in urls})
    digest = hashlib.sha256("\n".join(keys).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    first = keys[0].partition("?")[0] if keys else "nothing"
    return f"{first} and {len(keys) - 1:,} more ({digest})" if len(keys) > 1 else f"{first} ({digest})"


def _hash(text: str, length: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]
