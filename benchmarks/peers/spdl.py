"""SPDL: its pipeline of threads, its decoder, which is FFmpeg's, with the crop and the resize as FFmpeg filters."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.crops import Picture, box
from benchmarks.peers.peer import BATCH, SIZE, Peer, Work, loose_pictures

__all__ = ["PEERS"]


class _Decode:
    """A file and its label to (uint8 array, int), in a thread of the pipeline."""

    def __init__(self) -> None:
        self._random = random.Random(0)

    def __call__(self, file_and_label: tuple[Path, int]) -> tuple[Any, int]:
        import spdl.io

        path, label = file_and_label
        packets = spdl.io.demux_image(path.read_bytes())
        left, top, width, height = box(packets.width, packets.height, self._random)
        mirror = ",hflip" if self._random.random() < 0.5 else ""
        wanted = f"crop={width}:{height}:{left}:{top},scale={SIZE}:{SIZE}:flags=bilinear{mirror},format=pix_fmts=rgb24"
        return spdl.io.decode_packets(packets, filter_desc=wanted), label


def _batch(samples: Sequence[tuple[Any, int]]) -> tuple[Picture, list[int]]:
    import spdl.io

    pictures = spdl.io.to_numpy(spdl.io.convert_frames([frames for frames, _ in samples]))
    return pictures, [label for _, label in samples]


def _run(work: Work) -> Iterator[int]:
    from spdl.pipeline import PipelineBuilder

    samples = list(zip(*loose_pictures(work), strict=True))
    random.Random(0).shuffle(samples)
    pipeline = (
        PipelineBuilder()
        .add_source(samples)
        .pipe(_Decode(), concurrency=work.parallel)
        .aggregate(BATCH)
        .pipe(_batch)
        .add_sink(4)
        .build(num_threads=work.parallel)
    )
    with pipeline.auto_stop():
        for pictures, _ in pipeline:
            if pictures.shape[1:] != (SIZE, SIZE, 3):
                raise RuntimeError(f"the peer made {pictures.shape}")
            yield len(pictures)


def _load() -> None:
    import spdl.io
    import spdl.pipeline

    spdl.io.get_video_filter_desc()
    spdl.io.decode_config()  # is when it looks for FFmpeg


PEERS = [
    Peer(
        name="SPDL (FFmpeg)",
        does="loose files; decodes all, antialiased; threads",
        run=_run,
        load=_load,
        packages=("spdl", "spdl-io"),
        environment="spdl",
    )
]
