"""This project's loader as its documentation shows it; then with less of the kernel, to see what each part is worth."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.peers.peer import BATCH, SIZE, Peer, Work
from benchmarks.table import OURS

__all__ = ["OURS_PILLOW", "OURS_SIMPLEJPEG", "OURS_STOCK", "PEERS"]

OURS_STOCK = f"{OURS}, Huffman coding by libjpeg-turbo"
OURS_SIMPLEJPEG = f"{OURS} without its kernel (simplejpeg)"
OURS_PILLOW = f"{OURS} without its kernel (Pillow)"


def _run(backend: str, huffman: bool, work: Work) -> Iterator[int]:  # noqa: FBT001 - given by partial
    from loaders import Pictures, RandomResizedCrop
    from loaders.torch import ShardLoader

    _take(backend)
    with ShardLoader(
        work.shards,
        batch_size=BATCH,
        fields=("jpg", "cls"),
        image=RandomResizedCrop(SIZE),
        tail="exact",
        threads=work.parallel,
        pictures=Pictures(huffman=huffman),
    ) as loader:
        for pictures, _ in loader:
            yield len(pictures)


def _take(backend: str) -> None:
    """Make this process one whose installation has nothing better: a loader has no option for it."""
    from wds_tools.pictures import decode

    if backend not in decode.BACKENDS:
        raise RuntimeError(f"the backend {backend} was not built here; `wds doctor` tells why")
    decode.BACKENDS = decode.BACKENDS[decode.BACKENDS.index(backend) :]


def _load(backend: str, needs: str = "resize") -> None:
    from wds_tools.pictures.kernel import capability

    _take(backend)
    if backend == "kernel" and not getattr(capability(), needs):
        raise RuntimeError(capability().missing)


_PACKAGES = ("shardstream", "torch", "numpy", "simplejpeg", "pillow")
PEERS = [
    Peer(
        name=OURS,
        does="tars; decodes the crop, Huffman coding by its own decoder, antialiased; threads",
        run=partial(_run, "kernel", True),
        load=partial(_load, "kernel", "huffman"),
        packages=_PACKAGES,
        ours=True,
    ),
    Peer(
        name=OURS_STOCK,
        does="the same with Pictures(huffman=False)",
        run=partial(_run, "kernel", False),
        load=partial(_load, "kernel", "jpeg"),
        packages=_PACKAGES,
        ours=True,
    ),
    Peer(
        name=OURS_SIMPLEJPEG,
        does="tars; decodes all at the crop's scale with simplejpeg, resizes with Pillow, antialiased; threads",
        run=partial(_run, "simplejpeg", True),
        load=partial(_load, "simplejpeg"),
        packages=_PACKAGES,
        ours=True,
    ),
    Peer(
        name=OURS_PILLOW,
        does="tars; decodes all at the crop's scale and resizes with Pillow, antialiased; threads",
        run=partial(_run, "pillow", True),
        load=partial(_load, "pillow"),
        packages=_PACKAGES,
        ours=True,
    ),
]
