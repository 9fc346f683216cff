"""All targets by name."""

from __future__ import annotations

from tests.fuzz.targets import fields, http, index, inputs, loader, shards
from tests.fuzz.targets.target import Target

__all__ = ["TARGETS"]

TARGETS: dict[str, Target] = {
    target.name: target for module in (shards, index, loader, fields, inputs, http) for target in module.TARGETS
}
