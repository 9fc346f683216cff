"""What this installation and this machine can do, and what is in the way: the facts behind `wds doctor`.

Each check looks at one thing and returns a Finding: what was found, whether that is as it should be, and what to do.
pip hides what a build says, so that a kernel that was not built shows itself only here and in a loader's report. The
two speeds are measured, in about a second: how fast one core decodes a picture of the package's own, and how fast the
largest file of a folder comes from its disk. They are what a training run on this machine can hope for.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

import wds_tools
from wds_tools.cores import usable_cores
from wds_tools.errors import ShardstreamError, UsageError, shown
from wds_tools.index.cache import default_cache_dir
from wds_tools.pictures.decode import BACKEND, Box, Decoder
from wds_tools.pictures.facts import read_facts
from wds_tools.pictures.kernel import capability
from wds_tools.sources.local import LocalFile

__all__ = ["Finding", "State", "examine"]

State: TypeAlias = Literal["fine", "advice", "wrong"]

_PACKAGES = ("numpy", "pillow", "torch", "webdataset", "simplejpeg", "urllib3")
_EXTRAS = {
    "zstandard": ("zstd", ".tar.zst shards"),
    "fsspec": ("fsspec", "object stores"),
    "s3fs": ("s3", "s3:// addresses"),
    "pyarrow": ("parquet", "Parquet manifests"),
    "pillow_heif": ("heic", "HEIC pictures"),
    "pillow_jxl": ("jxl", "JPEG XL pictures"),
    "matplotlib": ("plot", "plots"),
    "ray": ("ray", "packing on several machines"),
}
_OPEN_FILES = 4096  # a loader keeps a quarter of the limit as open shards, at most 1,024
_SHARED = 1 << 30
_PICTURE_BYTES = 107_000  # of an ImageNet-like picture
_READ = 256 << 20
_LOOKED_AT = 100  # folders of a folder, and files of each: whoever has millions waits no second for it
_DECODE_S = 0.5
_QUIET = 0.8  # of a core: less, and others use it


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one check found.

    Attributes:
        name: what was looked at.
        value: what was found, with its unit.
        state: "fine", "advice" where something could be better, "wrong" where something will fail.
        advice: what to do, one sentence; empty where there is nothing to do.
    """

    name: str
    value: str
    state: State = "fine"
    advice: str = ""


def examine(folder: Path | None = None) -> Iterator[Finding]:
    """All checks, one after the other.

    Args:
        folder: whose disk is measured, by reading its largest file, or one of those in its folders; without it no disk
            is.

    Raises:
        UsageError: the folder holds no file that could be read.
    """
    checks: tuple[Callable[[], Finding], ...] = (
        _versions, _extras, _kernel, _cores, _decoding, _memory, _shared_memory, _open_files, _cache_folder
    )  # fmt: skip
    for check in checks:
        yield check()
    if folder is not None:
        yield _disk(folder)


def _versions() -> Finding:
    found = [f"shardstream {wds_tools.__version__}", f"Python {platform.python_version()}"]
    missing = [name for name in _PACKAGES if _version(name) is None]
    found += [f"{name} {_version(name)}" for name in _PACKAGES if name not in missing]
    found.append(f"{platform.system()} {platform.machine()}")
    if not missing:
        return Finding(name="versions", value=", ".join(found))
    advice = f"{', '.join(missing)} cannot be found: install the package again with its dependencies."
    return Finding(name="versions", value=", ".join(found), state="advice", advice=advice)


def _version(name: str) -> str | None:
    with suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(name)
    return None


def _extras() -> Finding:
    there = {module: importlib.util.find_spec(module) is not None for module in _EXTRAS}
    missing = [f"{what} (shardstream[{extra}])" for name, (extra, what) in _EXTRAS.items() if not there[name]]
    value = ", ".join(_EXTRAS[name][1] for name, found in there.items() if found) or "none"
    advice = f"Not installed, and only needed for: {', '.join(missing)}." if missing else ""
    return Finding(name="extras", value=value, advice=advice)


def _kernel() -> Finding:
    can = capability()
    parts = [name for name, there in (("jpeg", can.jpeg), ("huffman", can.huffman), ("resize", can.resize)) if there]
    value = f"{BACKEND}; kernel: {' + '.join(parts) or 'none'}{f' ({can.version})' if can.version else ''}"
    return Finding(name="decoding", value=value, state="advice" if can.missing else "fine", advice=can.missing)


def _cores() -> Finding:
    usable, there = usable_cores(), os.cpu_count() or 1
    advice = ""
    if usable < there:
        advice = "The affinity mask or the container's quota allows no more; loaders use as many threads as that."
    return Finding(name="cores", value=f"{usable} of {there} usable", advice=advice)


