"""From addresses to sources: local ones open, others say so, further kinds plug in."""

from pathlib import Path

import pytest

from wds_tools.errors import UsageError
from wds_tools.sources import resolve
from wds_tools.sources.local import LocalFile


@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_local_addresses(tmp_path: Path, form: str) -> None:
    (tmp_path / "a.tar").write_bytes(b"12345")
    url = form.format(tmp_path / "a.tar")
    with resolve.open_source(url) as source:
        assert source.url == url
        assert source.size() == 5


@pytest.mark.parametrize("url", ["what://d/a.tar", "pipe:cat a.tar"])
def test_what_is_not_read_says_so(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve.open_source(url)
    assert caught.value.url == url
    assert caught.value.cure


def test_other_kinds_plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.tar").write_bytes(b"12345")
    monkeypatch.setattr(resolve, "_OPENERS", dict(resolve._OPENERS))
    resolve.register("test", lambda url, remote: LocalFile(str(tmp_path / url[7:]), url=url).open())
    with resolve.open_source("TEST://a.tar") as source:
        assert source.size() == 5
