"""Which fields of a sample are taken over, and what they are called then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from wds_tools.errors import FieldRefusedError, UsageError, there_are
from wds_tools.names import check_field
from wds_tools.sample import KEY, SPECIAL, RawSample, Sample

__all__ = ["Choice"]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Fields to keep, drop and rename.

    Attributes:
        keep: the fields that are taken over; all where empty.
        drop: the fields that are left out.
        rename: old to new names.

    Raises:
        UsageError: keep and drop together, or two fields renamed alike. FieldRefusedError: a name that cannot be.
    """

    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.keep and self.drop:
            raise UsageError("fields are either kept or dropped", cure="Give keep or drop, not both.")
        if len(set(self.rename.values())) < len(self.rename):
            raise UsageError("two fields are renamed alike", cure="Give each a name of its own.")
        for name in (*self.keep, *self.drop, *self.rename, *self.rename.values()):
            check_field(name)
        if lost := sorted(old for old in self.rename if not self.keeps(old)):
            raise UsageError(f"the field {lost[0]} is renamed and left out", cure="Name it once.")

    def keeps(self, name: str) -> bool:
        """Whether the field of this (old) name is taken over."""
        return name in self.keep if self.keep else name not in self.drop

    def words(self) -> object:
        """The choice in values that JSON knows."""
        return {"keep": sorted(self.keep), "drop": sorted(self.drop), "rename": dict(sorted(self.rename.items()))}

    @cached_property
    def everything(self) -> bool:
        """Whether samples are taken over as they are."""
        return not (self.keep or self.drop or self.rename)

    def apply(self, sample: RawSample) -> Sample:
        """The sample as it is to be written: key and chosen fields, in their order.

        Raises:
            FieldRefusedError: nothing is left, or a field would be there twice.
        """
        chosen: Sample = {KEY: sample[KEY]}
        for name, data in sample.items():
            if name in SPECIAL or not self.keeps(name):
                continue
            new = self.rename.get(name, name)
            if new in chosen:
                raise FieldRefusedError(
                    f"{name} would be renamed to {new}, which the sample has already",
                    key=sample[KEY],
                    field=name,
                    cure=f"Drop {new}, or choose another name.",
                )
            chosen[new] = data
        if len(chosen) == 1:
            raise FieldRefusedError("no field is left", key=sample[KEY], cure=there_are(sorted(set(sample) - SPECIAL)))
        return chosen
