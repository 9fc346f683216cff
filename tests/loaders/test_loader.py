"""Batches end to end over real shards: what is in them, in which order, for whom, and what is left behind."""

from __future__ import annotations

import copy
import gc
import io
import os
import pickle
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from loaders import CenterCrop, Mask, RandomResizedCrop, Reading, Resize, ShardLoader, StreamLoader, mix
from loaders.torch import ShardLoader as TorchLoader
from tests.builders import picture, settle, write_labels, write_pictures, write_shard, write_tar
from wds_tools.errors import (
    BatchError,
    FieldError,
    MissingFieldError,
    NoShardsError,
    StaleIndexError,
    TooFewSamplesError,
    TruncatedPictureError,
    UsageError,
)


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_labels(tmp_path_factory.mktemp("labels"), [17, 40, 3, 0, 23])


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_pictures(tmp_path_factory.mktemp("pictures"), [20, 21, 9])


def label_loader(urls: str, **options: Any) -> ShardLoader:
    return ShardLoader(urls, **{"batch_size": 8, "fields": ("cls",), "threads": 2, "lanes": 6, **options})


def epoch_of(loader: ShardLoader) -> list[list[int]]:
    return [batch.cls.tolist() for batch in loader]


def test_pictures_and_labels(pictures: str) -> None:
    with ShardLoader(pictures, batch_size=16, image=RandomResizedCrop((32, 24)), threads=2) as loader:
        assert len(loader) == 3
        for images, numbers in loader:
            assert (images.dtype, images.shape, images.flags.c_contiguous) == (np.uint8, (16, 32, 24, 3), True)
            assert (numbers.dtype, numbers.shape) == (np.int64, (16,))


def test_a_picture_is_the_picture_of_its_label(pictures: str) -> None:
    with ShardLoader(pictures, batch_size=10, image=Resize((36, 48)), tail="exact", threads=2) as loader:
        for images, numbers in loader:
            for image, number in zip(images, numbers, strict=True):
                expected = np.asarray(Image.open(io.BytesIO(picture(int(number)))))
                assert np.abs(image.astype(int) - expected).mean() < 1


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    tail=st.sampled_from(["drop", "pad", "exact"]),
    world_size=st.sampled_from([1, 2, 3, 4]),
    batch_size=st.integers(1, 11),
    lanes=st.integers(1, 12),
    shuffle=st.booleans(),
    threads=st.integers(1, 3),
)
def test_every_sample_once_and_equal_batches_on_every_rank(
    labels: str, tail: Any, world_size: int, batch_size: int, lanes: int, shuffle: bool, threads: int
) -> None:
    seen: list[int] = []
    lengths = set()
    for rank in range(world_size):
        options = {"tail": tail, "lanes": lanes, "shuffle": shuffle, "threads": threads, "batch_size": batch_size}
        with label_loader(labels, rank=rank, world_size=world_size, **options) as loader:
            batches = list(loader)
            assert len(batches) == len(loader)
            lengths.add(len(batches))
            for batch in batches:
                assert tail == "exact" or len(batch.cls) == batch_size
                seen += (batch.cls[batch.valid] if tail == "pad" else batch.cls).tolist()
    assert len(lengths) == 1
    size = world_size * batch_size
    if tail == "drop":
        assert len(seen) == len(set(seen)) == 83 // size * size
    else:
        assert sorted(seen) == list(range(83))


def test_threads_and_prefetch_do_not_change_a_byte(pictures: str) -> None:
    def epoch(**options: Any) -> list[bytes]:
        with ShardLoader(pictures, batch_size=7, image=RandomResizedCrop(24), seed=5, **options) as loader:
            return [batch.jpg.tobytes() + batch.cls.tobytes() for batch in loader]

    first = epoch(threads=1)
    assert epoch(threads=3) == first
    assert epoch(threads=2, read=Reading(prefetch=7)) == first


