"""What people give to a writer: values of every type that comes along, with the field they are given for."""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image

from tests.wds_tools.pictures.made import scene

__all__ = ["KILLED", "refused", "returned"]

_SCENE = scene(16, 12)


def returned() -> dict[str, tuple[str, Any]]:
    """Values that come back as they were given: (field, value)."""
    return {
        "a numpy integer": ("cls", np.int64(3)),
        "a numpy float in JSON": ("json", {"a": np.float32(1)}),
        "an array that is a view with gaps": ("npy", np.arange(24).reshape(4, 6)[::2, ::3]),
        "an array in Fortran's order": ("npy", np.asfortranarray(np.arange(6.0).reshape(2, 3))),
        "an array with the high byte first": ("npy", np.arange(3, dtype=">i4")),
        "an array without dimensions": ("npy", np.array(2.5)),
        "several arrays": ("npz", {"x": np.arange(3), "y": np.eye(2)}),
        "bytes that may change": ("bin", bytearray(b"abc")),
        "a view": ("bin", memoryview(b"abcdef")[1:4]),
        "an RGBA picture as PNG": ("png", Image.fromarray(_SCENE).convert("RGBA")),
        "16-bit grey as PNG": ("png", np.arange(192, dtype=np.uint16).reshape(12, 16) * 300),
    }


def refused() -> dict[str, tuple[str, Any, str]]:
    """Values that would not come back: (field, value, what the error has to say)."""
    return {
        "a truth value as class": ("cls", True, "bool True"),
        "numpy's truth value": ("cls", np.bool_(True), "bool"),
        "a fraction as class": ("cls", 1.5, "float 1.5"),
        "nothing": ("cls", None, "None"),
        "no caption": ("txt", None, "None"),
        "NaN in JSON": ("json", {"a": float("nan")}, "JSON"),
        "bytes in JSON": ("json", {"a": b"x"}, "bytes"),
        "an array of objects": ("npy", np.array([{}, 1], dtype=object), "object"),
        "a list in place of arrays": ("npz", {"a": [object()]}, "array is expected"),
        "RGBA as JPEG": ("jpg", Image.fromarray(_SCENE).convert("RGBA"), "RGBA"),
        "LA as JPEG": ("jpg", Image.fromarray(_SCENE).convert("LA"), "LA"),
        "16 bits as JPEG": ("jpg", Image.new("I;16", (4, 4)), "I;16"),
        "floats as JPEG": ("jpg", _SCENE.astype(np.float32), "float32"),
        "channels first": ("jpg", _SCENE.transpose(2, 0, 1), "transpose"),
        "a list under an unknown name": ("thing", [1, 2], "list"),
        "a field without a name": ("", b"x", "empty"),
        "a field in upper case": ("JPG", b"x", "upper-case"),
        "a pickle": ("pkl", {"a": 1}, "may run anything"),
    }


KILLED = """
import sys
from shardwriter import ShardWriter
with ShardWriter(sys.argv[1], max_samples=4, max_bytes=None) as writer:
    for number in range(10_000):
        writer.write({"__key__": f"{number:05d}", "bin": bytes(100_000), "cls": number})
        if number == 17:  # in the fifth shard: the third is on the disk for certain
            print("now", flush=True)
            sys.stdin.read()
"""
"""A writer that stops in the middle of a shard, says so, and waits to be killed."""
