from pathlib import Path

import pytest

from wds_tools.atomic import write_atomic
from wds_tools.delivery import Delivery
from wds_tools.errors import UnavailableError, UsageError
from wds_tools.sources import fsspec
from wds_tools.sources.options import Remote


def test_a_folder_gets_its_files_where_they_are_made(tmp_path: Path) -> None:
    with Delivery(str(tmp_path / "a/b")) as delivery:
        assert (delivery.away, delivery.name, delivery.folder) == (False, "b", tmp_path / "a/b")
        write_atomic(delivery.folder / "x.txt", [b"1"])
        delivery.deliver("x.txt")
    assert Path(delivery.named("x.txt")).read_bytes() == b"1"
    assert delivery.has("x.txt")
    delivery.remove("x.txt", "missing.txt")
    assert not delivery.has("x.txt")


def test_a_store_gets_them_in_the_stated_order_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    put = fsspec.put
    order: list[str] = []

    def noted(url: str, path: Path, remote: Remote | None = None) -> None:
        order.append(url)
        put(url, path, remote)

    monkeypatch.setattr(fsspec, "put", noted)
    for text in (b"1", b"22"):
        with Delivery("memory://delivery/a") as delivery:
            scratch = delivery.folder
            for name in ("x", "y"):
                write_atomic(scratch / name, [text])
            delivery.deliver("y", "x")
        assert not scratch.exists()
    assert order == ["memory://delivery/a/y", "memory://delivery/a/x"] * 2
    assert fsspec.sizes("memory://delivery/a/") == {"x": 2, "y": 2}
    delivery.remove("x", "missing")
    assert (delivery.has("x"), delivery.has("y")) == (False, True)


def test_what_takes_no_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a web server takes no files"):
        Delivery("https://host/d")
    (tmp_path / "file").touch()
    with pytest.raises(UnavailableError, match="cannot be made"), Delivery(str(tmp_path / "file/below")):
        pass
