"""For each class of error what it takes to meet it: code that raises it, for the page of the docs that shows them all.

Each function is named after its class, is called in an empty folder, and raises the error as a user meets it: through
the public calls, on real files and a real server.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import loaders
from loaders import CenterCrop, ShardLoader, StreamLoader
from shardwriter import ShardWriter, pack
from tests.builders import picture, write_shard, write_tar
from tests.servers.faulty import Behaviour, FaultyServer, ignoring_range
from wds_tools.make_index import make_index
from wds_tools.pictures.options import Pictures

CAT = picture(1)

__all__ = ["SCENES"]


def read(urls: str = "shards", *, batch_size: int = 1, **options: object) -> None:
    """One epoch."""
    with ShardLoader(urls, batch_size=batch_size, image=CenterCrop(24), **options) as loader:  # type: ignore[arg-type]
        for _ in loader:
            pass


def cats(count: int, name: str = "shards/train-000000.tar", **fields: bytes) -> Path:
    """A shard of pictures."""
    samples = [(f"cat/{n}", {"jpg": CAT, "cls": b"3", **fields}) for n in range(count)]
    return write_shard(Path(name), samples)


def usage_error() -> None:
    ShardLoader("shards", batch_size=64, tail="last")  # type: ignore[arg-type]


def no_shards_error() -> None:
    cats(1)
    read("shards/train-{000000..000003}.tgz")


def too_few_samples_error() -> None:
    cats(100)
    read(batch_size=64, rank=0, world_size=4)


def length_unknown_error() -> None:
    cats(4)
    len(StreamLoader("shards", batch_size=2))


def ranges_refused_error() -> None:
    cats(4)
    make_index("shards")
    files = {f"/{path.name}": path.read_bytes() for path in Path("shards").iterdir()}
    with FaultyServer(files, then=Behaviour(plan=ignoring_range)) as server:
        with loaders.open(server.url("/dataset.json")) as dataset:
            dataset[2]


def state_error() -> None:
    cats(8)
    with ShardLoader("shards", batch_size=2, fields=("cls",), seed=0) as loader:
        state = loader.state_dict()
    cats(4, "shards/train-000001.tar")
    with ShardLoader("shards", batch_size=2, fields=("cls",), seed=1) as loader:
        loader.load_state_dict(state)


def key_refused_error() -> None:
    with ShardWriter("out/train-%06d.tar") as writer:
        writer.write({"__key__": "cat/1.5", "cls": 3})


def field_refused_error() -> None:
    with ShardWriter("out/train-%06d.tar") as writer:
        writer.write({"__key__": "cat/1", "jpg": np.zeros((8, 8, 3), np.float32)})


def target_error() -> None:
    Path("pictures/cat").mkdir(parents=True)
    Path("pictures/cat/1.jpg").write_bytes(CAT)
    pack("pictures", "out")
    pack("pictures", "out", seed=1)


def not_a_tar_error() -> None:
    Path("shards").mkdir()
    Path("shards/train-000000.tar").write_bytes(b"<html><head><title>403 Forbidden</title>" * 60)
    read()


def truncated_shard_error() -> None:
    shard = cats(4)
    shard.write_bytes(shard.read_bytes()[:5000])
    read()


def header_error() -> None:
    shard = cats(4)
    content = bytearray(shard.read_bytes())
    content[content.index(b"cat/2.jpg")] ^= 1
    shard.write_bytes(content)
    read()


def grouping_error() -> None:
    members = [("cat/1.jpg", CAT), ("cat/2.jpg", CAT), ("cat/1.cls", b"3"), ("cat/2.cls", b"3")]
    write_tar(Path("shards/train-000000.tar"), members)
    read()


def listing_error() -> None:
    cats(4)
    Path("shards/dataset.json").write_text('{"shardlist": [{"url": "train-000000.tar"')
    read()


def stale_index_error() -> None:
    cats(4)
    make_index("shards")
    cats(40)
    read()


def batch_error() -> None:
    arrays = [np.zeros(n, np.float32) for n in (4, 5)]
    with ShardWriter("shards/train-%06d.tar") as writer:
        for number, array in enumerate(arrays):
            writer.write({"__key__": f"cat/{number}", "npy": array})
    with ShardLoader("shards", batch_size=2, fields=("npy",), shuffle=False) as loader:
        next(iter(loader))


def too_many_failures_error() -> None:
    write_shard(Path("shards/train-000000.tar"), [(f"cat/{n}", {"jpg": CAT}) for n in range(200)])
    read(on_error="skip")


def missing_field_error() -> None:
    write_shard(Path("shards/train-000000.tar"), [("cat/1", {"jpg": CAT, "json": b"{}"})])
    read()


def field_error() -> None:
    write_shard(Path("shards/train-000000.tar"), [("cat/1", {"jpg": CAT, "cls": b"tabby"})])
    read()


def member_error() -> None:
    path = Path("shards/train-000000.tar")
    path.parent.mkdir()
    with tarfile.open(path, "w") as archive:
        link = tarfile.TarInfo("cat/1.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "/data/cat/1.jpg"
        archive.addfile(link)
        label = tarfile.TarInfo("cat/1.cls")
        label.size = 1
        archive.addfile(label, io.BytesIO(b"3"))
    read()


def picture_error() -> None:
    damaged = CAT.replace(b"\xff\xc0", b"\xff\xfe", 1)  # the header that states the size is a comment now
    write_shard(Path("shards/train-000000.tar"), [("cat/1", {"jpg": damaged, "cls": b"3"})])
    read()


def truncated_picture_error() -> None:
    write_shard(
        Path("shards/train-000000.tar"), [("cat/1", {"jpg": picture(1, width=160, height=120)[:-500], "cls": b"3"})]
    )
    read()


def picture_too_large_error() -> None:
    cats(1)
    read(pictures=Pictures(max_pixels=1000))


def unsupported_picture_error() -> None:
    write_shard(Path("shards/train-000000.tar"), [("cat/1", {"jpg": b"<html>not found</html>", "cls": b"3"})])
    read()


def unavailable_error() -> None:
    cats(1)
    with FaultyServer({}) as server:
        url = server.url("/train-000000.tar")
    remote = loaders.Remote(attempts=1, give_up_s=1)
    next(loaders.samples(url, remote=remote))


def shard_missing_error() -> None:
    cats(4)
    make_index("shards")
    Path("shards/train-000000.tar").unlink()
    read("shards/dataset.json")


def shard_changed_error() -> None:
    cats(4)
    make_index("shards")
    listing = {f"/{path.name}": path.read_bytes() for path in Path("shards").iterdir()}
    other = cats(4, "other/train-000000.tar", txt=bytes(9000))
    with FaultyServer({**listing, "/train-000000.tar": other.read_bytes()}) as server:
        with loaders.open(server.url("/dataset.json")) as dataset:
            dataset[2]


SCENES: dict[str, Callable[[], None]] = {
    "".join(part.capitalize() for part in name.split("_")): scene
    for name, scene in list(globals().items())
    if name.endswith("_error")
}
