"""What a status means: to be tried again, or an error, and whose fault it is.

Tried again: 408, 425, 429 and the 5xx that may pass. Never: 400, 401, 403, 404, 410 and whatever else the server says
of this request, for asking again would give the same. 404 and 410 say that nothing lies there; S3 and its like say 403
for that too, when the bucket may not be listed, so that message names both.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Mapping

from wds_tools.errors import ShardMissingError, ShardstreamError, UnavailableError
from wds_tools.sources.http.retry import Fault, retry_after

__all__ = ["LIMITING", "refusal"]

LIMITING = frozenset({429, 503})
_PASSING = frozenset({408, 425, 429})
_LASTING = frozenset({501, 505, 511})
_SAID = {
    400: "the server does not understand the request",
    401: "the server wants to know who asks",
    403: "the server refuses to hand it out",
    404: "no such file on the server",
    407: "the proxy wants to know who asks",
    410: "the file is gone from the server",
    429: "the server takes no more requests for now",
    503: "the server is not available for now",
}
_CURES = {
    400: "If the url is signed, it may have expired: sign it anew",
    401: "Put the password into ~/.netrc, or give Remote(headers=...)",
    403: "Check that the file is there and that you may read it: ~/.netrc, Remote(headers=...), or a newly signed url",
    404: "Check the url, or leave the shard out",
    407: "Write user and password into the proxy's url: HTTPS_PROXY=http://user:password@host:port",
    410: "Leave the shard out",
    429: "Ask for fewer ranges at once: Remote(in_flight=)",
}


def refusal(status: int, headers: Mapping[str, str], url: str) -> Fault | ShardstreamError:
    """The failure that a status other than 200, 206 and 416 means."""
    problem = f"{_SAID.get(status, 'the server answers with an error')} (status {status})"
    if status in _PASSING or (status >= 500 and status not in _LASTING):
        return Fault(problem, wait=retry_after(headers.get("Retry-After"), time.time()), cure=_CURES.get(status))
    kind = ShardMissingError if status in {404, 410} else UnavailableError
    error = kind(problem, url=url, cure=_CURES.get(status))
    error.errno = errno.EACCES if status in {401, 403} else None
    return error
