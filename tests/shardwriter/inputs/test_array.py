import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardwriter.inputs.array import ArrayFile, array_file
from wds_tools.codec import decode_field
from wds_tools.errors import DataError, FieldRefusedError, TruncatedShardError, UsageError


@pytest.fixture
def images() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(0, 256, (7, 5, 6, 3), np.uint8)


def save(path: Path, array: object) -> Path:
    np.save(path, np.asarray(array))
    return path


def test_rows_are_packed_with_their_labels(
    tmp_path: Path, images: np.ndarray[Any, Any], packed: Callable[..., Any]
) -> None:
    labels = save(tmp_path / "y.npy", np.arange(7, dtype=np.uint8)[:, None])
    with array_file(save(tmp_path / "x.npy", images), labels=labels) as samples:
        done = packed(samples)
    assert list(done.rows) == [f"{number:08d}" for number in range(7)]
    for number, row in enumerate(done.rows.values()):
        assert row["cls"] == b"%d" % number
        assert np.array_equal(decode_field("npy", row["npy"]), images[number])  # type: ignore[arg-type]


@pytest.mark.parametrize("layout", [None, "chw"])
def test_channels_first_become_pictures(tmp_path: Path, images: np.ndarray[Any, Any], layout: Any) -> None:
    path = save(tmp_path / "x.npy", images.transpose(0, 3, 1, 2))
    with array_file(path, field="png", layout=layout) as samples:
        assert np.array_equal(decode_field("png", samples.sample(3)["png"]), images[3])  # type: ignore[arg-type]


def test_npy_rows_are_left_unless_the_layout_is_said(tmp_path: Path, images: np.ndarray[Any, Any]) -> None:
    path = save(tmp_path / "x.npy", images.transpose(0, 3, 1, 2))
    with array_file(path) as as_it_is, array_file(path, layout="chw") as turned:
        assert decode_field("npy", as_it_is.sample(0)["npy"]).shape == (3, 5, 6)  # type: ignore[attr-defined]
        assert np.array_equal(decode_field("npy", turned.sample(0)["npy"]), images[0])  # type: ignore[arg-type]


@pytest.mark.parametrize("array", [np.arange(4.0), np.arange(8, dtype=">i2").reshape(4, 2), np.eye(4, dtype=bool)])
def test_any_array_without_objects_can_be_packed(tmp_path: Path, array: np.ndarray[Any, Any]) -> None:
    with array_file(save(tmp_path / "x.npy", array)) as samples:
        for number in range(4):
            assert np.array_equal(decode_field("npy", samples.sample(number)["npy"]), array[number])  # type: ignore[arg-type]


def test_floats_are_no_pictures(tmp_path: Path) -> None:
    with array_file(save(tmp_path / "x.npy", np.zeros((2, 4, 4, 3), np.float32)), field="jpg") as samples:
        with pytest.raises(FieldRefusedError, match="uint8"):
            samples.sample(0)


def test_files_that_cannot_be_are_refused(tmp_path: Path) -> None:
    objects = tmp_path / "objects.npy"
    np.save(objects, np.array([{}, {}], dtype=object), allow_pickle=True)
    cut = save(tmp_path / "cut.npy", np.zeros((4, 100)))
    cut.write_bytes(cut.read_bytes()[:-1])
    (tmp_path / "text.npy").write_bytes(b"hello there, no array")
    wrong = [
        (objects, "pickle"),
        (cut, "cut off: it has 3,327 bytes and needs 3,328"),
        (tmp_path / "text.npy", "no .npy file"),
        (save(tmp_path / "scalar.npy", 3), "no rows"),
        (save(tmp_path / "none.npy", np.zeros((0, 3))), "no rows"),
        (save(tmp_path / "fortran.npy", np.asfortranarray(np.zeros((4, 5)))), "Fortran"),
    ]
    for path, words in wrong:
        with pytest.raises(DataError, match=words):
            array_file(path)
    with pytest.raises(UsageError, match="there is no"):
        array_file(tmp_path / "missing.npy")
    with pytest.raises(UsageError, match="do not go into the field txt"):
        array_file(save(tmp_path / "x.npy", np.zeros((2, 2))), field="txt")


@pytest.mark.parametrize(
    ("labels", "words"),
    [(np.arange(3), "4 rows.*\\(3,\\)"), (np.zeros(4), "float64, whole numbers"), (["a"] * 4, "<U1")],
)
def test_labels_must_fit(tmp_path: Path, labels: object, words: str) -> None:
    path = save(tmp_path / "x.npy", np.zeros((4, 2)))
    with pytest.raises(UsageError, match=words):
        array_file(path, labels=save(tmp_path / "y.npy", labels))


def test_a_file_that_shrinks_is_an_error(tmp_path: Path) -> None:
    path = save(tmp_path / "x.npy", np.zeros((4, 1000)))
    with array_file(path) as samples:
        samples.sample(3)
        path.write_bytes(path.read_bytes()[:9000])
        samples.sample(0)
        with pytest.raises(TruncatedShardError):
            samples.sample(3)


def test_pickles_closed_and_opens_again(tmp_path: Path, images: np.ndarray[Any, Any]) -> None:
    with array_file(save(tmp_path / "x.npy", images)) as samples:
        first = samples.sample(2)
        with pickle.loads(pickle.dumps(samples)) as again:
            assert isinstance(again, ArrayFile)
            assert again.sample(2) == first
            assert again.fingerprint() == samples.fingerprint()


@pytest.mark.parametrize("shape", ["(2,(", "(-1, 4)", "(5, 8589934592, 8589934592)", "(" * 3000])
def test_headers_that_numpy_lets_through_are_refused(tmp_path: Path, shape: str) -> None:
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".encode()
    damaged = tmp_path / "damaged.npy"
    damaged.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(200))
    with pytest.raises(DataError, match=r"damaged\.npy"):
        array_file(damaged)
    good = save(tmp_path / "good.npy", np.zeros((4, 100)))
    with pytest.raises((DataError, UsageError), match=r"damaged\.npy"):
        array_file(good, labels=damaged)
