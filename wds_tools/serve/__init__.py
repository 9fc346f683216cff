"""A small static web server for the shards of one folder: what `wds serve DIR` runs, and what tests stream from.

    with serve("out/train") as server:
        loader = ShardLoader(f"{server.url}/dataset.json", ...)

GET and HEAD of HTTP/1.1 with keep-alive, one range a request, ETags and conditions (RFC 9110, 9112). It reads and never
writes, and serves nothing outside its folder, nothing hidden and nothing unfinished. It is meant for the network of a
laboratory: no TLS, no passwords, and loopback only unless an address is given. Anything more is nginx's.

`head` parses requests and `conditions` decides answers, both pure; `files` opens what a path names; `connection` speaks
with one client; `web` accepts them; `server` puts files behind it.
"""

from wds_tools.serve.connection import Served
from wds_tools.serve.server import Server, serve
from wds_tools.serve.web import WebServer

__all__ = ["Served", "Server", "WebServer", "serve"]