def _decoding() -> Finding:
    photo = (Path(__file__).parent / "photos" / "owl.jpg").read_bytes()
    decoder, facts, out = Decoder(), read_facts(photo), np.empty((224, 224, 3), np.uint8)
    width, height = decoder.size(facts)
    side = min(width, height) * 3 // 4
    done, begun, worked = 0, time.perf_counter(), time.thread_time()
    while (seconds := time.perf_counter() - begun) < _DECODE_S:
        decoder.decode(photo, box=Box(width // 8, height // 8, side, side), size=(224, 224), out=out)
        done += 1
    share = min(1.0, (time.thread_time() - worked) / seconds)
    rate = done / (
        seconds * share
    )  # of a core that nobody else uses: what is busy now may be over when training begins
    value = f"{rate:,.0f} crops of a {width}x{height} JPEG a second on one core, {rate * usable_cores():,.0f} on all"
    if share > _QUIET:
        return Finding(name="speed", value=value)
    advice = f"Just now this process gets {share:.0%} of a core, as others use them: loaders are slower by as much."
    return Finding(name="speed", value=value, advice=advice)


def _memory() -> Finding:
    free = _kilobytes("/proc/meminfo", "MemAvailable:")
    limit = _cgroup_memory()
    if limit is not None:
        free = limit if free is None else min(free, limit)
    if free is None:
        return Finding(name="memory", value="unknown on this system")
    low = free < 2 << 30
    advice = (
        "A loader needs about 250 MB beside torch, and its prefetched batches; `wds plan` says how much." if low else ""
    )
    return Finding(name="memory", value=f"{_gb(free)} available", state="advice" if low else "fine", advice=advice)


def _kilobytes(path: str, key: str) -> int | None:
    with suppress(OSError, ValueError):
        for line in Path(path).read_text().splitlines():
            if line.startswith(key):
                return int(line.split()[1]) * 1024
    return None


def _cgroup_memory() -> int | None:
    """Bytes that the container may still take; None where it has no limit."""
    root = Path("/sys/fs/cgroup")
    with suppress(OSError, ValueError):  # "max" is no number
        return int((root / "memory.max").read_text()) - int((root / "memory.current").read_text())
    return None


def _shared_memory() -> Finding:
    try:
        free = shutil.disk_usage("/dev/shm").free  # nosec B108  # noqa: S108 - where torch's worker processes put their batches
    except OSError:
        return Finding(name="shared memory", value="no /dev/shm")
    small = free < _SHARED
    advice = "DataLoader workers pass batches through it: docker run --shm-size=8g, or use ShardLoader, which does not."
    return Finding(
        name="shared memory",
        value=f"{_gb(free)} free",
        state="advice" if small else "fine",
        advice=advice if small else "",
    )


def _open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    low = soft != resource.RLIM_INFINITY and soft < _OPEN_FILES
    limit = "unlimited" if hard == resource.RLIM_INFINITY else f"{hard:,}"
    advice = (
        f"`ulimit -n 65536` before training (the hard limit is {limit}): shards are opened again and again."
        if low
        else ""
    )
    return Finding(name="open files", value=f"{soft:,}", state="advice" if low else "fine", advice=advice)


def _cache_folder() -> Finding:
    folder = default_cache_dir()
    if folder is None:
        return Finding(
            name="cache",
            value="none: this user has no home",
            state="advice",
            advice="Set XDG_CACHE_HOME, or pass cache_dir.",
        )
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not os.access(nearest, os.W_OK):
        advice = "Shards without a listing are scanned at each start: make it writable, or set XDG_CACHE_HOME."
        return Finding(name="cache", value=f"{folder} cannot be written", state="advice", advice=advice)
    return Finding(name="cache", value=f"{folder}, {_gb(shutil.disk_usage(nearest).free)} free")


def _disk(folder: Path) -> Finding:
    path, size = _largest(folder)
    rate = _read_rate(path, min(size, _READ))
    pictures = rate / _PICTURE_BYTES
    value = f"{rate / 1e6:,.0f} MB/s from {shown(str(path))}, {pictures:,.0f} pictures of 107 KB a second"
    if size < _READ // 8:
        return Finding(
            name="disk", value=value, advice="The file is small: name a folder of shards for a better figure."
        )
    return Finding(name="disk", value=value)


def _largest(folder: Path) -> tuple[Path, int]:
    try:
        sizes = [(path.stat().st_size, path) for path in _some_files(folder)]
    except OSError as error:
        raise UsageError(f"{shown(str(folder))} cannot be listed: {error.strerror}") from error
    if not sizes or max(sizes)[0] == 0:
        raise UsageError(f"{shown(str(folder))} holds no file to read", cure="Name the folder where the shards lie.")
    size, path = max(sizes)
    return path, size


def _some_files(folder: Path) -> Iterator[Path]:
    """The folder's files; of the folders in it some too, where files lie as classes do."""
    inside = sorted(folder.iterdir())
    yield from (path for path in inside if path.is_file())
    for below in (path for path in inside[:_LOOKED_AT] if path.is_dir()):
        with suppress(OSError):
            yield from (path for path in islice(below.iterdir(), _LOOKED_AT) if path.is_file())


def _read_rate(path: Path, count: int) -> float:
    """Bytes a second, from the disk where the kernel lets go of what it has of the file."""
    piece = memoryview(bytearray(4 << 20))
    with path.open("rb") as file, suppress(OSError, AttributeError):
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    try:
        with LocalFile(str(path)) as source:
            begun = time.perf_counter()
            for offset in range(0, count, len(piece)):
                source.read_into(offset, piece[: min(len(piece), count - offset)])
            return count / max(time.perf_counter() - begun, 1e-9)
    except ShardstreamError as error:
        raise error.at(url=str(path)) from error.__cause__


def _gb(count: int) -> str:
    return f"{count / 1e9:,.1f} GB"
