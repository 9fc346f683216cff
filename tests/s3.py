"""A server that speaks S3, on loopback: moto's, in a process of its own, so that nothing of it is in the tests'."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import urllib3
from botocore.config import Config

from wds_tools.sources.base import Source
from wds_tools.sources.options import Remote

_SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""
SECRET = "wJalr-not-to-be-shown"


class Store:
    """A running server.

    Attributes:
        endpoint: its address.
        remote: the options by which shards in it are read.
        client: boto3's, to look into it and to spoil what lies there.
    """

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.remote = self.options()
        self.client: Any = boto3.client(
            "s3",
            endpoint_url=endpoint,
            aws_access_key_id="AKIDEXAMPLE",
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
            config=Config(retries={"max_attempts": 1}),
        )

    def options(
        self, *, attempts: int = 3, give_up_s: float = 20.0, key: str = "AKIDEXAMPLE", **more: object
    ) -> Remote:
        """Options that reach this server; `more` are those of s3fs."""
        s3 = {"endpoint_url": self.endpoint, "key": key, "secret": SECRET, **more}
        s3.setdefault("client_kwargs", {"region_name": "us-east-1"})
        return Remote(attempts=attempts, give_up_s=give_up_s, storage={"s3": s3})

    def bucket(self, name: str) -> str:
        """A new bucket, empty; its url."""
        self.client.create_bucket(Bucket=name)
        return f"s3://{name}"

    def put(self, url: str, data: bytes) -> None:
        """Put an object there, in place of what lies there."""
        bucket, _, key = url.removeprefix("s3://").partition("/")
        self.client.put_object(Bucket=bucket, Key=key, Body=data)

    def get(self, url: str) -> bytes:
        """The object."""
        bucket, _, key = url.removeprefix("s3://").partition("/")
        body = self.client.get_object(Bucket=bucket, Key=key)["Body"]
        with body:
            return bytes(body.read())

    def keys(self, bucket: str) -> list[str]:
        """The keys of all objects in the bucket, sorted."""
        found = self.client.list_objects_v2(Bucket=bucket.removeprefix("s3://")).get("Contents", [])
        return sorted(each["Key"] for each in found)

    def unfinished(self, bucket: str) -> list[str]:
        """The keys of multi-part uploads that nobody has ended."""
        found = self.client.list_multipart_uploads(Bucket=bucket.removeprefix("s3://")).get("Uploads", [])
        return [each["Key"] for each in found]

    @contextmanager
    def checking_keys(self) -> Iterator[None]:
        """From here on the server knows no key, and refuses all requests."""
        self._tell("reset-auth", "0")
        try:
            yield
        finally:
            self._tell("reset-auth", "inf")

    def _tell(self, what: str, body: str) -> None:
        assert urllib3.request("POST", f"{self.endpoint}/moto-api/{what}", body=body).status == 200


def read(source: Source, first: int, length: int) -> bytes:
    """A part of a source; here, so that a spawned process finds it."""
    buffer = bytearray(length)
    with source:
        source.read_into(first, memoryview(buffer))
    return bytes(buffer)


@contextmanager
def running() -> Iterator[Store]:
    """A server for the time of the block."""
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        store = Store(f"http://127.0.0.1:{int(process.stdout.readline())}")
        try:
            yield store
        finally:
            store.client.close()
            process.communicate()
