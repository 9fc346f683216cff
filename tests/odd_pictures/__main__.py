"""`python -m tests.odd_pictures [FOLDER ...]`: other projects' test pictures, each by each decoder.

Without folders the suites are fetched (see `fetch`). Each picture is decoded whole and in parts, by Pillow alone and by
each backend, each in a process of its own with 2 GiB and 30 seconds, and held against Pillow's. Prints tables; ends
with status 1 where a picture became another one than Pillow's, or a decoder left with anything but a picture or a
`PictureError`.

About five minutes on one core. On purpose not part of the tests: they ask nobody on the network for anything.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

from tests.odd_pictures import wanted
from tests.odd_pictures.contained import contained
from tests.odd_pictures.fetch import SUITES, pictures
from tests.odd_pictures.judge import decoders, judged
from tests.odd_pictures.table import Tried, lines
from wds_tools.pictures.sniff import sniff

FETCHED = Path(__file__).parents[2] / "build" / "odd-pictures"
_NO_PICTURES = frozenset({".pdf", ".icc", ".icm"})
"""What Pillow may write, or has among its tests, and calls a picture."""


def main() -> int:
    """Try all; returns the exit status."""
    import simplejpeg  # noqa: F401 - before the forks, so that a child does not spend its time on it

    Image.init()
    tried = list(_tried())
    sys.stdout.write("\n".join(lines(tried)) + "\n")
    return int(any(verdict.outcome in {"differs", "broke"} for each in tried for verdict in each.verdicts.values()))


def _tried() -> Iterator[Tried]:
    by = decoders()
    with tempfile.TemporaryDirectory() as folder:
        for suite, path in _files():
            data = path.read_bytes()
            form = contained(lambda data=data: {"form": wanted.format_of(data)}).value  # type: ignore[misc]
            form = form["form"] if form else ""
            if _is_picture(path, data, form):
                yield Tried(suite, path, form, judged(path, Path(folder), by))


def _files() -> Iterator[tuple[str, Path]]:
    for name in sys.argv[1:]:
        yield from ((Path(name).name, path) for path in sorted(Path(name).rglob("*")) if path.is_file())
    for suite in SUITES if not sys.argv[1:] else ():
        yield from ((suite.name, path) for path in pictures(suite, FETCHED))


def _is_picture(path: Path, data: bytes, form: str) -> bool:
    named = path.suffix.lower() in Image.registered_extensions() and path.suffix.lower() not in _NO_PICTURES
    return named or bool(form) or bool(sniff(data))


if __name__ == "__main__":
    sys.exit(main())
