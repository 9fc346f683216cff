"""A shard that is not what it should be, under what stands on all parsers: a loader, `wds verify`, `wds info`."""

from __future__ import annotations

import functools
import tarfile
from pathlib import Path
from typing import Literal

import numpy as np

import loaders
from loaders.policy import OnError
from tests.fuzz.targets.shards import mended, seeds
from tests.fuzz.targets.target import Target
from tests.wds_tools.pictures.made import saved, scene
from tests.wds_tools.tar.archives import archive
from wds_tools.describe import describe
from wds_tools.errors import SampleError
from wds_tools.verify import verify

__all__ = ["TARGETS"]

_SAMPLES = 3


def loaded(data: bytes, folder: Path) -> bool:
    """Batches are pictures and labels; skipping goes past bad samples, and past nothing else."""
    path = folder / "shard.tar"
    path.write_bytes(data)
    skipped = _epoch(str(path), "skip")
    try:
        strict = _epoch(str(path), "raise")
    except SampleError:
        return skipped > 0
    assert strict == skipped
    return True


def _epoch(url: str, on_error: OnError) -> int:
    count = 0
    with loaders.ShardLoader(
        url,
        batch_size=2,
        fields=("jpg;png", "cls"),
        image=loaders.CenterCrop(8),
        shuffle=False,
        tail="exact",
        on_error=on_error,
        threads=1,
        rank=0,
        world_size=1,
    ) as loader:
        for pictures, labels in loader:
            assert pictures.dtype == np.uint8
            assert pictures.shape == (len(labels), 8, 8, 3)
            count += len(labels)
    return count


def verified(data: bytes, folder: Path) -> bool:
    """Whatever is wrong is listed; where nothing is, all can be read, and a dataset be described."""
    path = folder / "shard.tar"
    path.write_bytes(data)
    report = verify(str(path), decode=True, jobs=1)
    assert all(str(problem).isprintable() for problem in report.problems)
    if not report.problems:
        assert sum(1 for _ in loaders.samples(path)) == report.samples
    described = describe(str(path))
    assert report.problems or described.samples == report.samples
    return not report.problems


@functools.cache
def _seeds() -> list[bytes]:
    grey = scene(9, 8)[:, :, 0]
    jpeg, png = saved(grey, "JPEG", quality=40), saved(grey, "PNG")
    names = [f"{number}.{field}" for number in range(_SAMPLES) for field in ("jpg", "cls")]
    plain = archive([(name, jpeg if name.endswith("jpg") else b"7") for name in names])
    mixed = archive([("a.cls", b"1"), ("a.png", png), ("a.txt", b"x"), ("b.jpg", jpeg[:-20]), ("b.cls", b"2")])
    return [plain, mixed, archive([("a.jpg", jpeg), ("b.jpg", png), ("b.cls", b"cat")])]


def _sound_seeds() -> list[bytes]:
    members = [(f"{key}.{field}", b"1") for key in ("a", "é" * 40) for field in ("cls", "txt", "json")]
    forms: tuple[Literal[0, 1, 2], ...] = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)
    return [archive(members, form=form) for form in forms] + _seeds()[:2] + seeds()[4:6]


# The readers' buffers and a few batches, whatever the shard.
TARGETS = (
    Target(name="loader", run=loaded, seeds=lambda: list(_seeds()), mend=mended, beside=64 << 20),
    Target(name="verify", run=verified, seeds=_sound_seeds, mend=mended, beside=64 << 20),
)
