"""`python -m tests.fuzz.fuzz_pixels [SECONDS]`: the decode kernel under sanitizers, fed with changed pictures.

Compiles the kernel's C files without Python, with gcc's address and undefined-behaviour sanitizers, and lets one
process a core run. Any report of a sanitizer ends it with status 1. Needs gcc and libjpeg-turbo's headers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import simplejpeg
from PIL import Image

from tests.wds_tools.pictures.made import jpeg, saved, scene

PICTURES = Path(__file__).parents[2] / "wds_tools" / "pictures"
KERNEL = [PICTURES / f"_pixels_{name}.c" for name in ("jpeg", "resize", "transcode", "huffman", "codes")]
KERNEL += [PICTURES / f"_pixels_{name}.c" for name in ("sample", "facts", "place")]
KERNEL += [PICTURES.parent / "_walk_member.c"]
# PIXELS_PLAIN: no choice of code by processor, which happens before the sanitizer is ready
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
FLAGS = ["-std=gnu11", "-O2", "-g", "-march=native", "-DPIXELS_PLAIN", *SANITIZERS]


def main() -> int:
    """Fuzz for so many seconds."""
    seconds = sys.argv[1] if len(sys.argv) > 1 else "60"
    with tempfile.TemporaryDirectory() as folder:
        return run(build(Path(folder), "fuzz_pixels"), seconds, begin(Path(folder)), os.cpu_count() or 1)


def build(folder: Path, name: str) -> str:
    """The compiled program of that name."""
    program = str(folder / name)
    sources = map(str, [Path(__file__).with_name(f"{name}.c"), *KERNEL])
    subprocess.run(["gcc", *FLAGS, f"-I{PICTURES}", *sources, "-ljpeg", "-lm", "-ldl", "-o", program], check=True)
    return program


def run(program: str, seconds: str, pictures: list[Path], processes: int) -> int:
    """Let it run in so many processes, each with changes of its own; 1 where one of them fails."""
    runs = [subprocess.Popen([program, seconds, str(seed), *map(str, pictures)]) for seed in range(processes)]
    ends = [process.wait() for process in runs]
    return int(any(ends))


def begin(folder: Path) -> list[Path]:
    """One small picture of each kind, written to the folder."""
    small = scene(50, 38)
    kinds = {kind: simplejpeg.encode_jpeg(small, 80, "RGB", kind) for kind in ("444", "422", "420", "440", "411")}
    kinds["grey"] = saved(small[:, :, 0], "JPEG")
    kinds["rgb"] = saved(Image.fromarray(small), "JPEG", keep_rgb=True)
    kinds["progressive"] = jpeg(50, 38, progressive=True)
    kinds["progressive grey"] = saved(small[:, :, 1], "JPEG", progressive=True)
    kinds["restarts"] = jpeg(50, 38, restart_marker_blocks=1)
    kinds["progressive restarts"] = jpeg(50, 38, restart_marker_rows=1, progressive=True, subsampling="4:2:2")
    kinds["cmyk"] = saved(Image.fromarray(small).convert("CMYK"), "JPEG")
    kinds["one pixel"] = jpeg(1, 1)
    kinds["wide"] = jpeg(300, 3)
    kinds["high"] = jpeg(3, 300, optimize=True)
    paths = [folder / f"{name}.jpg" for name in kinds]
    for path, data in zip(paths, kinds.values(), strict=True):
        path.write_bytes(data)
    return paths


if __name__ == "__main__":
    sys.exit(main())
