"""Names of entries: the same object has one, others have others, and no name has a secret in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wds_tools.sources.cache.names import dataset_of, entry_name, is_entry, object_key, url_prefix

BASE = "https://bucket.host/data/a.tar"
SIGNATURES = [
    "X-Amz-Algorithm=A&X-Amz-Credential=K{0}&X-Amz-Date=D{0}&X-Amz-Expires=9&X-Amz-SignedHeaders=h&X-Amz-Signature=S{0}",
    "AWSAccessKeyId=K{0}&Signature=S{0}%3D&Expires={0}&x-amz-security-token=T{0}",
    "X-Goog-Algorithm=A&X-Goog-Credential=K{0}&X-Goog-Date=D&X-Goog-Expires=9&X-Goog-Signature=S{0}",
    "GoogleAccessId=K&Expires={0}&Signature=S{0}",
    "Expires={0}&Signature=S{0}&Key-Pair-Id=K",
    "Policy=P{0}&Signature=S{0}&Key-Pair-Id=K",
    "sv=2022&st=S{0}&se=E{0}&sr=b&sp=r&sig=G{0}",
    "OSSAccessKeyId=K&Expires={0}&Signature=S{0}",
    "x-oss-credential=K&x-oss-date=D{0}&x-oss-signature=S{0}",
    "q-sign-algorithm=sha1&q-ak=K&q-sign-time={0}&q-key-time={0}&q-header-list=&q-url-param-list=&q-signature=S{0}",
]


@pytest.mark.parametrize("signature", SIGNATURES)
def test_a_renewed_signature_is_the_same_object(signature: str) -> None:
    first, second = (f"{BASE}?{signature.format(number)}" for number in (1, 2))
    assert object_key(first) == object_key(second) == BASE
    versioned = f"{BASE}?versionId=7&{signature.format(3)}"
    assert object_key(versioned) == f"{BASE}?versionId=7"
    assert entry_name(first, 5, None) == entry_name(second, 5, None) == entry_name(BASE, 5, None)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://h/a/part_0.tar", "http://h/b/part_0.tar"),
        ("http://h/a.tar?v=1", "http://h/a.tar?v=2"),
        ("http://h/a.tar?se=1", "http://h/a.tar?se=2"),  # no signature without its proof
        ("http://h/a.tar?Signature=1&Expires=5", "http://h/a.tar?Signature=2&Expires=5"),
        ("http://h/a.tar?x-oss-process=a&x-oss-signature=s", "http://h/a.tar?x-oss-process=b&x-oss-signature=s"),
        ("http://h/a.tar", "https://h/a.tar"),
        ("http://h/a.tar", "http://h:8080/a.tar"),
        ("http://h/a.tar", "http://h/A.tar"),
        ("http://h/a b.tar", "http://h/a_b.tar"),
        ("s3://b/a.tar", "gs://b/a.tar"),
        ("s3://b/a.tar?versionId=1", "s3://b/a.tar?versionId=2"),
        ("s3://b/x#1.tar", "s3://b/x#2.tar"),
    ],
)
def test_other_objects_have_other_names(one: str, other: str) -> None:
    assert url_prefix(one) != url_prefix(other)
    assert entry_name(one, 5, None) != entry_name(other, 5, None)


def test_size_and_version_make_another_entry_of_the_same_object() -> None:
    names = {entry_name(BASE, size, version) for size in (5, 6) for version in (None, "", "1", "2")}
    assert len(names) == 8
    assert all(name.startswith(url_prefix(BASE)) for name in names)


@pytest.mark.parametrize(
    "url", ["HTTPS://Bucket.Host:443/data/a.tar", "https://me:pw@bucket.host/data/a.tar", f"{BASE}#part"]
)
def test_spellings_of_one_object(url: str) -> None:
    assert object_key(url) == BASE


@given(st.text(max_size=400), st.integers(0, 1 << 50), st.none() | st.text(max_size=20))
def test_every_name_is_a_file_name(url: str, size: int, version: str | None) -> None:
    name = entry_name(url, size, version)
    assert is_entry(name)
    assert len(name) < 130
    assert is_entry(entry_name("http://h/" + url, size, version))


def test_no_secret_shows() -> None:
    url = "https://me:hunter2@h/a.tar?token=hunter2&sig=hunter2&sv=1"
    assert "hunter2" not in entry_name(url, 5, None)
    assert "hunter2" not in dataset_of([url, "https://h/b.tar?token=hunter2"])


def test_a_dataset_is_its_shards_in_any_order_and_with_any_signature() -> None:
    first = ["http://h/a.tar", f"http://h/b.tar?{SIGNATURES[0].format(1)}"]
    second = [f"http://h/b.tar?{SIGNATURES[0].format(2)}", "http://h/a.tar"]
    assert dataset_of(first) == dataset_of(second) != dataset_of(first[:1])
    assert dataset_of(first).startswith("http://h/a.tar and 1 more")
