"""`python -m tests.fuzz.fuzz_samples [SECONDS]`: reading, parsing and cutting whole samples in C.

As fuzz_pixels, under the same sanitizers, with samples of a shard to begin with: their pictures upright and turned,
with EXIF in either byte order, with fields before and behind, under short names and under long ones.
"""

from __future__ import annotations

import os
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.builders import write_tar
from tests.fuzz.fuzz_pixels import build, run
from tests.wds_tools.pictures.made import jpeg, saved, scene, with_orientation


def main() -> int:
    """Fuzz for so many seconds."""
    seconds = sys.argv[1] if len(sys.argv) > 1 else "60"
    with tempfile.TemporaryDirectory() as folder:
        return run(build(Path(folder), "fuzz_samples"), seconds, begin(Path(folder)), os.cpu_count() or 1)


def begin(folder: Path) -> list[Path]:
    """Samples without the archive's end, each in a file of its own."""
    small = jpeg(50, 38)
    samples = {
        "plain": [("k.jpg", small), ("k.cls", b"7")],
        "label first": [("k.cls", b"7"), ("k.txt", b"words"), ("k.jpg", with_orientation(small, 6))],
        "big endian": [("a/k.JPG", with_orientation(jpeg(31, 44, progressive=True), 3, order=">")), ("a/k.cls", b"1")],
        "long name": [("k" * 130 + ".jpg", saved(scene(40, 30)[:, :, 0], "JPEG")), ("k" * 130 + ".cls", b"2")],
        "two pictures": [("k.png", small), ("k.jpg", jpeg(1, 1))],
    }
    paths = []
    for number, (name, members) in enumerate(samples.items()):
        form = tarfile.PAX_FORMAT if number % 2 else tarfile.GNU_FORMAT
        path = write_tar(folder / f"{name}.tar", members, form=form)
        data = path.read_bytes()
        blocks = [data[at : at + 512] for at in range(0, len(data), 512)]
        while not any(blocks[-1]):
            blocks.pop()
        path.write_bytes(b"".join(blocks))
        paths.append(path)
    return paths


if __name__ == "__main__":
    sys.exit(main())