def test_global_batches_do_not_depend_on_the_world_size(pictures: str) -> None:
    def global_batches(world_size: int) -> list[dict[int, bytes]]:
        batches: list[dict[int, bytes]] = [{} for _ in range(4)]
        for rank in range(world_size):
            with ShardLoader(
                pictures, batch_size=12 // world_size, image=RandomResizedCrop(24), rank=rank, world_size=world_size
            ) as loader:
                for number, batch in enumerate(loader):
                    batches[number] |= {int(c): i.tobytes() for i, c in zip(batch.jpg, batch.cls, strict=True)}
        return batches

    first = global_batches(1)
    assert [len(batch) for batch in first] == [12] * 4
    for world_size in (2, 3, 4, 6):
        assert global_batches(world_size) == first


def test_the_next_iteration_is_the_next_epoch(labels: str) -> None:
    with label_loader(labels) as loader:
        epochs = [epoch_of(loader) for _ in range(3)]
        assert len({str(epoch) for epoch in epochs}) == 3
        loader.set_epoch(1)
        assert epoch_of(loader) == epochs[1]
        assert epoch_of(loader) == epochs[2]


def test_an_epoch_that_is_broken_off_is_over(labels: str) -> None:
    with label_loader(labels) as loader:
        epochs = [epoch_of(loader) for _ in range(3)]
    with label_loader(labels) as loader:
        for number, _ in enumerate(loader):
            if number == 2:
                break
        assert epoch_of(loader) == epochs[1]


def test_the_epoch_is_that_of_the_next_iteration_or_of_the_running_one(labels: str) -> None:
    with label_loader(labels) as loader:
        assert loader.epoch == 0
        assert {loader.epoch for _ in loader} == {0}
        assert loader.epoch == 1
        for _ in loader:
            assert loader.epoch == 1
            break
        assert loader.epoch == 2  # the one that was broken off is over
        held = iter(loader)
        next(held)
        assert loader.epoch == 2
        loader.close()
        assert loader.epoch == 3
        loader.set_epoch(7)
        assert loader.epoch == 7


def test_asking_for_iterators_passes_no_epoch_over(labels: str) -> None:
    with label_loader(labels) as loader:
        epochs = [epoch_of(loader) for _ in range(2)]
        loader.set_epoch(0)
        next(iter(loader))
        iter(loader)
        iter(loader)
        assert loader.epoch == 1
        assert epoch_of(loader) == epochs[1]


def test_batches_belong_to_the_caller(pictures: str) -> None:
    with ShardLoader(pictures, batch_size=5, image=RandomResizedCrop(24), threads=2) as loader:
        kept = list(loader)
        copies = [batch.jpg.copy() for batch in kept]
        for _ in loader:
            pass
        assert all(np.array_equal(batch.jpg, copy) for batch, copy in zip(kept, copies, strict=True))


def test_memory_is_used_again_when_batches_are_let_go(pictures: str) -> None:
    with ShardLoader(pictures, batch_size=5, image=RandomResizedCrop(24), threads=2) as loader:
        for _ in range(3):
            for batch in loader:
                del batch
        report = loader.report()
    assert report.slabs_made <= loader._recipe.read.prefetch + 3
    assert report.samples == 150
    assert "150 samples in 30 batches" in str(report)


def test_nothing_is_left_behind(pictures: str) -> None:
    def left() -> tuple[int, set[str]]:
        return len(os.listdir("/proc/self/fd")), {thread.name for thread in threading.enumerate()}

    def break_off(loader: ShardLoader) -> None:
        for _ in loader:
            break
        loader.close()

    def raise_in_loop(loader: ShardLoader) -> None:
        with pytest.raises(ZeroDivisionError), loader:
            for _ in loader:
                _ = 1 / 0

    def interrupt(loader: ShardLoader) -> None:
        with pytest.raises(KeyboardInterrupt), loader:
            for _ in loader:
                raise KeyboardInterrupt

    def exhaust(loader: ShardLoader) -> None:
        with loader:
            for _ in range(3):
                list(loader)

    settle()
    before = left()
    for use in (break_off, raise_in_loop, interrupt, exhaust):
        use(ShardLoader(pictures, batch_size=5, image=RandomResizedCrop(24), threads=3))
        assert left() == before, use.__name__


def test_a_loader_that_is_let_go_ends_its_threads(pictures: str) -> None:
    before = set(threading.enumerate())
    loader = ShardLoader(pictures, batch_size=5, image=RandomResizedCrop(24), threads=3)
    next(iter(loader))
    started = set(threading.enumerate()) - before
    assert len(started) == 4
    del loader
    gc.collect()
    for thread in started:
        thread.join(30)
        assert not thread.is_alive()


