"""What the file systems raise, in our words: the border that no foreign exception passes.

fsspec asks its file systems for the builtin errors (FileNotFoundError, PermissionError, OSError with a number), and
most keep to it. What their libraries raise beside that is told by its name, so that none of them has to be imported.

Tried again is what may pass: time limits, broken connections, a store that is busy, and whatever nobody knows. Not
tried again: what does not exist, what is not allowed, and requests that the store does not understand.
"""

from __future__ import annotations

import errno
import re

from wds_tools.addresses import scheme
from wds_tools.errors import ShardMissingError, ShardstreamError, UnavailableError, UsageError
from wds_tools.sources.http.retry import Fault

__all__ = ["code_of", "is_busy", "missing_package", "refusal"]

_EXTRAS = {
    "abfs": "azure",
    "abfss": "azure",
    "az": "azure",
    "gcs": "gcs",
    "gs": "gcs",
    "hf": "hf",
    "s3": "s3",
    "s3a": "s3",
}
_CREDENTIALS = {
    "azure": "Name the account and its key or `az login`: Remote(storage={'az': {'account_name': ...}})",
    "gcs": "Log in (`gcloud auth application-default login`), or name a key: Remote(storage={'gs': {'token': ...}})",
    "hf": "Log in (`hf auth login`), or set HF_TOKEN",
    "s3": "Check the keys (`aws configure`, AWS_PROFILE); a public bucket wants Remote(storage={'s3': {'anon': True}})",
}
_ACCESS = re.compile(r"credential|authenticat|unauthorized|forbidden|tokenretrieval|profilenotfound", re.IGNORECASE)
_BUSY = re.compile(r"slow ?down|too ?many ?requests|reduce your request rate|\b429\b|\b503\b", re.IGNORECASE)
_LASTING = {errno.EINVAL, errno.EPERM, errno.ENOSYS, errno.ENAMETOOLONG, getattr(errno, "EREMCHG", errno.EPERM)}
_PASSING = {408, 425, 429}
_MOST = 200


def missing_package(url: str, error: ImportError) -> UsageError:
    """The error for a scheme whose package is not installed."""
    kind = scheme(url) or ""
    extra = _EXTRAS.get(kind, "fsspec")
    cure = f"pip install 'shardstream[{extra}]'"
    if kind not in _EXTRAS and error.name not in {None, "fsspec"}:
        cure = f"pip install {error.name}"
    return UsageError(f"{kind}:// needs a package that is not installed: {_said(error)}", url=url, cure=cure)


def refusal(error: BaseException, url: str) -> Fault | ShardstreamError:
    """What a failure means: to be tried again, or an error of ours."""
    if isinstance(error, ShardstreamError | Fault):
        return error
    if isinstance(error, ImportError):
        return missing_package(url, error)
    return _of_request(error, url) or Fault(f"the store does not answer as it should: {_said(error)}")


def _of_request(error: BaseException, url: str) -> ShardstreamError | None:
    """The error that would come again however often it were asked; None for what may pass."""
    status = _status(error)
    if isinstance(error, FileNotFoundError) or status in {404, 410}:
        what = "nothing lies there" if code_of(error) != "NoSuchBucket" else "there is no such bucket"
        return ShardMissingError(what, url=url, cure="Check the url, or leave the shard out")
    if isinstance(error, IsADirectoryError):
        return UsageError(
            "not a file but a folder", url=url, cure="Name the shards, or the folder with a slash at its end"
        )
    if isinstance(error, PermissionError) or status in {401, 403} or _ACCESS.search(type(error).__name__):
        extra = _EXTRAS.get(scheme(url) or "", "")
        cure = _CREDENTIALS.get(extra, "Give the options of its file system: Remote(storage={SCHEME: {...}})")
        return UnavailableError(f"access is refused: {_said(error)}", url=url, cure=cure)
    if isinstance(error, NotImplementedError):
        return UsageError(f"{scheme(url)}:// cannot do that: {_said(error)}", url=url)
    refused = status is not None and 400 <= status < 500 and status not in _PASSING
    if refused or isinstance(error, TypeError | KeyError | ValueError | AttributeError) or _number(error) in _LASTING:
        return UnavailableError(f"the store does not take the request: {_said(error)}", url=url)
    return None


def is_busy(error: BaseException) -> bool:
    """Whether the store wants fewer requests."""
    return _number(error) == errno.EBUSY or _BUSY.search(f"{code_of(error)} {error}") is not None


def code_of(error: BaseException | None) -> str:
    """The store's own code for an error (`NoSuchBucket`, `PreconditionFailed`), empty where it gave none."""
    while error is not None:
        response = getattr(error, "response", None)
        if isinstance(response, dict) and isinstance(response.get("Error"), dict):
            return str(response["Error"].get("Code", ""))
        error = error.__cause__
    return ""


def _status(error: BaseException) -> int | None:
    """The HTTP status that the error tells of, by the names that aiohttp's, Google's, Azure's and requests' have."""
    response = getattr(error, "response", None)
    found = (getattr(error, "status", None), getattr(error, "status_code", None), getattr(error, "code", None))
    return next((each for each in (*found, getattr(response, "status_code", None)) if isinstance(each, int)), None)


def _number(error: BaseException) -> int | None:
    return error.errno if isinstance(error, OSError) else None


def _said(error: BaseException) -> str:
    """The first line of the error, with its kind where it says nothing itself."""
    lines = (error.strerror if isinstance(error, OSError) and error.strerror else str(error)).strip().splitlines()
    name = type(error).__name__
    return f"{name}: {lines[0][:_MOST]}" if lines and lines[0] else name
