"""Packages that only some fields need: loaded on first use, and asked for by the name that pip knows."""

from __future__ import annotations

import importlib
from typing import Any

from wds_tools.errors import ShardstreamError

__all__ = ["package"]


def package(module: str, name: str, error: type[ShardstreamError]) -> Any:
    """Import a module.

    Args:
        module: as it is imported.
        name: as it is installed.
        error: raised where it is not installed, with the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        raise error(f"the package {name} is not installed", cure=f"pip install {name}") from missing