def test_two_iterations_at_once_are_refused(labels: str) -> None:
    with label_loader(labels) as loader:
        first = iter(loader)
        next(first)
        next(iter(loader))
        with pytest.raises(UsageError, match="iterated"):
            next(first)


def test_a_closed_loader_begins_anew(labels: str) -> None:
    loader = label_loader(labels)
    first = epoch_of(loader)
    loader.close()
    loader.set_epoch(0)
    assert epoch_of(loader) == first
    loader.close()


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({"batch_size": 10**9}, "batch_size is 1000000000, expected at most 1,000,000"),
        ({"threads": 100_000}, "threads is 100000, expected at most 1,024"),
    ],
)
@pytest.mark.parametrize("kind", [ShardLoader, StreamLoader])
def test_numbers_beyond_any_machine_are_refused(kind: Any, options: dict[str, int], limit: str) -> None:
    with pytest.raises(UsageError, match=limit):
        kind("x.tar", **{"batch_size": 4, **options})


def test_a_prefetch_beyond_any_machine_is_refused(labels: str) -> None:
    with pytest.raises(UsageError, match="prefetch is 1000000, expected at most 10,000"):
        Reading(prefetch=1_000_000)
    with pytest.raises(UsageError, match="prefetch is 1000000, expected at most 10,000"):
        StreamLoader("x.tar", batch_size=4, prefetch=1_000_000)
    with label_loader(labels, batch_size=None, global_batch_size=10**9) as loader:
        with pytest.raises(UsageError, match="batch_size is 1000000000"):
            len(loader)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda loader: pickle.loads(pickle.dumps(loader))])
@pytest.mark.parametrize("kind", [ShardLoader, TorchLoader])
def test_a_copy_of_a_begun_loader_goes_on_at_its_place(labels: str, kind: Any, copied: Any) -> None:
    with kind(labels, batch_size=8, fields=("cls",), threads=2, lanes=6) as loader:
        batches = iter(loader)
        next(batches), next(batches)
        with copied(loader) as other:
            assert other.state_dict() == loader.state_dict()
            rest = [batch.cls.tolist() for batch in batches]
            assert [batch.cls.tolist() for batch in other] == rest
            assert epoch_of(other) == epoch_of(loader)  # and the next epoch likewise


def test_a_loader_pickles_before_use(pictures: str) -> None:
    loader = pickle.loads(pickle.dumps(ShardLoader(pictures, batch_size=5, image=RandomResizedCrop(24))))
    assert len(list(loader)) == 10
    loader.close()


# Fields, transform, collate


def test_fields_of_all_kinds(tmp_path: Path) -> None:
    array = io.BytesIO()
    np.save(array, np.arange(6, dtype=np.float32).reshape(2, 3))
    fields = {"jpg": picture(1), "cls": b" 7\n", "json": b'{"a": [1]}', "npy": array.getvalue(), "bin": b"\x00\x01"}
    samples = [(f"k{i}", {**fields, **({"txt": b"word"} if i % 2 else {})}) for i in range(4)]
    write_shard(tmp_path / "a.tar", samples)
    wanted = ("jpg", "cls", "json", "npy", "bin", "txt?", "__key__")
    with ShardLoader(str(tmp_path), batch_size=4, fields=wanted, shuffle=False, threads=1) as loader:
        (batch,) = loader
    assert batch._fields == ("jpg", "cls", "json", "npy", "bin", "txt", "key")
    assert batch.jpg.shape == (4, 36, 48, 3)
    assert batch.cls.tolist() == [7] * 4
    assert batch.json == [{"a": [1]}] * 4
    assert (batch.npy.shape, batch.npy.dtype) == ((4, 2, 3), np.float32)
    assert batch.bin == [b"\x00\x01"] * 4
    assert batch.txt == [None, "word", None, "word"]
    assert batch.key == ["k0", "k1", "k2", "k3"]


