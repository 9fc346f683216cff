import io
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from shardwriter.inputs.flat import FlatFolder, flat_folder
from tests.builders import picture
from wds_tools.errors import FieldError, KeyRefusedError, MissingFieldError, UsageError

Fill = Callable[..., Path]


def test_files_of_a_stem_are_one_sample_at_any_depth(tmp_path: Path, fill: Fill, packed: Callable[..., object]) -> None:
    jpg = picture(1)
    fill(
        tmp_path,
        {
            "a.jpg": jpg, "a.txt": b"one", "a.json": b'{"n": 1}', "a.cls": b"3\n",
            "deep/er/a.JPEG": jpg, "deep/er/a.txt": b"two", "deep/er/a.json": b"[]", "deep/er/a.cls": b"4",
        },
    )  # fmt: skip
    done = packed(flat_folder(tmp_path))
    assert done.rows == {  # type: ignore[attr-defined]
        "a": {"jpg": jpg, "cls": b"3\n", "json": b'{"n": 1}', "txt": b"one"},
        "deep/er/a": {"jpeg": jpg, "cls": b"4", "json": b"[]", "txt": b"two"},
    }


def test_a_missing_sidecar_is_a_failure_that_names_it(
    tmp_path: Path, fill: Fill, packed: Callable[..., object]
) -> None:
    fill(tmp_path, {"a.jpg": picture(1), "a.txt": b"one", "b.jpg": picture(2), "d/c.txt": b"three"})
    done = packed(flat_folder(tmp_path))
    assert list(done.rows) == ["a"]  # type: ignore[attr-defined]
    first, second = done.failures  # type: ignore[attr-defined]
    assert "b.jpg" in first
    assert "there is no b.txt" in first
    assert "name the field txt?" in first
    assert "there is no d/c.jpg" in second


def test_optional_fields_may_be_missing(tmp_path: Path, fill: Fill) -> None:
    fill(tmp_path, {"a.jpg": b"", "a.txt": b"one", "b.png": b"", "c.txt": b"", "notes.md": b""})
    samples = flat_folder(tmp_path, fields=("jpg;png", "txt?"))
    assert [set(samples.sample(index)) for index in range(2)] == [{"__key__", "jpg", "txt"}, {"__key__", "png"}]
    with pytest.raises(MissingFieldError, match=r"c\.jpg or c\.png"):
        samples.sample(2)
    assert samples.skipped == {"no wanted field, .md": 1}


def test_long_fields_are_those_that_are_named(tmp_path: Path, fill: Fill) -> None:
    fill(tmp_path, {"x.2.jpg": b"", "x.2.seg.png": b""})
    samples = flat_folder(tmp_path, fields=("jpg", "seg.png"))
    assert samples.sample(0) == {"__key__": "x_2", "jpg": b"", "seg.png": b""}
    assert len(flat_folder(tmp_path)) == 2


def test_several_pictures_of_a_sample_are_fields_of_their_own(tmp_path: Path, fill: Fill) -> None:
    fill(tmp_path, {"a.jpg": b"", "a.png": b"", "b.jpg": b"", "b.png": b""})
    assert [str(wanted) for wanted in flat_folder(tmp_path).wanted] == ["jpg", "png"]
    (tmp_path / "a.png").unlink()
    (tmp_path / "b.jpg").unlink()
    assert [str(wanted) for wanted in flat_folder(tmp_path).wanted] == ["jpg;png"]


def pickled_array() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([{}], dtype=object), allow_pickle=True)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.cls", b"3.5", "whole number"),
        ("a.cls", b"", "whole number"),
        ("a.txt", b"caf\xe9", "UTF-8"),
        ("a.json", b"{", "json"),
        ("a.npy", b"no array", "npy"),
        ("a.npy", pickled_array(), "pickle"),
    ],
)
def test_sidecars_are_what_they_say(tmp_path: Path, fill: Fill, name: str, data: bytes, words: str) -> None:
    samples = flat_folder(fill(tmp_path, {"a.jpg": b"", name: data}))
    with pytest.raises(FieldError, match=words):
        samples.sample(0)


def test_equal_keys_and_fields_are_refused(tmp_path: Path, fill: Fill) -> None:
    fill(tmp_path, {"a.b.jpg": b"", "a_b.jpg": b""})
    with pytest.raises(KeyRefusedError, match=r"a\.b\.jpg and .*a_b\.jpg"):
        flat_folder(tmp_path)
    assert len({flat_folder(tmp_path, keys="hash").key(index) for index in range(2)}) == 2
    fill(tmp_path, {"c.jpg": b"", "c.JPG": b""})
    with pytest.raises(UsageError, match="same field"):
        flat_folder(tmp_path)


def test_hidden_files_pipes_and_circles_are_left_out(tmp_path: Path, fill: Fill) -> None:
    fill(tmp_path, {"a.jpg": b"", ".b.jpg": b"", "README": b""})
    os.mkfifo(tmp_path / "p.jpg")
    (tmp_path / "again").symlink_to(tmp_path)
    samples = flat_folder(tmp_path)
    assert len(samples) == 1
    assert samples.skipped == {
        "hidden": 1, "no extension": 1, "no regular file": 1, "link to a folder that it lies in": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("files", "options", "words"),
    [
        ({}, {}, "no samples"),
        ({"README": b""}, {}, "1 no extension"),
        ({"a.jpg": b""}, {"fields": ("png",)}, "no samples"),
        ({"a.jpg": b""}, {"fields": ("jpg", "cls")}, "no file in .* has the field cls.*There is jpg"),
        ({"a.jpg": b""}, {"fields": ("jpg", "jpg")}, "named twice"),
        ({"a.jpg": b""}, {"fields": "jpg"}, "list of names"),
        ({"a.jpg": b""}, {"keys": "names"}, "keys is 'names'"),
    ],
)
def test_what_cannot_be_is_said(
    tmp_path: Path, fill: Fill, files: dict[str, bytes], options: dict[str, str], words: str
) -> None:
    fill(tmp_path, files)
    with pytest.raises(UsageError, match=words):
        flat_folder(tmp_path, **options)  # type: ignore[arg-type]


def test_fingerprints_tell_what_changed(tmp_path: Path, fill: Fill) -> None:
    fill(tmp_path, {"a.jpg": b"", "a.txt": b""})
    before = flat_folder(tmp_path).fingerprint()
    assert flat_folder(tmp_path).fingerprint() == before
    again: FlatFolder = pickle.loads(pickle.dumps(flat_folder(tmp_path)))
    assert again.fingerprint() == before
    fill(tmp_path, {"b.jpg": b""})
    after = flat_folder(tmp_path).fingerprint()
    assert {name for name in before if before[name] != after[name]} == {"samples", "names"}
