"""What one tool writes, the others read the same: this package, tarfile, GNU tar, webdataset."""

from __future__ import annotations

import io
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest
import webdataset
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from webdataset.tariterators import group_by_keys, tar_file_expander

from tests.wds_tools.tar.archives import archive, gnu_tar, read
from wds_tools.errors import UsageError
from wds_tools.names import check_field, check_key
from wds_tools.tar import END, member_header, padding

pytestmark = pytest.mark.usefixtures("each_walk")

Sample = dict[str, Any]


def _accepted(check: Any, name: str) -> bool:
    try:
        check(name)
    except UsageError:
        return False
    return True


def _keys(limit: int) -> st.SearchStrategy[str]:
    letters = st.text(
        st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="./\\"), min_size=1, max_size=limit
    )
    folders = st.text("ab.é", min_size=1, max_size=limit).filter(lambda part: part.strip(".") != "")
    return st.builds(lambda parts, base: "/".join([*parts, base]), st.lists(folders, max_size=3), letters).filter(
        lambda key: _accepted(check_key, key)
    )


FIELDS = st.sampled_from(["jpg", "cls", "json", "seg.png", "txt", "é", "0 (clean).mp3"])
VALUES = st.one_of(
    st.binary(max_size=40), st.integers(0, 1100).map(lambda size: bytes(size % 251 for _ in range(size)))
)
SAMPLES = st.dictionaries(_keys(60), st.dictionaries(FIELDS, VALUES, min_size=1, max_size=4), max_size=5)


def _members(samples: dict[str, dict[str, bytes]]) -> list[tuple[str, bytes]]:
    return [(f"{key}.{field}", data) for key, fields in samples.items() for field, data in fields.items()]


def _written(samples: dict[str, dict[str, bytes]]) -> bytes:
    for key, fields in samples.items():
        check_key(key)
        for field in fields:
            check_field(field)
    return b"".join(member_header(n, len(d)) + d + padding(len(d)) for n, d in _members(samples)) + END


def _plain(samples: dict[str, dict[str, bytes]]) -> list[Sample]:
    return [{"__key__": key, **fields} for key, fields in samples.items()]


def _in_tarfile(shard: bytes) -> list[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(shard)) as made:
        return [(info.name, made.extractfile(info).read()) for info in made]  # type: ignore[union-attr]


def _in_webdataset(shard: bytes) -> list[Sample]:
    # The stages of WebDataset; the whole leaves it to the garbage collector to close the file.
    members = tar_file_expander([{"url": "s.tar", "stream": io.BytesIO(shard)}])
    return [{name: value for name, value in sample.items() if name != "__url__"} for sample in group_by_keys(members)]


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(SAMPLES)
def test_what_is_written_here_is_read_alike_everywhere(samples: dict[str, dict[str, bytes]]) -> None:
    shard = _written(samples)
    assert read(shard) == _plain(samples)
    assert _in_tarfile(shard) == _members(samples)
    assert _in_webdataset(shard) == _plain(samples)


@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.dictionaries(_keys(120), st.dictionaries(FIELDS, VALUES, min_size=1), min_size=5, max_size=30))
def test_gnu_tar_reads_what_is_written_here(samples: dict[str, dict[str, bytes]]) -> None:
    shard = _written(samples)
    with tempfile.TemporaryDirectory() as folder:
        listed = gnu_tar("-tf", "-", "--quoting-style=literal", folder=Path(folder), given=shard)
        assert listed.decode().splitlines() == [name for name, _ in _members(samples)]
        data = gnu_tar("-xOf", "-", folder=Path(folder), given=shard)
        assert data == b"".join(data for _, data in _members(samples))


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(SAMPLES, st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]))
def test_what_tarfile_writes_is_read_here(samples: dict[str, dict[str, bytes]], form: Any) -> None:
    assert read(archive(_members(samples), form=form)) == _plain(samples)


@settings(max_examples=60)
@given(
    st.dictionaries(st.text("ab/é", min_size=1, max_size=30), st.dictionaries(FIELDS, VALUES, min_size=1), max_size=5)
)
def test_what_tarfile_writes_as_ustar_is_read_here(samples: dict[str, dict[str, bytes]]) -> None:
    samples = {key.strip("/") + "k": fields for key, fields in samples.items()}
    assert read(archive(_members(samples))) == _plain(samples)


@pytest.mark.parametrize("form", ["v7", "oldgnu", "gnu", "ustar", "posix"])
def test_what_gnu_tar_writes_is_read_here(tmp_path: Path, form: str) -> None:
    longest = {"v7": 90, "ustar": 240}.get(form, 300)
    keys = [
        "a",
        "d/é",
        "x" * 80,
        *("y" * 70 + "/" + "z" * (length - 71) for length in (90, 160, 240, 300) if length <= longest),
    ]
    keys = [key for key in keys if form != "ustar" or len(key.rpartition("/")[2]) <= 90]
    samples = {key: {"cls": b"%d" % at, "jpg": bytes([at]) * (at * 300)} for at, key in enumerate(sorted(keys))}
    if longest >= 300:  # no file system takes a name of 300 bytes: folders
        samples["s/" * 150 + "end"] = {"cls": b"99"}
    folder = tmp_path / "files"
    for name, data in _members(samples):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    gnu_tar("--sort=name", f"--format={form}", "-cf", "../made.tar", ".", folder=folder)
    found = read((tmp_path / "made.tar").read_bytes())
    assert {sample.pop("__key__"): sample for sample in found} == {
        f"./{key}": fields for key, fields in samples.items()
    }


def test_what_webdataset_writes_is_read_here(tmp_path: Path) -> None:
    path = tmp_path / "made.tar"
    with webdataset.TarWriter(str(path)) as writer:
        for number in range(50):
            writer.write(
                {"__key__": f"d.1/{number:03d}", "cls": number, "bin": bytes([number]) * number * 100, "txt": "é"}
            )
    assert read(path.read_bytes()) == _in_webdataset(path.read_bytes())
    assert len(read(path.read_bytes())) == 50