def test_alternatives_take_the_first_that_is_there(tmp_path: Path) -> None:
    samples = [("a", {"png": picture(1, form="PNG"), "cls": b"0"}), ("b", {"jpeg": picture(2), "cls": b"1"})]
    write_shard(tmp_path / "a.tar", samples)
    with ShardLoader(str(tmp_path), batch_size=2, image=Resize(24), shuffle=False) as loader:
        (batch,) = loader
    assert batch.jpg.shape == (2, 24, 24, 3)


def mask_of(number: int) -> bytes:
    values = np.zeros((36, 48), dtype=np.uint8)
    values[:12, :16] = number
    stream = io.BytesIO()
    Image.fromarray(values).save(stream, "PNG")
    return stream.getvalue()


def test_pictures_of_a_sample_are_cropped_alike(tmp_path: Path) -> None:
    samples = [(f"{i}", {"a.png": picture(i, form="PNG"), "b.png": picture(i, form="PNG")}) for i in range(12)]
    write_shard(tmp_path / "a.tar", samples)
    with ShardLoader(str(tmp_path), batch_size=6, fields=("a.png", "b.png"), image=RandomResizedCrop(20)) as loader:
        for batch in loader:
            assert np.array_equal(batch.a_png, batch.b_png)


def test_a_mask_follows_its_picture_and_keeps_its_values(tmp_path: Path) -> None:
    # The picture shows the mask's values as grey levels, so both agree wherever it is not between two values.
    samples = [(f"{i}", {"png": mask_of(200), "seg.png": mask_of(200)}) for i in range(12)]
    write_shard(tmp_path / "a.tar", samples)
    image: Any = {"png": RandomResizedCrop(20, scale=(0.3, 1)), "seg.png": Mask()}
    with ShardLoader(str(tmp_path), batch_size=12, fields=("png", "seg.png"), image=image) as loader:
        (batch,) = loader
    assert batch.seg_png.shape == (12, 20, 20)
    assert set(np.unique(batch.seg_png)) <= {0, 200}
    clear = (batch.png[..., 0] < 20) | (batch.png[..., 0] > 180)
    assert clear.mean() > 0.8
    assert ((batch.png[..., 0] > 100) == (batch.seg_png > 100))[clear].all()


def test_a_mask_alone_keeps_its_size(tmp_path: Path) -> None:
    write_shard(tmp_path / "a.tar", [(f"{i}", {"png": mask_of(i)}) for i in range(4)])
    with ShardLoader(str(tmp_path), batch_size=4, fields=("png",), image=Mask(), shuffle=False) as loader:
        (batch,) = loader
    assert batch.png.shape == (4, 36, 48)
    assert batch.png[:, 0, 0].tolist() == [0, 1, 2, 3]


def add_area(sample: dict[str, Any]) -> dict[str, Any]:
    return {"cls": sample["cls"], "area": float(sample["jpg"].size), "jpg": sample["jpg"][::2, ::2]}


def test_transform_takes_and_returns_a_sample(pictures: str) -> None:
    with ShardLoader(pictures, batch_size=5, image=Resize(8), transform=add_area, threads=2) as loader:
        batch = next(iter(loader))
    assert batch._fields == ("cls", "area", "jpg")
    assert batch.area.tolist() == [192.0] * 5
    assert batch.jpg.shape == (5, 4, 4, 3)


def test_transform_that_fails_names_the_sample(labels: str) -> None:
    def fail(sample: dict[str, Any]) -> dict[str, Any]:
        raise LookupError("nothing")

    with label_loader(labels, transform=fail) as loader, pytest.raises(LookupError) as caught:
        list(loader)
    assert any("transform= for the sample" in note for note in caught.value.__notes__)


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (lambda sample: None, "returned NoneType"),
        (lambda sample: {f"f{sample['cls']}": 1}, "differ in their fields"),
        (lambda sample: {"a b": 1}, "cannot name elements of a batch"),
    ],
)
def test_transforms_that_cannot_be_batched(labels: str, transform: Callable[..., Any], message: str) -> None:
    with label_loader(labels, transform=transform) as loader, pytest.raises((UsageError, BatchError), match=message):
        list(loader)


