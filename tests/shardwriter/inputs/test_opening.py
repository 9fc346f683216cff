"""A path alone: pack takes what `wds pack` takes without options."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from shardwriter import pack
from shardwriter.inputs.opening import nearest_folder, open_input
from tests.builders import write_pictures
from wds_tools.errors import UsageError

Picture = Callable[..., bytes]


def made(folder: Path, picture: Picture) -> dict[str, str]:
    """A source of each kind, by the name of the input that it is."""
    for name in ("folders/ant/1.jpg", "folders/bee/2.jpg", "flat/1.jpg", "flat/2.jpg"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(picture(int(name[-5])))
    for number in (1, 2):
        (folder / f"flat/{number}.txt").write_text(f"a caption {number}")
    (folder / "table.csv").write_text("image,label\\nfolders/ant/1.jpg,0\\nfolders/bee/2.jpg,1\\n".replace("\\n", "\n"))
    np.save(folder / "array.npy", np.zeros((2, 4, 4, 3), np.uint8))
    write_pictures(folder / "shards", [1, 1])
    return {
        "ClassFolders": str(folder / "folders"),
        "FlatFolder": str(folder / "flat"),
        "Manifest": str(folder / "table.csv"),
        "ArrayFile": str(folder / "array.npy"),
        "Shards": str(folder / "shards/s-{0000..0001}.tar"),
    }


def test_every_kind_is_known_by_its_path(tmp_path: Path, picture: Picture) -> None:
    for kind, source in made(tmp_path, picture).items():
        with open_input(source) as samples:
            assert (type(samples).__name__, len(samples)) == (kind, 2)
        assert pack(source, tmp_path / "out" / kind).packed == 2


def test_what_could_be_two_things_is_refused_with_what_decides(tmp_path: Path, picture: Picture) -> None:
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat/1.jpg").write_bytes(picture())
    (tmp_path / "cat/1.txt").write_text("a caption")
    with pytest.raises(UsageError, match="may be classes, or not") as caught:
        pack(tmp_path, tmp_path.with_name("out"))
    assert "class_folders" in str(caught.value)
    with pytest.raises(UsageError, match="does not exist"):
        pack(tmp_path / "missing", tmp_path / "out")


def test_the_nearest_folder_is_one_that_exists(tmp_path: Path) -> None:
    assert nearest_folder(tmp_path / "a/b/c") == tmp_path
    assert nearest_folder("s3://bucket/a") is None
    assert nearest_folder(None) is None
