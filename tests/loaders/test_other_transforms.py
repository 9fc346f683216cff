"""What others make of our samples and batches, where they are installed: torchvision's v2, albumentations, JAX."""

from __future__ import annotations

import importlib.util
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import loaders
from loaders import CenterCrop, Mask
from loaders.torch import Normalize, ShardLoader
from tests.builders import picture, write_shard

ROOT = Path(__file__).parents[2]
OPTIONS: dict[str, Any] = {"batch_size": 6, "fields": ("jpg", "cls"), "image": CenterCrop(32), "shuffle": False}


def grey(number: int) -> bytes:
    stream = io.BytesIO()
    Image.open(io.BytesIO(picture(number))).convert("L").save(stream, "PNG")
    return stream.getvalue()


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("pictures")
    samples = [(f"{n:03d}", {"jpg": picture(n), "png": grey(n), "cls": str(n).encode()}) for n in range(12)]
    write_shard(folder / "a.tar", samples)
    return str(folder)


def first(loader: Any) -> Any:
    with loader:
        return next(iter(loader))


# torchvision


@pytest.fixture
def v2() -> Any:
    return pytest.importorskip("torchvision.transforms.v2", exc_type=ImportError)


def test_torchvision_on_samples(urls: str, v2: Any) -> None:
    steps = v2.Compose(
        [
            v2.ToImage(),
            v2.RandomHorizontalFlip(1.0),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ]
    )

    def transform(sample: dict[str, Any]) -> dict[str, Any]:
        return {**sample, "jpg": steps(sample["jpg"])}

    images, labels = first(ShardLoader(urls, **OPTIONS, transform=transform))
    plain, _ = first(ShardLoader(urls, **OPTIONS))
    assert (images.dtype, tuple(images.shape), labels.tolist()) == (torch.float32, (6, 3, 32, 32), list(range(6)))
    assert torch.allclose(images, Normalize()(plain).flip(3), atol=1e-5)


def test_torchvision_on_batches(urls: str, v2: Any) -> None:
    images, labels = first(ShardLoader(urls, **OPTIONS))
    assert torch.equal(v2.RandomVerticalFlip(1.0)(images), images.flip(2))
    mixed, targets = v2.CutMix(num_classes=12)(v2.ToDtype(torch.float32, scale=True)(images), labels)
    assert (tuple(mixed.shape), tuple(targets.shape)) == ((6, 3, 32, 32), (6, 12))
    assert torch.allclose(targets.sum(1), torch.ones(6))


# albumentations


@pytest.fixture
def albumentations(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("NO_ALBUMENTATIONS_UPDATE", "1")  # it asks the network for a later version
    try:
        return pytest.importorskip("albumentations", exc_type=ImportError)
    except Exception as error:  # noqa: BLE001 - one that does not fit its own dependencies fails in any way
        pytest.skip(f"albumentations cannot be imported: {error!r}")


def test_albumentations_on_samples_with_their_masks(urls: str, albumentations: Any) -> None:
    steps = albumentations.Compose([albumentations.HorizontalFlip(p=1.0), albumentations.InvertImg(p=1.0)])

    def transform(sample: dict[str, Any]) -> dict[str, Any]:
        done = steps(image=sample["jpg"], mask=sample["png"])
        return {**sample, "jpg": done["image"], "png": done["mask"]}

    options: Any = {**OPTIONS, "fields": ("jpg", "png"), "image": {"jpg": CenterCrop(32), "png": Mask()}}
    images, masks = first(ShardLoader(urls, **options, transform=transform))
    plain, plain_masks = first(ShardLoader(urls, **options))
    assert torch.equal(images, 255 - plain.flip(3))
    assert torch.equal(masks, plain_masks.flip(2))


def test_albumentations_on_batches(urls: str, albumentations: Any) -> None:
    batch = first(loaders.ShardLoader(urls, **OPTIONS))
    done = albumentations.Compose([albumentations.VerticalFlip(p=1.0)])(images=batch.jpg)["images"]
    assert np.array_equal(done, batch.jpg[:, ::-1])


# JAX: in a process of its own, since it minds forks, and other tests make some

_JAX = """
import sys
import jax, jax.numpy as jnp, numpy as np
from loaders import CenterCrop, ShardLoader

options = {"batch_size": 2, "image": CenterCrop(32), "fields": ("jpg", "cls"), "shuffle": False}
mean = jax.jit(lambda images: images.astype(jnp.float32).mean((1, 2)))
with ShardLoader(sys.argv[1], **options) as loader, ShardLoader(sys.argv[1], **options) as plain:
    kept, means = [], []
    for _ in range(3):
        for batch in loader:  # each is let go: what JAX keeps of its memory is its own matter
            kept.append(jnp.asarray(batch.jpg))
            means.append(mean(kept[-1]))
            assert jnp.asarray(batch.cls).shape == (2,)
            del batch
    wanted = [batch.jpg.copy() for _ in range(3) for batch in plain]
assert len(kept) == len(wanted) == 18
assert all(np.array_equal(ours, theirs) for ours, theirs in zip(kept, wanted))
assert all(np.allclose(ours, theirs.mean((1, 2)), atol=1e-2) for ours, theirs in zip(means, wanted))
assert "torch" not in sys.modules
"""


def test_jax_takes_numpy_batches(urls: str) -> None:
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed")
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", _JAX, urls], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
