"""What is trained on: shards in a folder and `wds serve` over it, both of which can be broken and mended."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Self

from tests.builders import write_shard
from wds_tools.atomic import temporary_beside
from wds_tools.make_index import make_index

__all__ = ["Shards", "Web", "content", "key_of"]

ROOT = Path(__file__).parents[2]
SHARDS, SAMPLES = 24, 50


def key_of(number: int) -> str:
    """A sample's key, which is also what its field `txt` says."""
    return f"{number // SAMPLES:03d}/{number:06d}"


def content(number: int) -> bytes:
    """A sample's field `bin`: 8 to 26 KB that come nowhere else."""
    return random.Random(number).randbytes(8_000 + 997 * (number % 19))


class Shards:
    """A folder of shards with their listing, 20 MB, and a copy to mend it by.

    Args:
        folder: for both.
    """

    def __init__(self, folder: Path) -> None:
        self.samples = SHARDS * SAMPLES
        self.folder = folder / "shards"
        self._pristine = folder / "pristine"
        self._aside = folder / "aside"
        self._aside.mkdir()
        for shard in range(SHARDS):
            numbers = range(shard * SAMPLES, (shard + 1) * SAMPLES)
            samples = [(key_of(n), {"bin": content(n), "cls": b"%d" % n, "txt": key_of(n).encode()}) for n in numbers]
            write_shard(self._pristine / f"s-{shard:02d}.tar", samples)
        make_index(str(self._pristine))
        shutil.copytree(self._pristine, self.folder)

    def truncate(self, draw: random.Random) -> str:
        """Cut a shard somewhere, in place; its name."""
        name = self._drawn(draw)
        os.truncate(self.folder / name, draw.randrange((self.folder / name).stat().st_size - 1024))
        return name

    def cut(self, draw: random.Random) -> str:
        """Put a shorter copy in the place of a shard; its name.

        Not in place: a server that sends pages of a file by reference, as sendfile does, sends zeros where the file is
        cut meanwhile, under the version that it had before.
        """
        name = self._drawn(draw)
        data = (self.folder / name).read_bytes()
        os.link(self.folder / name, self._aside / name)
        other = temporary_beside(self.folder / name)
        other.write_bytes(data[: draw.randrange(len(data) - 1024)])
        other.replace(self.folder / name)
        return name

    def replace(self, draw: random.Random) -> str:
        """Put a whole shard of other samples in the place of one, as copying tools do it; its name."""
        name = self._drawn(draw)
        os.link(self.folder / name, self._aside / name)
        other = temporary_beside(self.folder / name)
        write_shard(other, [(f"other/{n}", {"bin": content(n), "cls": b"-1", "txt": b"other"}) for n in range(7)])
        other.replace(self.folder / name)
        return name

    def delete(self, draw: random.Random) -> str:
        """Take a shard away; its name."""
        name = self._drawn(draw)
        (self.folder / name).rename(self._aside / name)
        return name

    def mend(self, name: str) -> None:
        """Bring it back as it was: the same file, so that nobody sees another version of it by its number or time."""
        whole = self._pristine / name
        if (self._aside / name).exists():
            (self._aside / name).replace(self.folder / name)
        else:
            (self.folder / name).write_bytes(whole.read_bytes())
            facts = whole.stat()
            os.utime(self.folder / name, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    def _drawn(self, draw: random.Random) -> str:
        return f"s-{draw.randrange(SHARDS):02d}.tar"


class Web:
    """`wds serve` over a folder, in a process of its own that can be killed and stopped. It keeps its port.

    Args:
        folder: what is served.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = 0
        self._process: subprocess.Popen[str] | None = None
        self._soon: threading.Timer | None = None
        self._start()

    @property
    def url(self) -> str:
        """Of the folder."""
        return f"http://127.0.0.1:{self._port}/"

    @property
    def processes(self) -> set[int]:
        """The server's, where it lives."""
        return set() if self._process is None else {self._process.pid}

    def die(self) -> None:
        """Be killed, with all that it is sending."""
        assert self._process is not None
        self._process.kill()
        self._process.communicate()
        self._process = None

    def stand(self) -> None:
        """Send nothing any more, and keep all connections."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def mend(self) -> None:
        """Be there again, if it is not."""
        if self._soon is not None:
            self._soon.join()
            self._soon = None
        else:
            self._back()

    def mend_in(self, seconds: float) -> None:
        """The same after a while, whatever the caller does meanwhile."""
        self._soon = threading.Timer(seconds, self._back)
        self._soon.start()

    def _back(self) -> None:
        if self._process is None:
            self._start()
        else:
            self._process.send_signal(signal.SIGCONT)

    def _start(self) -> None:
        serve = "from wds_tools.cli import main; main()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", serve, "serve", str(self._folder), "--port", str(self._port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
        )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        self._port = int(said.strip().rstrip("/").rpartition(":")[2])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._soon is not None:
            self._soon.join()
        if self._process is not None:
            self.die()
