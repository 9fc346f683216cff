"""Runs of writer, packer, cache and loader that are killed by SIGKILL at moments drawn from a seed, and begun again.

A scene makes its inputs and an unbroken run once; `kill_once(seed, folder)` then kills runs into a new folder, one to
three in a row, looks at what each left, lets one end, and compares. Five of each in `make test`, 200 by `make kills`.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from tests.kills.victims import Victims

__all__ = ["SCENES", "Scene", "scene_of"]

SCENES = ("cache", "loader", "packer", "writer")


class Scene(Protocol):
    """What is killed, by `victims`."""

    victims: Victims

    def kill_once(self, seed: int, folder: Path) -> str:
        """See the module; says what was killed when."""
        ...

    def close(self) -> None:
        """End what was started."""
        ...


def scene_of(name: str, folder: Path) -> Scene:
    """The scene of that name; imported here, since only one of them needs torch."""
    module: Any = import_module(f"tests.kills.{name}")
    scene: Scene = getattr(module, name.capitalize())(folder)
    return scene
