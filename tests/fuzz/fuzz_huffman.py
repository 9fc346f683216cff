"""`python -m tests.fuzz.fuzz_huffman [SECONDS [PROCESSES]]`: the kernel's own Huffman decoder against libjpeg's.

As fuzz_pixels, under the same sanitizers. The pictures to begin with are small, so that a processor tries some 15,000
inputs a second, and baseline, so that most of them reach the decoder.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import simplejpeg

from tests.fuzz.fuzz_pixels import build, run
from tests.wds_tools.pictures.made import jpeg, saved, scene


def main() -> int:
    """Fuzz for so many seconds, by default in one process a core."""
    seconds = sys.argv[1] if len(sys.argv) > 1 else "60"
    processes = int(sys.argv[2]) if len(sys.argv) > 2 else os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        return run(build(Path(folder), "fuzz_huffman"), seconds, begin(Path(folder)), processes)


def begin(folder: Path) -> list[Path]:
    """Small pictures with many codes and with few, with the standard's tables and with their own."""
    small, noise = scene(34, 26), np.random.default_rng(0).integers(0, 256, (20, 24, 3), np.uint8)
    kinds = {kind: simplejpeg.encode_jpeg(small, 80, "RGB", kind) for kind in ("444", "422", "420", "440", "411")}
    kinds["grey"] = saved(small[:, :, 0], "JPEG")
    kinds["own tables"] = jpeg(34, 26, optimize=True)
    kinds["own tables, few codes"] = jpeg(40, 40, optimize=True, quality=10)
    kinds["long codes"] = saved(noise, "JPEG", quality=100, subsampling="4:4:4")
    kinds["long codes of its own"] = saved(noise, "JPEG", quality=98, optimize=True)
    kinds["grey, own tables"] = saved(noise[:, :, 0], "JPEG", quality=95, optimize=True)
    kinds["restarts"] = jpeg(34, 26, restart_marker_blocks=1)
    kinds["progressive"] = jpeg(34, 26, progressive=True)
    kinds["flat"] = saved(np.full((60, 60, 3), 77, np.uint8), "JPEG")
    kinds["one pixel"] = jpeg(1, 1)
    paths = [folder / f"{name}.jpg" for name in kinds]
    for path, data in zip(paths, kinds.values(), strict=True):
        path.write_bytes(data)
    return paths


if __name__ == "__main__":
    sys.exit(main())
