"""nginx as the well-behaved server: the files of a folder on a free port of the loopback."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["NGINX", "serving"]

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
"""Where nginx lies; None where it is not installed."""

_CONFIGURATION = """
daemon on;
master_process off;
pid {work}/pid;
error_log {work}/error.log;
events {{ worker_connections 512; }}
http {{
    access_log {work}/access.log;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000;
    client_body_temp_path {work}/body;
    proxy_temp_path {work}/proxy;
    fastcgi_temp_path {work}/fastcgi;
    uwsgi_temp_path {work}/uwsgi;
    scgi_temp_path {work}/scgi;
    default_type application/octet-stream;
    {extra_http}
    server {{
        listen 127.0.0.1:{port};
        root {folder};
        {extra}
    }}
}}
"""


@contextmanager
def serving(folder: Path, work: Path, *, extra: str = "", extra_http: str = "") -> Iterator[str]:
    """Serve the files of `folder`; gives the address of its root, without the last slash.

    Args:
        folder: what is served.
        work: an empty folder for nginx's own files (`access.log` among them).
        extra: more lines for the server's block.
        extra_http: more lines for the block around it.
    """
    assert NGINX is not None, "nginx is not installed"
    port = _start(NGINX, work, {"folder": str(folder), "extra": extra, "extra_http": extra_http})
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        _stop(int((work / "pid").read_text()))


def _stop(number: int) -> None:
    process = os.pidfd_open(number)
    try:
        signal.pidfd_send_signal(process, signal.SIGTERM)
        ended = select.poll()
        ended.register(process, select.POLLIN)
        ended.poll()
    finally:
        os.close(process)


def _start(nginx: str, work: Path, settings: dict[str, str]) -> int:
    for _ in range(5):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port: int = free.getsockname()[1]
        text = _CONFIGURATION.format(work=work, port=port, **settings)
        (work / "nginx.conf").write_text(text)
        # It goes into the background when it listens. Somebody else may have taken the port meanwhile.
        started = subprocess.run(
            [nginx, "-p", str(work), "-c", str(work / "nginx.conf")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        if started.returncode == 0:
            return port
    raise RuntimeError(f"nginx does not start: {(work / 'error.log').read_text()}")
