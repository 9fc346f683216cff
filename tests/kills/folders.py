"""What lies in a folder, and since when, for comparing two."""

from __future__ import annotations

import hashlib
from pathlib import Path

__all__ = ["digest", "written"]


def digest(folder: Path) -> dict[str, str]:
    """All files, hidden ones too, by their path in the folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def written(folder: Path) -> dict[Path, int]:
    """When each shard was written, but for each folder's last: it may have its name and no line in the journal yet."""
    shards = sorted(folder.rglob("*.tar"))
    last = {path.parent: path for path in shards}
    return {path: path.stat().st_mtime_ns for path in shards if path != last[path.parent]}
