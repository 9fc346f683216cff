"""Servers and shards for the troubles over http: shards of known bytes, hosts that limit, sign, replace and refuse."""

from __future__ import annotations

import gzip
import threading
from collections import Counter
from email.utils import formatdate
from pathlib import Path
from time import monotonic, time

import loaders
from loaders import Remote, ShardLoader
from tests.builders import write_shard
from tests.cases.inputs_tar import sample
from tests.servers.faulty import Plan, Reply, Request, Stored, says, well
from tests.wds_tools.tar.archives import END
from wds_tools.make_index import make_index

__all__ = ["Bucket", "batches", "content", "dataset", "places", "raw", "stored_gzip", "without_head"]

Rows = list[tuple[str, dict[str, bytes]]]


def content(count: int = 8, first: int = 0) -> bytes:
    """A shard of pictures and labels."""
    return b"".join(sample(f"{n:04d}", n) for n in range(first, first + count)) + END


def places(shard: bytes) -> dict[str, int]:
    """Where a transfer of this shard may break."""
    return {"at its first byte": 0, "inside the first header": 100, "inside a member": 1000, "between members": 2048}


def dataset(folder: Path, shards: int, samples: int, *, bytes_each: int = 2000) -> str:
    """Shards of random-looking fields of their own, and their listing; returns the folder."""
    for shard in range(shards):
        rows = [
            (f"{n:06d}", {"bin": (b"%06d" % n) * (bytes_each // 6), "cls": b"%d" % n})
            for n in range(shard * samples, (shard + 1) * samples)
        ]
        write_shard(folder / f"s-{shard:04d}.tar", rows)
    make_index(str(folder))
    return str(folder)


def raw(url: str, remote: Remote | None = None) -> Rows:
    """The samples of one pass."""
    with loaders.samples(url, remote=remote) as samples:
        return [
            (each["__key__"], {name: bytes(data) for name, data in each.items() if not name.startswith("__")})
            for each in samples
        ]


def batches(urls: object, **options: object) -> list[list[int]]:
    """The labels of an epoch's batches."""
    with ShardLoader(urls, **{"batch_size": 8, "fields": ("cls",), "threads": 2, **options}) as loader:  # type: ignore[arg-type]
        return [batch.cls.tolist() for batch in loader]


class Bucket:
    """A host that answers so many requests a second, and 429 to all others, with the time to wait in turn as seconds,
    as a date, or not at all; and 503 to one in ten."""

    def __init__(self, rate: float, *, wait_s: int = 1) -> None:
        self._rate, self._wait = rate, wait_s
        self._tokens, self._at = rate, monotonic()
        self._lock = threading.Lock()
        self.said: Counter[int] = Counter()
        self._number = 0

    def __call__(self, request: Request, stored: Stored) -> Reply:
        with self._lock:
            self._number += 1
            now = monotonic()
            self._tokens = min(self._rate, self._tokens + (now - self._at) * self._rate)
            self._at = now
            reply = self._answer(request, stored)
            self.said[reply.status] += 1
        return reply

    def _answer(self, request: Request, stored: Stored) -> Reply:
        if self._tokens < 1:
            forms: tuple[dict[str, str], ...] = (
                {"Retry_After": str(self._wait)},
                {"Retry_After": formatdate(time() + self._wait, usegmt=True)},
                {},
            )
            return says(429, **forms[self._number % 3])(request, stored)
        self._tokens -= 1
        return says(503)(request, stored) if self._number % 10 == 7 else well(request, stored)


def without_head(plan: Plan) -> Plan:
    """A host that knows GET only."""
    return lambda request, stored: says(405)(request, stored) if request.method != "GET" else plan(request, stored)


def stored_gzip(request: Request, stored: Stored) -> Reply:
    """An object that lies there compressed, marked as an encoding of its content."""
    return well(request, Stored(gzip.compress(stored.content, mtime=0))).but(Content_Encoding="gzip")
