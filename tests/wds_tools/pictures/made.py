"""Pictures that the tests of this folder make: smooth ones with edges, in every format, with EXIF, and odd JPEGs."""

from __future__ import annotations

import base64
import io
import struct
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

Pixels = npt.NDArray[np.uint8]


def scene(width: int, height: int, seed: int = 0) -> Pixels:
    """A picture with slopes, edges and a little noise, so that neither flat nor hopeless for JPEG."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    red = 127 + 90 * np.sin(x / 9) + 20 * (y > height // 3)
    green = y * 200 / height + 40 * ((x // 16 + y // 16) % 2)
    blue = (x + y) * 230 / (width + height)
    pixels = np.stack([red, green, blue], -1) + rng.normal(0, 3, (height, width, 1))
    return np.clip(pixels, 0, 255).astype(np.uint8)


def saved(picture: Image.Image | npt.NDArray[Any], kind: str, **options: Any) -> bytes:
    image = picture if isinstance(picture, Image.Image) else Image.fromarray(picture)
    target = io.BytesIO()
    image.save(target, kind, **options)
    return target.getvalue()


def jpeg(width: int = 120, height: int = 90, **options: Any) -> bytes:
    return saved(scene(width, height), "JPEG", **{"quality": 90, **options})


def by_pillow(data: bytes) -> Pixels:
    """What Pillow alone makes of it: the oracle."""
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def exif_block(value: int, kind: int = 3, *, order: str = "<", count: int = 1, raw: bytes | None = None) -> bytes:
    """A TIFF block with one entry, the orientation."""
    codes = {1: "B", 2: "c", 3: "H", 4: "I"}
    content = raw if raw is not None else struct.pack(order + codes[kind], value)
    entry = struct.pack(order + "HHI", 0x0112, kind, count) + content.ljust(4, b"\0")
    return struct.pack(order + "2sHIH", b"II" if order == "<" else b"MM", 42, 8, 1) + entry + bytes(4)


def with_segment(data: bytes, marker: int, content: bytes, *, after: bytes = b"") -> bytes:
    """A JPEG with one more segment at its beginning, and perhaps some junk behind that."""
    return data[:2] + struct.pack(">BBH", 0xFF, marker, len(content) + 2) + content + after + data[2:]


def with_orientation(data: bytes, value: int, **options: Any) -> bytes:
    return with_segment(data, 0xE1, b"Exif\0\0" + exif_block(value, **options))


def png_chunk(name: bytes, content: bytes) -> bytes:
    import zlib

    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def png_with(data: bytes, name: bytes, content: bytes) -> bytes:
    """A PNG with one more chunk right behind its header."""
    return data[:33] + png_chunk(name, content) + data[33:]


ARITHMETIC = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAgGBgcGBQgHBwcJCQgKDBQNDAsLDBkSEw8UHRofHh0aHBwgJC4nICIsIxwcKDcpLDAxNDQ0Hyc5PT"
    "gyPC4zNDL/2wBDAQkJCQwLDBgNDRgyIRwhMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjL/yQARCAAY"
    "ACADASIAAhEBAxEB/8wACgAQEAUBEBEF/9oADAMBAAIRAxEAPwD/ALhje9adk9JtJEeZnM4v8scuAh9Gx+hsxK/PdzLD8pgNy4xUkGP+TB7Bq+"
    "epPcOaPQB3XnfXZ7JuXlqMdfRo5eYQwkjHUDMk0EqCMP/Z"
)
"""32 x 24, arithmetic coding, made by `cjpeg -arithmetic`."""

ODD_SAMPLING = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAgGBgcGBQgHBwcJCQgKDBQNDAsLDBkSEw8UHRofHh0aHBwgJC4nICIsIxwcKDcpLDAxNDQ0Hyc5PT"
    "gyPC4zNDL/2wBDAQkJCQwLDBgNDRgyIRwhMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjL/wAARCAAY"
    "ACADATEAAhEBAxEB/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhBy"
    "JxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKT"
    "lJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/8QAHwEAAwEBAQEBAQEBAQAAAA"
    "AAAAECAwQFBgcICQoL/8QAtREAAgECBAQDBAcFBAQAAQJ3AAECAxEEBSExBhJBUQdhcRMiMoEIFEKRobHBCSMzUvAVYnLRChYkNOEl8RcYGRom"
    "JygpKjU2Nzg5OkNERUZHSElKU1RVVldYWVpjZGVmZ2hpanN0dXZ3eHl6goOEhYaHiImKkpOUlZaXmJmaoqOkpaanqKmqsrO0tba3uLm6wsPExc"
    "bHyMnK0tPU1dbX2Nna4uPk5ebn6Onq8vP09fb3+Pn6/9oADAMBAAIRAxEAPwDx+20zp8ta9tpnT5a17bTOny1dOZ7GU4nY1rbTOny0UV1Keh93"
    "SxPuIzrbTOny1rW2mdPlrXttM6fLXl05n5JlOJ2Ne20zp8tFFdamfd0sT7iM220zp8ta9tpnT5a17bTOny15dOZ+R5TidjXttM6fLRRXWp6H3l"
    "LE+4j/2Q=="
)
"""32 x 24, colour sampled 3 x 1, made by `cjpeg -sample 3x1`: simplejpeg does not know it."""

FOUR_ONE_ZERO = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOjM9PDkzODdASFxOQERXRTc4UG1RV19iZ2hnPk1xeX"
    "BkeFxlZ2P/2wBDARESEhgVGC8aGi9jQjhCY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2P/wAAR"
    "CAAwAEADAUIAAhEBAxEB/8QAGQABAAMBAQAAAAAAAAAAAAAABAIDBQYA/8QAHhAAAgIDAAMBAAAAAAAAAAAAAAMCIQERMRNRYXH/xAAVAQEBAA"
    "AAAAAAAAAAAAAAAAAFBP/EABsRAAIDAQEBAAAAAAAAAAAAAAABAyIjAgQS/9oADAMBAAIRAxEAPwDnFLERWLksM1Z5S6ExWLmugzFknLsh6aTI"
    "5+ayPjs0lrGLUZ01kML+Gmpehil/BduqB45NRCl8rAiKsa4DmrGuYDNVg2ErERWCkug7F/oJ53Yu+8g01Y9EMKvhUpWN4oapWPRdNZDCytS72L"
    "UsXjdQfyd6stWvgmKxc11wMxZ5S+UJiuuC5roMxYLy7IpmkyOfmvtEMLvZprXoYuHwzpr7RDCrNJaxqli7dUERyan/2Q=="
)
"""64 x 48, colour sampled 4 x 2, made by `cjpeg -sample 4x2`."""
