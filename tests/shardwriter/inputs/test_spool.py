import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwriter.inputs.spool import Spool, packed, unpacked
from wds_tools.errors import UnavailableError


def test_records_are_read_at_any_place_from_any_thread(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    records = [bytes([number % 256]) * (number * 37 % 5000) for number in range(2000)]
    for record in records:
        spool.add([record[:10], record[10:]])
    spool.flush()
    assert os.listdir(tmp_path) == []
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(spool.__getitem__, range(2000))) == records
    assert spool.nbytes == sum(map(len, records))
    spool.close()
    spool.close()


def test_the_descriptor_goes_when_it_is_dropped(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    spool = Spool(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before + 1
    del spool
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_full_disk_and_a_missing_folder_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnavailableError, match=r"missing cannot be used: No such file.*a folder with room"):
        Spool(tmp_path / "missing")

    def full(*arguments: object) -> int:
        raise OSError(28, "No space left on device")

    spool = Spool(tmp_path)
    spool.add([b"x"])
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(UnavailableError, match="No space left"):
        spool.flush()
    spool.close()


@given(
    st.from_regex(r"[a-zé/]{1,5}", fullmatch=True),
    st.dictionaries(st.from_regex(r"[a-z.]{1,5}", fullmatch=True), st.binary(max_size=50)),
)
def test_a_sample_comes_back_as_it_was(key: str, fields: dict[str, bytes]) -> None:
    assert unpacked(b"".join(packed(key, fields))) == {"__key__": key, **fields}
