"""Labels, captions and metadata as people have them."""

from __future__ import annotations

import gzip
import io
import os
import pickle
from typing import Any

import numpy as np
import torch

from tests.builders import picture

__all__ = ["CODE", "TOUCHED", "code", "jsons", "npy", "texts", "uneven"]


def npy(values: Any, *, allow_pickle: bool = False) -> bytes:
    """A .npy file."""
    stream = io.BytesIO()
    np.save(stream, values, allow_pickle=allow_pickle)
    return stream.getvalue()


def uneven() -> dict[str, dict[str, bytes]]:
    """Samples whose fields differ: more pictures, no metadata, an array that only a late one has."""
    base = {str(n): {"1.jpg": picture(n), "json": b'{"n": %d}' % n} for n in range(6)}
    base["1"] |= {"2.jpg": picture(7), "3.jpg": picture(8)}
    del base["2"]["json"]
    base["5"]["npy"] = npy(np.arange(3))
    return base


def texts() -> dict[str, tuple[bytes, str]]:
    """Captions with what they are; with what an error has to say where the name begins with "!"."""
    return {
        "empty": (b"", ""),
        "!Latin-1": (b"caf\xe9", "byte 0xe9 at 3 (Latin-1"),
        "!UTF-16": ("café".encode("utf-16"), "byte order mark of UTF-16"),
        "!UTF-32": ("café".encode("utf-32"), "byte order mark of UTF-32"),
        "a byte order mark": ("café".encode("utf-8-sig"), "café"),
        "NUL": (b"a\0b", "a\0b"),
    }


def jsons() -> dict[str, tuple[bytes, Any]]:
    """JSON at its borders; no object comes of those whose name begins with "!"."""
    return {
        "NaN": (b'{"a": NaN}', {"a": float("nan")}),
        "a name twice": (b'{"a": 1, "a": 2}', {"a": 2}),
        "a number of 401 digits": (b"1" + b"0" * 400, 10**400),
        "!a number of 5,000 digits": (b"1" + b"0" * 5000, None),
        "!100,000 lists in each other": (b"[" * 100_000 + b"]" * 100_000, None),
        "!cut": (b'{"a": ', None),
        "a byte order mark": (b'\xef\xbb\xbf{"a": "b"}', {"a": "b"}),
    }


TOUCHED = "touched-by-code-in-data"
CODE = ("pkl", "pickle", "pyd", "pt", "pth", "npy", "npz")


class _Payload:
    def __reduce__(self) -> Any:
        return os.mkdir, (TOUCHED,)


def code(field: str) -> bytes:
    """Bytes that make a folder `TOUCHED` where they are unpickled, in the container that the field's name says."""
    inner, _, last = field.rpartition(".")
    if last == "gz":
        return gzip.compress(code(inner))
    stream = io.BytesIO()
    hidden = np.array([_Payload()], dtype=object)
    if last in {"pt", "pth"}:
        torch.save(_Payload(), stream)
    elif last == "npy":
        np.save(stream, hidden, allow_pickle=True)
    elif last == "npz":
        np.savez(stream, a=hidden)  # object arrays are pickled without being asked
    else:
        pickle.dump(_Payload(), stream)
    return stream.getvalue()
