"""`python -m benchmarks.peers.install`: an environment for each peer that wants one, so that their pins cannot clash.

Each is a venv with what its `requirements-NAME.txt` lists and nothing that this would draw in: the rest (torch, Pillow,
OpenCV) comes from the environment that runs this, which a line in a .pth file puts behind the venv's own packages. That
keeps a CUDA build of torch out, and all peers on the same torch. What cannot be installed is told; the others go on.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from benchmarks.material import DEFAULT_FOLDER
from benchmarks.race import ENVIRONMENTS

__all__ = ["install", "names"]

FOLDER = Path(__file__).parent


def names() -> list[str]:
    """The environments there are."""
    return sorted(path.stem.removeprefix("requirements-") for path in FOLDER.glob("requirements-*.txt"))


def install(name: str, target: Path) -> str:
    """Make one environment anew; why that failed, or "".

    Args:
        name: of the requirements file.
        target: the venv's folder; not there afterwards where it failed.
    """
    shutil.rmtree(target, ignore_errors=True)
    venv.create(target, with_pip=True)
    own = subprocess.run(
        [target / "bin" / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.strip()
    (Path(own) / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [
        str(target / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--quiet",
        "--no-deps",
    ]
    done = subprocess.run(
        [*pip, "-r", FOLDER / f"requirements-{name}.txt"], stderr=subprocess.PIPE, text=True, check=False
    )
    if done.returncode == 0:
        return ""
    shutil.rmtree(target)
    return next((line.strip() for line in done.stderr.splitlines() if "error" in line.lower()), "pip failed")


def main(arguments: list[str] | None = None) -> int:
    """Make those that were asked for; 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.install", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names()))
    parser.add_argument("--into", type=Path, default=DEFAULT_FOLDER / ENVIRONMENTS, help="[%(default)s]")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(names()):
        parser.error(f"there is no environment {', '.join(sorted(unknown))}")
    failed = 0
    for name in options.names or names():
        reason = install(name, options.into / name)
        failed += bool(reason)
        print(f"{name}: {reason or 'installed'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
