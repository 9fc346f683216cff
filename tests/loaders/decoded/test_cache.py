"""Loaders with decoded pictures kept: the same batches whatever is in the cache, who shares it and how it is read."""

from __future__ import annotations

import io
import multiprocessing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from torch.utils.data import DataLoader

from loaders import CenterCrop, Mask, RandomResizedCrop, ShardLoader
from loaders.decoded import places
from loaders.torch import ShardDataset
from loaders.torch import ShardLoader as TorchLoader
from tests.builders import picture, settle, write_pictures, write_shard
from tests.loaders.decoded.ranks import digests, options, small
from tests.loaders.decoded.ranks import rank as run_rank
from wds_tools.errors import SampleError, StateError
from wds_tools.pictures.decode import Decoder


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_pictures(tmp_path_factory.mktemp("pictures"), [40, 40, 10], width=160, height=120)


@pytest.fixture(autouse=True)
def shm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setattr(places, "_SHM", folder)
    yield folder
    settle()
    assert not any(folder.iterdir()), "what is in memory ends with its last user"


def test_batches_do_not_depend_on_what_is_in_the_cache(urls: str, tmp_path: Path) -> None:
    with ShardLoader(urls, **options(decoded_cache=small("ram"), threads=1)) as loader:
        expected = digests(loader, 3)
        report = loader.report()
        assert (report.cache_kept, report.cache_damaged) == (90, 0)
        assert report.cache_hits >= 180
        assert report.cache_bytes < 20_000_000
        assert "of the samples came decoded from the cache" in str(report)
    assert len({digest for epoch in expected for digest in epoch}) == 27
    for count in ("20MB", "1MiB"):  # all of them, and about two thirds
        for _ in range(2):  # begun with nothing, and with what there was
            with ShardLoader(urls, **options(decoded_cache=small(tmp_path / count, count), threads=3)) as loader:
                assert digests(loader, 3) == expected
        with ShardLoader(urls, **options(decoded_cache=small(tmp_path / count, count))) as loader:
            loader.set_epoch(1)
            assert digests(loader) == expected[1:2]
            report = loader.report()
            share = report.cache_hits / (report.cache_hits + report.cache_misses)
            assert share == 1 if count == "20MB" else 0.4 < share < 0.9
            assert report.cache_bytes <= (20_000_000 if count == "20MB" else 1 << 20)


def test_a_crop_is_cut_from_the_resized_picture_at_the_place_where_it_is_drawn(tmp_path: Path) -> None:
    urls = write_pictures(tmp_path / "data", [12], width=240, height=180)
    crop = CenterCrop((40, 60), resize=90)
    decoder = Decoder()
    with ShardLoader(urls, **options(batch_size=12, image=crop, decoded_cache=small("ram", size=90))) as loader:
        for _ in range(2):
            (batch,) = loader
            for found, number in zip(batch.jpg, batch.cls, strict=True):
                data = picture(int(number), width=240, height=180)
                whole = decoder.decode(data, size=(90, 120))
                assert np.array_equal(found, whole[25:65, 30:90])
                direct = decoder.decode(data, box=crop.place(240, 180, ()).box, size=(40, 60))
                assert np.abs(found.astype(int) - direct).mean() < 2


def test_an_exact_size_and_pictures_that_are_smaller(tmp_path: Path) -> None:
    samples = [(f"{n:03d}", {"jpg": picture(n, width=30 + 7 * n, height=90 - 5 * n), "cls": b"1"}) for n in range(12)]
    urls = str(write_shard(tmp_path / "s.tar", samples))
    for size in (50, (50, 70)):
        with ShardLoader(
            urls, **options(batch_size=4, image=RandomResizedCrop((40, 50)), decoded_cache=small("ram", size=size))
        ) as loader:
            first = digests(loader, 2)
            loader.set_epoch(0)
            assert digests(loader, 2) == first


