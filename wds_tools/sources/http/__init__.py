"""Shards on web servers: ranges of them (`HttpFile`), and whole ones from the first byte on (`HttpStream`).

From the address inwards: `file`, `stream` -> `subject` (one object) -> `route` (redirects) -> `ask` (one request) ->
`pools`, `connections` (urllib3), with `hosts` (what is known of each), `retry`, `rate`, `auth`, `facts` and `refusals`
beside.
"""

from wds_tools.sources.http.file import HttpFile
from wds_tools.sources.http.pools import close_idle
from wds_tools.sources.http.stream import HttpStream

__all__ = ["HttpFile", "HttpStream", "close_idle"]
