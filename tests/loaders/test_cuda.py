"""What only a device can show: pinned memory, copies beside the computation, normalising there. `make test-cuda`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from loaders import RandomResizedCrop
from loaders.torch import Normalize, ShardDataset, ShardLoader, StreamLoader, to_device
from tests.builders import write_pictures

pytestmark = pytest.mark.cuda

OPTIONS: dict[str, Any] = {"batch_size": 8, "image": RandomResizedCrop(96)}
BATCHES = 12
_CYCLES = 50_000_000  # some tens of milliseconds, in which all slabs come round


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_pictures(tmp_path_factory.mktemp("pictures"), [40, 41, 19])


@pytest.fixture(scope="module")
def expected(urls: str) -> list[list[torch.Tensor]]:
    """The pictures of three epochs, in memory that is not pinned."""
    with ShardLoader(urls, **OPTIONS) as loader:
        epochs = [[batch.jpg.clone() for batch in loader] for _ in range(3)]
    assert [len(epoch) for epoch in epochs] == [BATCHES] * 3
    return epochs


def hold_up() -> None:
    """Let the current stream be busy for a while, so that what is put on it next runs long after it was asked for."""
    torch.cuda._sleep(_CYCLES)  # type: ignore[no-untyped-call]


def same(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> bool:
    return len(found) == len(wanted) and all(
        torch.equal(ours.cpu(), theirs) for ours, theirs in zip(found, wanted, strict=True)
    )


# Pinned memory


@pytest.mark.parametrize("kind", [ShardLoader, StreamLoader])
def test_batches_are_pinned_and_their_parts_too(urls: str, kind: Any) -> None:
    with kind(urls, **OPTIONS, pin_memory=True) as loader:
        for batch in loader:
            assert batch.jpg.is_pinned()
            assert batch.jpg[3:5].is_pinned()
            assert batch.jpg.is_contiguous(memory_format=torch.channels_last)


def test_torch_gives_pinned_memory_out_again(urls: str) -> None:
    with ShardLoader(urls, **OPTIONS, pin_memory=True) as loader:
        places = {batch.jpg.data_ptr() for _ in range(3) for batch in loader}
    assert len(places) < BATCHES


def test_pinned_batches_belong_to_the_caller(urls: str, expected: list[list[torch.Tensor]]) -> None:
    with ShardLoader(urls, **OPTIONS, pin_memory=True) as loader:
        kept = [[batch.jpg for batch in loader] for _ in range(3)]
    assert all(same(ours, theirs) for ours, theirs in zip(kept, expected, strict=True))


def whole(images: torch.Tensor) -> torch.Tensor:
    return images.to("cuda", non_blocking=True)


def parts(images: torch.Tensor) -> torch.Tensor:
    return torch.cat([images[low : low + 3].to("cuda", non_blocking=True) for low in range(0, len(images), 3)])


@pytest.mark.parametrize("copy", [whole, parts])
def test_a_batch_may_be_let_go_while_it_is_still_to_be_copied(
    urls: str, expected: list[list[torch.Tensor]], copy: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    with ShardLoader(urls, **OPTIONS, pin_memory=True) as loader:
        for epoch in expected:
            hold_up()
            found = [copy(batch.jpg) for batch in loader]  # nothing but the device knows the host's memory now
            torch.cuda.synchronize()
            assert same(found, epoch)


def test_a_stream_of_the_callers_own_may_copy(urls: str, expected: list[list[torch.Tensor]]) -> None:
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with ShardLoader(urls, **OPTIONS, pin_memory=True) as loader, torch.cuda.stream(stream):
        for epoch in expected:
            hold_up()
            found = [whole(batch.jpg) for batch in loader]
            stream.synchronize()
            assert same(found, epoch)


# to_device


@pytest.mark.parametrize("pin_memory", [True, False])
def test_batches_come_on_the_device(urls: str, expected: list[list[torch.Tensor]], pin_memory: bool) -> None:
    with ShardLoader(urls, **OPTIONS, pin_memory=pin_memory) as loader:
        moved = to_device(loader, "cuda")
        assert len(moved) == BATCHES
        for epoch in expected:
            found = []
            for batch in moved:
                assert batch.jpg.is_cuda
                assert batch.cls.is_cuda
                found.append(batch.jpg)
            assert same(found, epoch)


def test_work_on_the_device_sees_whole_batches(urls: str, expected: list[list[torch.Tensor]]) -> None:
    """The consumer is far behind the copies, on a stream of its own, and lets each batch go at once."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with ShardLoader(urls, **OPTIONS, pin_memory=True) as loader, torch.cuda.stream(stream):
        for epoch in expected:
            sums = []
            for batch in to_device(loader, "cuda"):
                hold_up()
                sums.append(batch.jpg.sum(dim=(1, 2, 3), dtype=torch.int64))
                del batch
            stream.synchronize()
            wanted = [images.sum(dim=(1, 2, 3), dtype=torch.int64) for images in epoch]
            assert [each.tolist() for each in sums] == [each.tolist() for each in wanted]