def test_collate_makes_the_batch(labels: str) -> None:
    with label_loader(labels, collate=lambda samples: {s["__key__"]: s["cls"] for s in samples}) as loader:
        batch = next(iter(loader))
    assert len(batch) == 8
    assert all(int(key) == number for key, number in batch.items())


def test_collate_under_pad_is_told_what_is_valid(labels: str) -> None:
    options: dict[str, Any] = {
        "tail": "pad",
        "batch_size": 80,
        "collate": lambda samples: [s["valid"] for s in samples],
    }
    with label_loader(labels, **options) as loader:
        assert [sum(batch) for batch in loader] == [80, 3]


def test_an_empty_last_batch_has_its_shape(pictures: str) -> None:
    options: dict[str, Any] = {"batch_size": 7, "image": Resize(8), "tail": "exact", "rank": 6, "world_size": 7}
    with ShardLoader(pictures, **options) as loader:
        last = list(loader)[-1]
    assert last.jpg.shape == (0, 8, 8, 3)
    assert (last.cls.shape, last.cls.dtype) == ((0,), np.int64)


def test_links_to_other_samples_are_followed(tmp_path: Path) -> None:
    # As GNU tar packs a folder whose equal files were linked to save space.
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.cls").write_text(str(number))
    (folder / "0.jpg").write_bytes(picture(0))
    for number in (1, 2, 3):
        (folder / f"{number}.jpg").hardlink_to(folder / "0.jpg")
    subprocess.run(["tar", "--sort=name", "-cf", tmp_path / "a.tar", "-C", folder, "."], check=True)
    with ShardLoader(str(tmp_path / "a.tar"), batch_size=4, image=Resize(8), threads=2) as loader:
        (batch,) = loader
    assert sorted(batch.cls.tolist()) == [0, 1, 2, 3]
    assert all(np.array_equal(image, batch.jpg[0]) for image in batch.jpg)


# Bad input


def test_unequal_pictures_name_the_keys_and_the_cure(tmp_path: Path) -> None:
    write_shard(tmp_path / "a.tar", [(f"k{i}", {"jpg": picture(i, width=40 + i)}) for i in range(2)])
    with ShardLoader(str(tmp_path), batch_size=2, fields=("jpg",), shuffle=False) as loader:
        with pytest.raises(BatchError, match=r"k0.*k1.*RandomResizedCrop"):
            list(loader)


def bad_folder(tmp_path: Path, fields: dict[str, bytes], at: int = 5) -> str:
    samples = [(f"k{i}", fields if i == at else {"jpg": picture(i), "cls": str(i).encode()}) for i in range(12)]
    write_shard(tmp_path / "a.tar", samples)
    return str(tmp_path)


def test_no_shards(tmp_path: Path) -> None:
    with pytest.raises(NoShardsError, match="nothing-here"):
        len(ShardLoader(str(tmp_path / "nothing-here-*.tar"), batch_size=2))


def test_a_picture_that_does_not_decode_names_everything(tmp_path: Path) -> None:
    urls = bad_folder(tmp_path, {"jpg": picture(5)[:-200], "cls": b"5"})
    with ShardLoader(urls, batch_size=4, image=Resize(8)) as loader, pytest.raises(TruncatedPictureError) as caught:
        list(loader)
    error = caught.value
    assert (error.key, error.field, error.url) == ("k5", "jpg", str(tmp_path / "a.tar"))
    assert error.offset is not None
    assert 'on_error="skip"' in str(error)


def test_a_label_that_is_no_int_names_everything(tmp_path: Path) -> None:
    urls = bad_folder(tmp_path, {"jpg": picture(5), "cls": b"five"})
    with ShardLoader(urls, batch_size=4, image=Resize(8)) as loader:
        with pytest.raises(FieldError, match=r"five.*key k5, field cls"):
            list(loader)


def test_a_missing_field_lists_what_is_there(tmp_path: Path) -> None:
    urls = bad_folder(tmp_path, {"0 (clean).jpg": picture(5), "cls": b"5"})
    with ShardLoader(urls, batch_size=4, image=Resize(8)) as loader:
        with pytest.raises(MissingFieldError, match=r"no field 'jpg;jpeg;png;webp.*0 \(clean\)\.jpg.*first dot"):
            list(loader)


