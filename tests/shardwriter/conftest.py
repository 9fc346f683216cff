"""What the writer's tests share: pictures, and readers that are not ours."""

import io
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

Members = list[tuple[str, bytes]]


@pytest.fixture(scope="session")
def picture() -> Callable[..., bytes]:
    """Bytes of a small picture that differs with `shade`."""

    def make(shade: int = 0, kind: str = "JPEG", size: tuple[int, int] = (24, 16)) -> bytes:
        stream = io.BytesIO()
        Image.linear_gradient("L").resize(size).point(lambda level: (level + shade) % 256).convert("RGB").save(
            stream, kind
        )
        return stream.getvalue()

    return make


@pytest.fixture(scope="session")
def members() -> Callable[[Path], Members]:
    """Name and bytes of each member of a shard, as Python's tarfile reads them."""

    def read(shard: Path) -> Members:
        with tarfile.open(shard, "r:") as tar:
            return [(member.name, tar.extractfile(member).read()) for member in tar]  # type: ignore[union-attr]

    return read


@pytest.fixture(scope="session")
def gnu_tar() -> Callable[[Path], list[str]]:
    """The names in a shard, as GNU tar lists them; fails where tar complains in any way."""

    def names(shard: Path) -> list[str]:
        # C.UTF-8: else GNU tar prints the bytes of other names as octal numbers.
        done = subprocess.run(
            ["tar", "tf", shard],
            capture_output=True,
            text=True,
            env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
            check=True,
        )
        assert done.stderr == ""
        return done.stdout.splitlines()

    return names


@pytest.fixture(scope="session")
def webdataset_samples() -> Callable[..., list[dict[str, Any]]]:
    """The samples of a shard as webdataset yields them, bytes as they are."""

    def read(*shards: Path) -> list[dict[str, Any]]:
        from webdataset.tariterators import group_by_keys, tar_file_expander

        samples: list[dict[str, Any]] = []
        for shard in shards:
            with shard.open("rb") as stream:  # its own opener leaves the file to the garbage collector
                samples += group_by_keys(tar_file_expander([{"url": str(shard), "stream": stream}]))
        return samples

    return read


@pytest.fixture(scope="session")
def script() -> Callable[..., "subprocess.Popen[str]"]:
    """Start Python on some lines of code with the packages at hand."""

    def start(code: str, *arguments: object) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    return start
