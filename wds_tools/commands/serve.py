"""`wds serve`: the files of a folder over HTTP, for the machines of a laboratory."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from urllib.parse import quote

import click

from wds_tools.addresses import is_shard_name
from wds_tools.commands import options
from wds_tools.contents import printable
from wds_tools.index.listing import LISTING_NAME
from wds_tools.serve import Served, Server, serve

__all__ = ["serve_command"]

GRACE_S = 5.0
"""For answers that are under way when it is stopped: a range of 4 MiB at 1 MB/s."""

EPILOG = """\b
Examples:
  wds serve out/train
  wds serve --host 0.0.0.0 --port 9000 /data/shards

For more than a few machines, or for the internet, use nginx: docs/serving.md.

Exit status: 0 ended by Ctrl-C, 2 used wrongly, 143 ended by SIGTERM.
"""


@click.command("serve", epilog=EPILOG)
@click.argument("directory", metavar="DIR", type=options.Target(path_type=Path))
@click.option(
    "--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="To listen at; 0.0.0.0 is all of them."
)
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=8000, show_default=True, help="Port to listen at; 0 takes any."
)
@click.option("--connections", type=click.IntRange(min=1), default=256, show_default=True, help="Most clients at once.")
@click.option("-v", "--verbose", is_flag=True, help="A line for each request, on stderr.")
def serve_command(directory: Path, *, host: str, port: int, connections: int, verbose: bool) -> None:
    """Serve the files of DIR over HTTP to other machines.

    Without --host only this machine can read them. With it all who reach the address can: there are no passwords and no
    encryption. Hidden files are not served, nor anything outside DIR. The url is printed on stdout; Ctrl-C ends it.
    """
    tally = _Tally(verbose=verbose)
    server = serve(directory, host=host, port=port, connections=connections, on_request=tally.add).open()
    try:
        _introduce(server)
        click.echo(server.url)  # last, so that a script which has read it need not wait for more
        threading.Event().wait()
    except KeyboardInterrupt:
        server.close(grace_s=GRACE_S)
        click.echo(f"stopped; served {tally}", err=True)
    finally:
        server.close()


class _Tally:
    """Counts what was served, from all of the server's threads."""

    def __init__(self, *, verbose: bool) -> None:
        self._verbose = verbose
        self._lock = threading.Lock()
        self._requests = 0
        self._bytes = 0

    def add(self, served: Served) -> None:
        """Count one request, and show it where that is wanted."""
        with self._lock:
            self._requests += 1
            self._bytes += served.sent
            if self._verbose:
                part = f" {served.range}" if served.range else ""
                asked = printable(f"{served.method} {served.path}{part}".strip() or "no request")
                click.echo(f"{served.client} {asked}: {served.status}, {options.size(served.sent)}", err=True)

    def __str__(self) -> str:
        return f"{options.counted(self._requests, 'request')}, {options.size(self._bytes)}"


def _introduce(server: Server) -> None:
    folder = server.directory
    click.echo(f"serving {printable(str(folder))}, read-only; Ctrl-C ends it", err=True)
    if not server.loopback:
        click.echo(
            f"warning: whoever reaches {server.host}, port {server.port}, can read all of it: there is no password, "
            "and nothing is encrypted",
            err=True,
        )
    if (listing := _listing(folder)) is not None:
        url = f"{server.url}/{quote(os.fsencode(listing.relative_to(folder)))}"
        click.echo(f'in Python: loaders.torch.ShardLoader("{url}", batch_size=256, ...)', err=True)
    elif any(map(is_shard_name, _names(folder))):
        click.echo(f"there is no {LISTING_NAME}: `wds index` makes it, and training can then begin anywhere", err=True)


def _listing(folder: Path) -> Path | None:
    """The folder's listing, or else that of a folder in it."""
    places = [folder, *(folder / name for name in _names(folder))]
    return next((place / LISTING_NAME for place in places if (place / LISTING_NAME).is_file()), None)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))  # noqa: PTH208 - names are wanted
    except OSError:
        return []
