"""A dataset whose makers meant no good: every key, caption and class tries to be more than text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.builders import picture, write_shard
from wds_tools.codec import encode_field
from wds_tools.dataset import open_dataset
from wds_tools.index.listing import ShardRecord, write_listing

SCRIPT = "<script>document.title='owned'</script>"
KEYS = (
    SCRIPT.replace(".", "_"),
    "\"><img src=x onerror=\"document['title']='owned'\">",
    "'></title></style></script><svg onload=alert(1)>",
    "exe\u202egpj",
    "مفتاح/one",
    "猫",
    "plain",
    "a{b}&amp;c",
)
CLASSES = (SCRIPT, '"><b>bold</b>', "owl")
CUT = 6
"""The sample whose picture is cut off."""


def fields(number: int) -> dict[str, bytes]:
    """One sample, with a field of each kind."""
    jpeg = picture(number, width=200, height=150)
    return {
        "jpg": jpeg[: len(jpeg) // 2] if number == CUT else jpeg,
        "cls": str(number % len(CLASSES)).encode(),
        "txt": f"a caption {SCRIPT}".encode(),
        "json": encode_field("json", {"note": f"</script>{SCRIPT}", "id": number}),
        "seg.png": encode_field("seg.png", np.eye(40, dtype=np.uint8) * 3),
        "npy": encode_field("npy", np.arange(500, dtype=np.float32)),
        "bin": b"\x00<script>",
    }


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two shards of eight samples with a listing."""
    folder = tmp_path_factory.mktemp("hostile")
    records = []
    for shard in range(2):
        numbers = range(8 * shard, 8 * shard + 8)
        path = write_shard(folder / f"s-{shard}.tar", [(f"{KEYS[n % 8]}-{n}", fields(n)) for n in numbers])
        offsets = open_dataset(path).offsets
        records.append(ShardRecord(url=path.name, samples=8, bytes=path.stat().st_size, offsets=offsets))
    extra = {"classes": list(CLASSES), "command": f"wds pack {SCRIPT}", "failed": {SCRIPT: 3}, "shuffled": False}
    write_listing(folder / "dataset.json", records, name=SCRIPT, extra=extra)
    return folder