def test_batches_that_are_kept_stay_as_they_are(urls: str, expected: list[list[torch.Tensor]]) -> None:
    with ShardLoader(urls, **OPTIONS, pin_memory=True) as loader:
        moved = to_device(loader, "cuda")
        kept = [[batch.jpg for batch in moved] for _ in range(3)]
        torch.cuda.synchronize()
    assert all(same(ours, theirs) for ours, theirs in zip(kept, expected, strict=True))


def test_its_state_resumes_at_every_batch(urls: str, expected: list[list[torch.Tensor]]) -> None:
    def begun(state: dict[str, Any] | None) -> Iterator[tuple[torch.Tensor, dict[str, Any]]]:
        with ShardLoader(urls, **OPTIONS, pin_memory=True) as loader:
            moved = to_device(loader, "cuda")
            if state is not None:
                moved.load_state_dict(state)
            for epoch in range(moved.epoch, 2):
                assert moved.epoch == epoch
                for batch in moved:
                    yield batch.jpg.cpu(), moved.state_dict()

    wanted = [*expected[0], *expected[1]]
    states = [state for _, state in begun(None)]
    assert len(states) == len(wanted)
    for number, state in enumerate(states[:-1], start=1):
        (first, _), *_ = itertools.islice(begun(state), 1)
        assert torch.equal(first, wanted[number])


def test_workers_batches_are_pinned_by_torch(urls: str, expected: list[list[torch.Tensor]]) -> None:
    dataset = ShardDataset(urls, **OPTIONS)
    loader: Any = DataLoader(dataset, batch_size=None, num_workers=2, pin_memory=True)
    found = []
    for batch in loader:
        assert batch.jpg.is_pinned()
        found.append(whole(batch.jpg))
    torch.cuda.synchronize()
    assert same(found, expected[0])
    dataset.close()


# Normalize


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_normalize_gives_on_the_device_what_it_gives_on_the_host(
    expected: list[list[torch.Tensor]], dtype: torch.dtype
) -> None:
    module = Normalize(dtype=dtype)
    on_host = module(expected[0][0])
    on_device = module.to("cuda")(expected[0][0].to("cuda"))
    assert (on_device.dtype, on_device.is_cuda) == (dtype, True)
    assert on_device.is_contiguous(memory_format=torch.channels_last)
    # One multiplication and one addition, which a device may do in one rounding.
    torch.testing.assert_close(on_device.cpu(), on_host, rtol=torch.finfo(dtype).eps * 2, atol=1e-6)


def test_a_model_learns_from_what_comes_over(urls: str) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        Normalize(), torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(48, 1)
    ).cuda()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    with ShardLoader(urls, **OPTIONS, pin_memory=True) as loader:
        for _ in range(3):
            for images, labels in to_device(loader, "cuda"):
                loss = (model(images)[:, 0] - labels / 100).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(float(loss.detach()))
    assert sum(losses[-BATCHES:]) < sum(losses[:BATCHES])


def test_no_device_memory_is_left_behind(urls: str) -> None:
    with ShardLoader(urls, **OPTIONS, pin_memory=True) as loader:
        moved = to_device(loader, "cuda")
        list(itertools.islice(moved, 3))
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        for _ in range(3):
            for _ in moved:
                pass
        torch.cuda.synchronize()
        assert torch.cuda.memory_allocated() <= before
