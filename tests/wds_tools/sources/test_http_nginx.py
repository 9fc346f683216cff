"""nginx, the server that most people will use: ranges, streams and changes, as it answers them."""

import itertools
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.nginx import NGINX, serving
from wds_tools.errors import ShardChangedError, ShardMissingError, TruncatedShardError, UnavailableError
from wds_tools.sources import resolve
from wds_tools.sources.http import HttpFile, close_idle
from wds_tools.sources.options import Remote

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed (apt-get install nginx-light)")

CONTENT = random.Random(4).randbytes(5_000_011)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "www").mkdir()
    (tmp_path / "www" / "x y.tar").write_bytes(CONTENT)
    (tmp_path / "www" / "empty.tar").write_bytes(b"")
    return tmp_path / "www"


@pytest.fixture
def root(folder: Path, tmp_path: Path) -> Iterator[str]:
    (tmp_path / "work").mkdir()
    zone = "limit_req_zone $server_port zone=rate:1m rate=8r/s;"
    limited = f"location /limited/ {{ limit_req zone=rate burst=3 nodelay; limit_req_status 429; alias {folder}/; }}"
    with serving(folder, tmp_path / "work", extra=limited, extra_http=zone) as root:
        yield root
    close_idle()


def read(file: HttpFile, offset: int, length: int) -> bytes:
    buffer = bytearray(length)
    file.read_into(offset, memoryview(buffer))
    return bytes(buffer)


def test_ranges_and_the_end(root: str) -> None:
    chance = random.Random(5)
    with HttpFile(f"{root}/x y.tar") as file:  # the space is encoded on the way
        for _ in range(30):
            offset = chance.randrange(len(CONTENT))
            length = chance.randrange(1, min(len(CONTENT) - offset, 1_000_000) + 1)
            assert read(file, offset, length) == CONTENT[offset : offset + length]
        assert (file.size(), file.ranges, file.limited) == (len(CONTENT), True, False)
        assert file.version is not None
        with pytest.raises(TruncatedShardError):
            read(file, len(CONTENT) - 1, 2)
    with HttpFile(f"{root}/empty.tar") as file:
        assert file.size() == 0
        with pytest.raises(TruncatedShardError):
            read(file, 0, 1)


def test_streams(root: str) -> None:
    for name, content in (("x y.tar", CONTENT), ("empty.tar", b"")):
        with resolve.open_stream(f"{root}/{name}") as stream:
            whole, buffer = bytearray(), bytearray(1 << 20)
            while count := stream.readinto(memoryview(buffer)):
                whole += buffer[:count]
            assert whole == content
            assert stream.shows_cuts


def test_a_file_that_is_replaced_is_noticed(root: str, folder: Path) -> None:
    with HttpFile(f"{root}/x y.tar") as file:
        assert read(file, 0, 10) == CONTENT[:10]
        (folder / "new").write_bytes(CONTENT[::-1])
        os.utime(folder / "new", (1, 1))
        (folder / "new").rename(folder / "x y.tar")
        with pytest.raises(ShardChangedError):
            read(file, 10, 10)


def test_what_is_not_there_and_what_may_not_be_read(root: str, folder: Path) -> None:
    with HttpFile(f"{root}/none.tar") as file, pytest.raises(ShardMissingError):
        read(file, 0, 10)
    (folder / "shut").mkdir()
    with HttpFile(f"{root}/shut/") as file, pytest.raises(UnavailableError, match="403"):
        read(file, 0, 10)


def test_a_server_that_limits_the_rate_is_read_to_the_end(root: str) -> None:
    with HttpFile(f"{root}/limited/x y.tar") as file:
        for number in itertools.count(1):
            begin = number % 8 * 1000
            assert read(file, begin, 1000) == CONTENT[begin : begin + 1000]
            if number >= 8 and file.limited:  # on a slow machine later than after eight: until the server was hurried
                break


def test_many_threads_over_few_connections(root: str, tmp_path: Path) -> None:
    wrong: list[int] = []
    with HttpFile(f"{root}/x y.tar", remote=Remote(in_flight=4)) as file:

        def some(seed: int) -> None:
            chance = random.Random(seed)
            for _ in range(25):
                offset = chance.randrange(len(CONTENT) - 100_000)
                if read(file, offset, 100_000) != CONTENT[offset : offset + 100_000]:
                    wrong.append(offset)

        threads = [threading.Thread(target=some, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert len((tmp_path / "work" / "access.log").read_text().splitlines()) == 150
