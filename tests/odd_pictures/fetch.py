"""Fetch the pictures that other projects try their decoders with, from PyPI and Debian, into build/odd-pictures.

None of them is kept in this repository: some have no licence of their own. pip fetches Pillow's source distribution, of
the version that is installed here; apt the rest, with a list of sources of its own, so that no setting of the machine
is changed or needed and no rights beyond a user's (Debian's keys come with the package debian-archive-keyring). What is
there already is not fetched again.

PngSuite: Debian has no package of it. libpng's source has its own copy, and Go's a part.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

__all__ = ["SUITES", "Suite", "pictures"]

_RELEASE = "bookworm"
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class Suite(NamedTuple):
    """Some pictures of another project.

    Attributes:
        name: for the table.
        fetch: unpacks them into a folder.
        parts: folders in there, as glob patterns, that hold pictures, and other files.
    """

    name: str
    fetch: Callable[[Path], None]
    parts: tuple[str, ...]


def _pillow(folder: Path) -> None:
    wanted = f"pillow=={importlib.metadata.version('pillow')}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--no-binary", "pillow", "--dest", folder, wanted], check=True)
    (archive,) = folder.glob("pillow-*.tar.gz")
    _unpack(archive, folder)


def _source(package: str) -> Callable[[Path], None]:
    def fetch(folder: Path) -> None:
        subprocess.run([*_apt(folder), "source", "--download-only", package], check=True, cwd=folder)
        (archive,) = folder.glob("*.orig.tar.*z")
        _unpack(archive, folder)

    return fetch


def _binary(package: str) -> Callable[[Path], None]:
    def fetch(folder: Path) -> None:
        subprocess.run([*_apt(folder), "download", package], check=True, cwd=folder)
        (archive,) = folder.glob("*.deb")
        subprocess.run(["dpkg", "-x", archive, folder / "unpacked"], check=True)

    return fetch


def _unpack(archive: Path, folder: Path) -> None:
    target = folder / "unpacked"
    target.mkdir()
    subprocess.run(["tar", "-xf", archive, "-C", target], check=True)


def _apt(folder: Path) -> list[str | Path]:
    """apt-get with a state and a list of its own, which it has read."""
    own = folder.parent / "apt"
    for name in ("state/lists/partial", "cache/archives/partial"):
        (own / name).mkdir(parents=True, exist_ok=True)
    place = f"[signed-by={_KEYRING}] http://deb.debian.org/debian {_RELEASE} main\n"
    (own / "sources.list").write_text(f"deb {place}deb-src {place}")
    options = {
        "Dir::State": own / "state",
        "Dir::Cache": own / "cache",
        "Dir::Etc::SourceList": own / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "APT::Sandbox::User": "root",
    }
    command: list[str | Path] = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items())]
    if not list((own / "state/lists").glob("*Sources*")):
        subprocess.run([*command, "update"], check=True)
    return command


SUITES = (
    Suite("Pillow", _pillow, ("pillow-*/Tests/images",)),
    Suite("Go", _binary("golang-1.19-src"), ("usr/share/go-1.19/src/image",)),
    Suite("libjpeg-turbo", _source("libjpeg-turbo"), ("libjpeg-turbo-*/testimages",)),
    Suite(
        "libpng with PngSuite",
        _source("libpng1.6"),
        ("libpng-*/contrib/pngsuite", "libpng-*/contrib/testpngs", "libpng-*/contrib/gregbook", "libpng-*/*.png"),
    ),
)


def pictures(suite: Suite, folder: Path) -> list[Path]:
    """All files of a suite's folders, fetched first if they are not there; not all of them are pictures."""
    own = folder / suite.name.split()[0].lower()
    if not (own / "done").exists():
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir(parents=True)
        suite.fetch(own)
        (own / "done").touch()
    found = [path for part in suite.parts for path in (own / "unpacked").glob(part)]
    return sorted(file for path in found for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file())
