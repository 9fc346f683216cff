"""Array columns end to end: what comes out, in whose memory, and what is said where arrays do not fit."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from loaders import CenterCrop, Mask, RandomResizedCrop, Reading, Resize, ShardLoader, StreamLoader
from loaders.stacked import ArrayColumn
from loaders.torch import ShardLoader as TorchLoader
from tests.builders import write_shard
from wds_tools.errors import BatchError, FieldError, UsageError
from wds_tools.fields.arrays import encode_npy

Array = npt.NDArray[Any]


def pixels(number: int, *, width: int = 40, height: int = 30) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(number).integers(0, 256, (height, width, 3), dtype=np.uint8)


def png(values: Array) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(values).save(stream, "PNG")
    return stream.getvalue()


def write(folder: Path, made: Callable[[int], dict[str, bytes]], *, count: int = 40) -> str:
    """Two shards of samples whose fields come in the order given, with the number as `cls` behind."""
    for shard in range(2):
        numbers = range(shard * count // 2, (shard + 1) * count // 2)
        samples = [(f"{n:06d}", {**made(n), "cls": str(n).encode()}) for n in numbers]
        write_shard(folder / f"s-{shard}.tar", samples)
    return str(folder)


def as_npy(value: Callable[[int], Array]) -> Callable[[int], dict[str, bytes]]:
    return lambda n: {"npy": encode_npy(value(n))}


def epoch(urls: str, **options: Any) -> dict[int, Array]:
    """The array of each label."""
    fields = options.pop("fields", ("npy", "cls"))
    with ShardLoader(urls, **{"batch_size": 8, "fields": fields, "threads": 2, "tail": "exact", **options}) as loader:
        batches = list(loader)
    return {int(n): a for batch in batches for n, a in zip(batch.cls, batch.npy, strict=True)}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    dtype=st.sampled_from(["u1", "<u2", ">u2", "<f2", "<f4", ">f8", "<c8", "?", "<i8"]),
    shape=st.lists(st.integers(1, 5), max_size=3).map(tuple),
    fortran=st.booleans(),
    threads=st.integers(1, 3),
    shuffle=st.booleans(),
)
def test_any_numbers_of_any_shape_are_stacked_as_numpy_stacks_them(
    tmp_path_factory: pytest.TempPathFactory,
    dtype: str,
    shape: tuple[int, ...],
    fortran: bool,
    threads: int,
    shuffle: bool,
) -> None:
    def value(number: int) -> Array:
        array = np.random.default_rng(number).integers(0, 100, shape).astype(dtype)
        return np.asfortranarray(array) if fortran else array

    urls = write(tmp_path_factory.mktemp("arrays"), lambda n: {"npy": encode_npy(value(n))})
    expected = np.stack([value(n) for n in range(40)])
    found = epoch(urls, threads=threads, shuffle=shuffle)
    stacked = np.stack([found[n] for n in range(40)])
    assert (stacked.dtype, stacked.shape) == (expected.dtype, expected.shape)
    assert np.array_equal(stacked, expected)


def test_texts_dates_and_records_are_stacked_too(tmp_path: Path) -> None:
    kinds: list[Callable[[int], Array]] = [
        lambda n: np.array([f"a{n:02d}", "bb"]),
        lambda n: np.array([n], dtype="datetime64[s]"),
        lambda n: np.array([(n, 0.5)], dtype=[("a", "<i4"), ("b", "<f8")]),
    ]
    for kind, value in enumerate(kinds):
        urls = write(tmp_path / str(kind), as_npy(value))
        found = epoch(urls)
        for n in range(40):
            assert np.array_equal(found[n], value(n))


@pytest.mark.parametrize(
    "fields",
    [
        lambda n: {"npy": encode_npy(pixels(n))},
        lambda n: {"txt": b"x" * (n % 7) * 300, "npy": encode_npy(pixels(n))},  # another place in every few samples
        lambda n: {"npy": encode_npy(pixels(n)), "txt": b"x" * n * 40},  # something of another length behind it
        lambda n: {"a.txt": b"same", "npy": encode_npy(pixels(n))} if n % 2 else {"npy": encode_npy(pixels(n))},
        lambda n: dict(
            sorted({"npy": encode_npy(pixels(n)), "z.npy": encode_npy(pixels(n + 99))}.items())[:: 1 - n % 2 * 2]
        ),
    ],
    ids=["alike", "moving", "behind", "two kinds", "two arrays in changing order"],
)
@pytest.mark.parametrize("threads", [1, 3])
def test_wherever_the_array_lies_in_its_sample(
    tmp_path: Path, fields: Callable[[int], dict[str, bytes]], threads: int
) -> None:
    found = epoch(write(tmp_path, fields), threads=threads)
    for n in range(40):
        assert np.array_equal(found[n], pixels(n))


def test_arrays_that_lie_alike_are_copied_only_once_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[int] = []
    put = ArrayColumn.put

    def counted(self: ArrayColumn, slot: int, array: Array) -> Array:
        copied.append(slot)
        return put(self, slot, array)

    monkeypatch.setattr(ArrayColumn, "put", counted)
    urls = write(tmp_path, lambda n: {"npy": encode_npy(pixels(n))})
    with ShardLoader(urls, batch_size=40, fields=("npy", "cls"), threads=1, read=Reading(prefetch=1)) as loader:
        for _ in range(3):
            (batch,) = loader
            for array, n in zip(batch.npy, batch.cls, strict=True):
                assert np.array_equal(array, pixels(int(n)))
    # all but the first of a batch, whose shape makes the memory, are read to their places
    assert copied
    assert set(copied) == {0}


def test_a_sample_that_imitates_another_ones_place_is_read_right(tmp_path: Path) -> None:
    """An array whose pixels are a tar member with an array in it: what lies in the middle is no header."""
    inner = write_shard(tmp_path / "inner.tar", [("000000", {"npy": encode_npy(pixels(1000, width=8, height=8))})])
    content = np.frombuffer(inner.read_bytes(), np.uint8)

    def value(n: int) -> Array:
        array = pixels(n).copy()
        array.reshape(-1)[(n % 4) * 128 :][: len(content)] = content[: array.size - (n % 4) * 128]
        return array

    urls = write(
        tmp_path / "outer", lambda n: {"npy": encode_npy(value(n))} | ({"a.bin": content.tobytes()} if n % 3 else {})
    )
    found = epoch(urls, shuffle=False)
    for n in range(40):
        assert np.array_equal(found[n], value(n))


def test_batches_are_the_callers_own(tmp_path: Path) -> None:
    urls = write(tmp_path, lambda n: {"npy": encode_npy(pixels(n))})
    with ShardLoader(urls, batch_size=4, fields=("npy", "cls"), threads=2, tail="exact") as loader:
        kept = [batch for _ in range(3) for batch in loader]
        assert loader.report().slabs_made >= len(kept)
        for batch in kept:
            for array, n in zip(batch.npy, batch.cls, strict=True):
                assert np.array_equal(array, pixels(int(n)))


def test_memory_of_arrays_is_used_again(tmp_path: Path) -> None:
    urls = write(tmp_path, lambda n: {"npy": encode_npy(pixels(n))})
    with ShardLoader(urls, batch_size=4, fields=("npy", "cls"), threads=1, read=Reading(prefetch=1)) as loader:
        for _ in range(4):
            for _batch in loader:
                pass
        report = loader.report()
    assert report.slabs_made <= 5
    assert report.slabs_made + report.slabs_reused >= report.batches


@pytest.mark.parametrize("odd", [np.zeros((3, 40, 30), np.uint8), np.zeros((30, 40, 3), np.int8)])
def test_an_array_unlike_the_others_is_named(tmp_path: Path, odd: Array) -> None:
    urls = write(tmp_path, lambda n: {"npy": encode_npy(odd if n == 13 else pixels(n))})
    for threads in (1, 3):
        with pytest.raises(BatchError, match=r"unequal arrays.*000013.*field npy.*collate"):
            epoch(urls, threads=threads, shuffle=False)


def test_bad_arrays_are_replaced_by_good_ones(tmp_path: Path) -> None:
    def fields(n: int) -> dict[str, bytes]:
        good = encode_npy(pixels(n))
        return {"npy": {5: good[:-1], 17: b"no array", 18: good[:40]}.get(n, good)}

    urls = write(tmp_path, fields)
    with pytest.raises(FieldError, match=r"000005.*field npy.*on_error"):
        epoch(urls, shuffle=False)
    for options in ({"shuffle": False}, {"tail": "pad"}, {"tail": "drop"}):
        found = epoch(urls, on_error="skip", threads=3, **options)
        assert set(found) == set(range(40)) - {5, 17, 18}
        for n, array in found.items():
            assert np.array_equal(array, pixels(n))


def test_a_transform_gets_arrays_of_its_own(tmp_path: Path) -> None:
    kept: list[Array] = []

    def keep(sample: dict[str, Any]) -> dict[str, Any]:
        sample["npy"] += 1
        kept.append(sample["npy"])
        return sample

    urls = write(tmp_path, lambda n: {"npy": encode_npy(pixels(n))})
    epoch(urls, transform=keep, threads=1, shuffle=False)
    for n, array in enumerate(kept[:40]):
        assert np.array_equal(array, pixels(n) + 1)


def test_optional_arrays_are_a_list(tmp_path: Path) -> None:
    urls = write(tmp_path, lambda n: {"npy": encode_npy(pixels(n))} if n % 2 else {})
    with ShardLoader(urls, batch_size=8, fields=("npy?", "cls"), threads=2) as loader:
        for batch in loader:
            for array, n in zip(batch.npy, batch.cls, strict=True):
                assert (array is None) == (n % 2 == 0)
                assert array is None or np.array_equal(array, pixels(int(n)))


def test_tensors_over_the_same_memory(tmp_path: Path) -> None:
    urls = write(tmp_path, lambda n: {"npy": encode_npy(pixels(n))})
    with TorchLoader(urls, batch_size=8, fields=("npy", "cls"), threads=2) as loader:
        for batch in loader:
            assert batch.npy.shape == (8, 3, 30, 40)
            for tensor, n in zip(batch.npy, batch.cls, strict=True):
                assert np.array_equal(tensor.permute(1, 2, 0).numpy(), pixels(int(n)))


def test_arrays_of_a_stream(tmp_path: Path) -> None:
    urls = write(tmp_path, lambda n: {"npy": encode_npy(pixels(n))})
    with StreamLoader(urls, batch_size=8, fields=("npy", "cls"), threads=2) as loader:
        for batch in loader:
            for array, n in zip(batch.npy, batch.cls, strict=True):
                assert np.array_equal(array, pixels(int(n)))


CROPS = [
    RandomResizedCrop((24, 20)),
    RandomResizedCrop(48),
    CenterCrop(24),
    CenterCrop(30, resize=30),
    Resize((17, 50)),
]


@pytest.mark.parametrize("crop", CROPS, ids=repr)
def test_a_cropped_array_is_the_cropped_picture(tmp_path: Path, crop: Any) -> None:
    both = write(tmp_path, lambda n: {"npy": encode_npy(pixels(n)), "png": png(pixels(n))})
    arrays = epoch(both, image=crop, seed=4)
    with ShardLoader(both, batch_size=8, fields=("png", "cls"), image=crop, seed=4, threads=2, tail="exact") as loader:
        for batch in loader:
            for picture, n in zip(batch.png, batch.cls, strict=True):
                assert np.array_equal(arrays[int(n)], picture)


def test_a_crop_of_the_same_size_changes_no_pixel(tmp_path: Path) -> None:
    urls = write(tmp_path, lambda n: {"npy": encode_npy(pixels(n))})
    found = epoch(urls, image=Resize((30, 40)))
    flipped = epoch(urls, image=RandomResizedCrop((30, 40), scale=(1, 1), ratio=(4 / 3, 4 / 3), flip=1))
    for n in range(40):
        assert np.array_equal(found[n], pixels(n))
        assert np.array_equal(flipped[n], pixels(n)[:, ::-1])


def test_grey_arrays_become_rgb_and_other_layouts_do_as_well(tmp_path: Path) -> None:
    forms: list[Callable[[Array], Array]] = [
        lambda rgb: rgb[:, :, 0],
        lambda rgb: rgb[:, :, :1],
        lambda rgb: np.asfortranarray(rgb),
    ]
    for number, form in enumerate(forms):
        urls = write(tmp_path / str(number), as_npy(lambda n, form=form: form(pixels(n))))  # type: ignore[misc]
        found, resized = epoch(urls, image=Resize((30, 40))), epoch(urls, image=Resize((10, 10)))
        for n in range(40):
            expected = np.broadcast_to(np.atleast_3d(form(pixels(n))), (30, 40, 3))
            assert np.array_equal(found[n], expected)
            assert resized[n].shape == (10, 10, 3)


def test_masks_in_arrays_follow_the_picture(tmp_path: Path) -> None:
    def mask(n: int) -> npt.NDArray[np.uint16]:
        return pixels(n)[:, :, 0].astype(np.uint16) * np.uint16(16) + np.uint16(1)

    both = write(tmp_path, lambda n: {"npy": encode_npy(pixels(n)), "seg.npy": encode_npy(mask(n))})
    image: Any = {"npy": RandomResizedCrop(24, scale=(1, 1), ratio=(1, 1)), "seg.npy": Mask()}
    same: Any = {"npy": Resize((30, 40)), "seg.npy": Mask()}
    with ShardLoader(both, batch_size=8, fields=("npy", "seg.npy", "cls"), image=image, threads=2) as loader:
        for batch in loader:
            assert (batch.seg_npy.dtype, batch.seg_npy.shape) == (np.uint16, (8, 24, 24))
            for labels, n in zip(batch.seg_npy, batch.cls, strict=True):
                assert set(labels.ravel()) <= set(mask(int(n)).ravel())
    with ShardLoader(both, batch_size=8, fields=("npy", "seg.npy", "cls"), image=same, threads=2) as loader:
        for batch in loader:
            for labels, n in zip(batch.seg_npy, batch.cls, strict=True):
                assert np.array_equal(labels, mask(int(n)))


def test_a_crop_is_for_pictures_first_and_for_arrays_where_there_are_none(tmp_path: Path) -> None:
    urls = write(tmp_path, lambda n: {"png": png(pixels(n)), "npy": encode_npy(np.full(4, n))})
    with ShardLoader(urls, batch_size=8, fields=("png", "npy", "cls"), image=CenterCrop(24), threads=2) as loader:
        for batch in loader:
            assert batch.png.shape == (8, 24, 24, 3)
            assert np.array_equal(batch.npy, np.repeat(batch.cls[:, None], 4, axis=1))
    with pytest.raises(FieldError, match=r"int64 \(4,\) has a crop, expected uint8.*image="):
        epoch(urls, image=CenterCrop(24))
    with pytest.raises(UsageError, match="none of the fields"):
        ShardLoader(urls, batch_size=8, fields=("txt", "cls"), image=CenterCrop(24))