def test_fewer_samples_than_a_global_batch(labels: str) -> None:
    with pytest.raises(TooFewSamplesError, match=r"83 samples.*global batch of 96.*pad"):
        len(label_loader(labels, batch_size=32, rank=0, world_size=3))


def test_a_shard_that_was_replaced_is_noticed(tmp_path: Path) -> None:
    urls = write_labels(tmp_path, [20, 20])
    with label_loader(urls) as loader:
        assert len(loader) == 5
        write_tar(tmp_path / "s-0001.tar", [("x.cls", b"1" * 5000)])
        with pytest.raises(StaleIndexError, match="s-0001"):
            list(loader)


def test_too_little_read_ahead_names_the_setting(labels: str) -> None:
    with pytest.raises(UsageError, match=r"prefetch_bytes is 10.*prefetch_bytes="):
        len(label_loader(labels, read=Reading(prefetch_bytes=10)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"threads": 0}, "threads"),
        ({"lanes": 0}, "lanes"),
        ({"batch_size": 8.0}, r"batch_size is 8\.0, expected a whole number"),
        ({"batch_size": True}, "batch_size is True"),
        ({"threads": "2"}, "threads is '2'"),
        ({"lanes": 1.5}, r"lanes is 1\.5"),
        ({"shuffle": "yes"}, "shuffle is 'yes', expected True or False"),
        ({"tail": "cut"}, "tail"),
        ({"on_error": "ignore"}, "on_error"),
        ({"seed": -1}, "seed"),
        ({"rank": 0}, "rank and world_size"),
        ({"fields": ()}, "fields"),
        ({"fields": "cls"}, "fields"),
        ({"fields": 3}, "fields is 3"),
        ({"fields": ("cls", 3)}, "fields has 3, expected names"),
        ({"fields": ("cls", "cls")}, "twice"),
        ({"fields": ("jpg;cls",)}, "partly pictures"),
        ({"fields": ("cls",), "image": Resize(8)}, "image"),
        ({"fields": ("jpg",), "image": {"png": Resize(8)}}, "image"),
        ({"fields": ("jpg",), "image": 224}, r"image is 224, expected a crop such as RandomResizedCrop.*transform="),
        ({"fields": ("jpg",), "image": "crop"}, "image is 'crop', expected a crop"),
        ({"fields": ("jpg",), "image": lambda picture: picture}, r"image is <function .*transform="),
        ({"fields": ("jpg",), "image": RandomResizedCrop}, "image is RandomResizedCrop, expected a crop"),
        ({"fields": ("jpg",), "image": {"jpg": 224}}, r"image\['jpg'\] is 224, expected a crop"),
        ({"fields": ("jpg",), "image": {1: Resize(8)}}, "image has 1, expected a field's name"),
    ],
)
def test_arguments_that_cannot_be_are_refused_by_the_constructor(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        label_loader("nowhere", **options)


def test_a_rank_outside_the_world_is_refused(labels: str) -> None:
    with pytest.raises(UsageError, match="rank is 3 of world_size 3"):
        len(label_loader(labels, rank=3, world_size=3))


def test_ranks_come_from_the_environment(labels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with label_loader(labels) as loader, label_loader(labels, rank=1, world_size=2) as same:
        assert epoch_of(loader) == epoch_of(same)


def test_centre_crops_are_the_same_each_epoch(pictures: str) -> None:
    with ShardLoader(pictures, batch_size=50, image=CenterCrop(16), shuffle=False) as loader:
        first, second = (next(iter(loader)).jpg for _ in range(2))
    assert np.array_equal(first, second)


def test_reprs_show_no_passwords_and_no_signatures() -> None:
    urls = "https://me:s3cret@host/d/s-{000..009}.tar?sig=s3cret"
    dataset = "https://me:s3cret@host/d/dataset.json?sig=s3cret"
    loader = ShardLoader([dataset, "here/dataset.json"], batch_size=4, fields=["cls"])
    texts = [repr(loader), repr(StreamLoader(urls, batch_size=4, fields=["cls"])), mix([(dataset, 1)]).parts[0].name]
    assert all("s3cret" not in text and "host/d/" in text for text in texts), texts
    assert "'here/dataset.json'" in texts[0]