def test_masks_and_other_fields_are_as_they_were(tmp_path: Path) -> None:
    def mask(n: int) -> bytes:
        stream = io.BytesIO()
        Image.fromarray((np.arange(160 * 120).reshape(120, 160) // 400 + n).astype(np.uint8)).save(stream, "PNG")
        return stream.getvalue()

    def fields_of(n: int) -> dict[str, bytes]:
        odd = {"txt": b"odd"} if n % 2 else {}
        return {"jpg": picture(n, width=160, height=120), "seg.png": mask(n), "json": b'{"n": %d}' % n, **odd}

    samples = [(f"a/{n:03d}", fields_of(n)) for n in range(20)]
    urls = str(write_shard(tmp_path / "s.tar", samples))
    image: Any = {"jpg": RandomResizedCrop(48), "seg.png": Mask()}
    fields = ("__key__", "__index__", "jpg", "seg.png", "json", "txt?")
    plain = options(batch_size=5, fields=fields, image=image)
    with ShardLoader(urls, **plain) as without, ShardLoader(urls, **plain, decoded_cache=small("ram")) as loader:
        for _ in range(3):
            for expected, found in zip(without, loader, strict=True):
                assert found.key == expected.key
                assert np.array_equal(found[1], expected[1])
                assert np.array_equal(found.seg_png, expected.seg_png)
                assert (found.json, found.txt) == (expected.json, expected.txt)
                assert np.abs(found.jpg.astype(int) - expected.jpg).mean() < 12
        # the third epoch's: the second begins while the first one's last pictures are still being kept
        assert loader.report().cache_hits >= 20


def test_a_transform_has_pictures_of_its_own(urls: str) -> None:
    kept: list[Any] = []

    def keep(sample: dict[str, Any]) -> dict[str, Any]:
        kept.append((sample["cls"], sample["jpg"], sample["jpg"].copy()))
        return sample

    with ShardLoader(urls, **options(decoded_cache=small("ram"), transform=keep, threads=1)) as loader:
        digests(loader, 2)
    assert all(np.array_equal(held, copy) for _, held, copy in kept)


def test_bad_samples_are_replaced_alike_and_never_kept(tmp_path: Path) -> None:
    samples = [
        (f"{n:03d}", {"jpg": picture(n, width=160, height=120)[: 900 if n in {3, 17} else None], "cls": b"%d" % n})
        for n in range(40)
    ]
    samples[30][1]["cls"] = b"no number"
    urls = str(write_shard(tmp_path / "s.tar", samples))
    with ShardLoader(urls, **options(on_error="skip", decoded_cache=small("ram"))) as loader:
        first = digests(loader, 3)
        assert loader.report().cache_kept == 37
        loader.set_epoch(0)
        assert digests(loader, 3) == first
    with (
        ShardLoader(urls, **options(decoded_cache=small("ram"))) as loader,
        pytest.raises(SampleError, match="on_error"),
    ):
        digests(loader)


def test_damage_on_disk_is_found_and_batches_stay_the_same(urls: str, tmp_path: Path) -> None:
    cache = small(tmp_path / "cache")
    with ShardLoader(urls, **options(decoded_cache=cache)) as loader:
        expected = digests(loader, 2)
    (path,) = (tmp_path / "cache").glob("*.pictures")
    content = bytearray(path.read_bytes())
    for at in range(8192, len(content), 100_000):
        content[at] ^= 255
    path.write_bytes(content)
    with ShardLoader(urls, **options(decoded_cache=cache)) as loader:
        assert digests(loader, 2) == expected
        report = loader.report()
        assert report.cache_damaged == len(range(8192, len(content), 100_000))
        assert "of it damaged" in str(report)


def test_other_options_do_not_share(urls: str, tmp_path: Path) -> None:
    cases: list[dict[str, Any]] = [
        {},
        {"decoded_cache": small(tmp_path, size=80)},
        {"fields": ("jpg", "cls", "__key__")},
        {"fields": ("jpg",)},
    ]
    for case in cases:
        with ShardLoader(urls, **options(**{"decoded_cache": small(tmp_path), **case})) as loader:
            digests(loader)
            assert loader.report().cache_kept == 90
    with ShardLoader(urls, **options(decoded_cache=small(tmp_path), image=CenterCrop(32), seed=9)) as loader:
        digests(loader)
        assert loader.report().cache_misses == 0, "what is kept does not depend on the crop"


def test_the_state_names_the_size(urls: str, caplog: pytest.LogCaptureFixture) -> None:
    with ShardLoader(urls, **options(decoded_cache=small("ram"))) as loader:
        state = loader.state_dict()
        assert state["backend"].endswith(" at 64")
        loader.load_state_dict(state)
        assert not caplog.records
    with ShardLoader(urls, **options()) as loader:
        loader.load_state_dict(state)
        assert "at 64, this run decodes with" in caplog.text
        with pytest.raises(StateError):
            loader.load_state_dict({**state, "seed": 4})


def test_nothing_is_read_of_what_is_kept(urls: str, tmp_path: Path) -> None:
    """Labels, too, come from the cache: the shards may lie on a slow disk."""
    with ShardLoader(urls, **options(decoded_cache=small(tmp_path))) as loader:
        expected = digests(loader, 2)
        before = loader.report()
        loader.set_epoch(0)
        assert digests(loader, 2) == expected
        assert loader.report().since(before).bytes == 0


def test_tensors_and_padded_batches(urls: str) -> None:
    for kind in (ShardLoader, TorchLoader):
        for tail in ("pad", "exact"):
            with kind(urls, **options(batch_size=16, tail=tail, decoded_cache=small("ram"))) as loader:
                first = digests(loader, 2)
                loader.set_epoch(0)
                assert digests(loader, 2) == first


@pytest.mark.parametrize("place", ["ram", "folder"])
def test_ranks_share_one_cache(urls: str, tmp_path: Path, shm: Path, place: str) -> None:
    where = "ram" if place == "ram" else str(tmp_path / "folder")
    expected = {}
    for rank in range(2):
        with ShardLoader(urls, rank=rank, world_size=2, **options(batch_size=5, decoded_cache=small("ram"))) as loader:
            expected[rank] = digests(loader, 3)
    spawn = multiprocessing.get_context("spawn")
    queue = spawn.Queue()
    ranks = [spawn.Process(target=run_rank, args=(rank, urls, where, shm, queue)) for rank in range(2)]
    for process in ranks:
        process.start()
    results = [queue.get() for _ in ranks]
    for process in ranks:
        process.join()
    queue.close()
    assert {rank: found for rank, found, _, _ in results} == expected
    if place == "folder":  # ranks see other samples in each epoch: those that the other one has kept
        assert sum(kept for *_, kept in results) < 110
        assert sum(hits for *_, hits, _ in results) > 100


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_of_a_data_loader_share_what_outlives_them(urls: str, persistent: bool) -> None:
    with ShardLoader(urls, **options(decoded_cache=small("ram"))) as loader:
        expected = digests(loader, 3)
    dataset = ShardDataset(urls, **{**options(decoded_cache=small("ram")), "threads": 1})
    workers: Any = DataLoader(
        dataset, batch_size=None, num_workers=2, multiprocessing_context="fork", persistent_workers=persistent
    )
    assert digests(workers) == expected[:1]
    (path,) = places.shared_memory_folder().glob("*.pictures")
    size = path.stat().st_size
    assert size > 90 * 64 * 85 * 3
    assert digests(workers, 2) == expected[1:]
    assert path.stat().st_size <= size + 2 * (1 << 20), "nothing is kept twice"
    del workers, dataset
