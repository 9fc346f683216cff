"""Archives in memory for tests, made by Python's tarfile or block by block, and a source over bytes."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from wds_tools.errors import TruncatedShardError
from wds_tools.sample import RawSample
from wds_tools.shard import iter_samples

END = bytes(1024)


class Memory:
    """A source over bytes, which keeps what was read of it."""

    def __init__(self, content: bytes, url: str = "memory.tar") -> None:
        self.url = url
        self.content = content
        self.reads: list[tuple[int, int]] = []

    def size(self) -> int:
        return len(self.content)

    def read_into(self, offset: int, buffer: memoryview) -> None:
        self.reads.append((offset, len(buffer)))
        if offset + len(buffer) > len(self.content):
            raise TruncatedShardError("read beyond the end", url=self.url, offset=offset)
        buffer[:] = self.content[offset : offset + len(buffer)]

    def announce(self, offset: int, length: int) -> None:
        pass

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


def archive(
    members: Iterable[tuple[str, bytes]],
    *,
    form: Literal[0, 1, 2] = tarfile.USTAR_FORMAT,
    pax: Mapping[str, str] | None = None,
) -> bytes:
    """What tarfile writes for these members, up to and with the two zero blocks."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form, pax_headers=pax) as made:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            made.addfile(info, io.BytesIO(data))
        end = made.offset
    return stream.getvalue()[:end] + END


def entry(name: str, data: bytes = b"", *, form: Literal[0, 1, 2] = tarfile.USTAR_FORMAT, **facts: Any) -> bytes:
    """One member's blocks as tarfile writes them: `type`, `linkname`, `pax_headers`, `size` and so on as given."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for fact, value in facts.items():
        setattr(info, fact, value)
    return info.tobuf(form, "utf-8", "surrogateescape") + data + bytes(-len(data) % 512)


def with_checksum(block: bytes) -> bytes:
    """The same 512 bytes with a right checksum."""
    total = sum(block[:148]) + 256 + sum(block[156:])
    return block[:148] + b"%06o\0 " % total + block[156:]


def patched(block: bytes, begin: int, value: bytes) -> bytes:
    """A member's blocks with bytes of the header replaced, and the checksum made right again."""
    header = block[:begin] + value + block[begin + len(value) : 512]
    return with_checksum(header) + block[512:]


def gnu_tar(*arguments: str, folder: Path, given: bytes | None = None) -> bytes:
    """Runs GNU tar in a folder; gives what it printed."""
    command = ["tar", *arguments]
    done = subprocess.run(command, cwd=folder, input=given, capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})
    return done.stdout


def contents(sample: Mapping[str, Any]) -> dict[str, Any]:
    """A sample with its values as bytes and without `__url__`."""
    return {
        name: value if isinstance(value, str) else bytes(value) for name, value in sample.items() if name != "__url__"
    }


def read(content: bytes) -> list[dict[str, Any]]:
    """The samples of a shard, as bytes."""
    return [contents(sample) for sample in iter_samples(Memory(content))]


def keys(samples: Iterable[RawSample]) -> list[str]:
    return [sample["__key__"] for sample in samples]
