"""NVIDIA DALI on the CPU: its file reader, its decoder that knows the crop beforehand, its antialiased resize."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.peers.peer import BATCH, SIZE, Peer, Work

__all__ = ["PEERS"]


def _run(work: Work) -> Iterator[int]:
    from nvidia.dali import fn, pipeline_def, types
    from nvidia.dali.plugin.base_iterator import LastBatchPolicy
    from nvidia.dali.plugin.pytorch import DALIGenericIterator

    @pipeline_def(batch_size=BATCH, num_threads=work.parallel, device_id=None, seed=0)  # type: ignore[untyped-decorator]
    def pictures() -> tuple[object, object]:
        files, labels = fn.readers.file(file_root=work.pictures, random_shuffle=True, initial_fill=1000, name="files")
        images = fn.decoders.image_random_crop(
            files,
            device="cpu",
            output_type=types.RGB,
            random_area=[0.08, 1.0],
            random_aspect_ratio=[3 / 4, 4 / 3],
            num_attempts=10,
        )
        images = fn.resize(images, size=[SIZE, SIZE], interp_type=types.INTERP_LINEAR, antialias=True)
        return fn.flip(images, horizontal=fn.random.coin_flip()), labels

    batches = DALIGenericIterator(
        [pictures()], ["image", "label"], reader_name="files", last_batch_policy=LastBatchPolicy.PARTIAL
    )
    for (batch,) in batches:
        yield len(batch["image"])


def _load() -> None:
    import nvidia.dali.fn
    import nvidia.dali.plugin.pytorch  # noqa: F401


PEERS = [
    Peer(
        name="DALI (CPU)",
        does="loose files; decodes the crop, antialiased; threads",
        run=_run,
        load=_load,
        packages=("nvidia-dali-cuda130", "nvidia-nvimgcodec-cu13", "torch"),
        environment="dali",
    )
]
