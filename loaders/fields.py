"""Which fields become the columns of a batch: "jpg;jpeg;png" takes the first that is there, "txt?" may be missing."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from loaders.crops import Geometry, Mask
from wds_tools import codec, names
from wds_tools.errors import MissingFieldError, UsageError
from wds_tools.sample import KEY, SPECIAL, RawSample

__all__ = ["DEFAULT_FIELDS", "FieldSpec", "ImageSpec", "parse_fields"]

# Every picture that `wds pack` packs, so that the first line of training works on any folder of pictures.
DEFAULT_FIELDS = (";".join(codec.PICTURE_FIELDS), "cls")

_SHOWN = 6  # fields that an error names as an example

ImageSpec = Geometry | Mask | Mapping[str, Geometry | Mask] | None


@dataclass(frozen=True, kw_only=True)
class FieldSpec:
    """One column.

    Attributes:
        text: as the user wrote it.
        name: the column's name in the batch, an identifier.
        alternatives: field names, the first that a sample has is taken.
        optional: a sample may lack it, and then has None.
        image: what its pictures become; None leaves them at their own size.
    """

    text: str
    name: str
    alternatives: tuple[str, ...]
    optional: bool
    image: Geometry | Mask | None

    @property
    def picture(self) -> bool:
        """Whether the column holds pictures."""
        return self.alternatives[0] not in SPECIAL and codec.kind_of(self.alternatives[0]) == "picture"

    @property
    def arrays(self) -> bool:
        """Whether the column holds arrays as they lie in memory; with an `image` they are pixels."""
        return all(map(_is_npy, self.alternatives))

    @property
    def stacked(self) -> bool:
        """Whether the column holds arrays that go straight into the batch's memory, whatever their shape."""
        return not self.optional and self.image is None and self.arrays

    @property
    def slab_shape(self) -> tuple[int, int, int] | None:
        """(height, width, 3) of pictures that are decoded straight into the batch's memory; None for other columns."""
        if self.optional or self.image is None or isinstance(self.image, Mask):
            return None
        return (*self.image.shape, 3)

    def empty(self, leader: Geometry | None) -> Any:
        """The column of a batch without samples; `leader` is what masks follow."""
        if self.optional or self.alternatives[0] in SPECIAL:
            return []
        if self.picture or self.image is not None:
            mask = isinstance(self.image, Mask)
            geometry = leader if mask else self.image
            height, width = geometry.shape if geometry is not None and not isinstance(geometry, Mask) else (0, 0)
            return np.empty((0, height, width) if mask else (0, height, width, 3), dtype=np.uint8)
        return np.empty(0, dtype=np.int64) if codec.kind_of(self.alternatives[0]) == "int" else []

    def find(self, sample: RawSample) -> str | None:
        """The name of the alternative that this sample has, None where it is optional and missing.

        Raises:
            MissingFieldError: the sample has none of the alternatives.
        """
        for alternative in self.alternatives:
            if alternative in sample:
                return alternative
        if self.optional:
            return None
        present = [name for name in sample if name not in SPECIAL]
        raise MissingFieldError(
            f"the sample has no field {self.text!r}, only {', '.join(sorted(present)) or 'none at all'}",
            key=sample.get(KEY),
            field=self.text,
            cure=_cure(self.alternatives, present),
        )


def _cure(alternatives: Sequence[str], present: Sequence[str]) -> str:
    for alternative in alternatives:
        near = names.near_field(alternative, present)
        if near is not None:
            return (
                f"The field {near!r} ends with it: a key ends at the first dot of the file name, so write names "
                "without other dots (wds pack does), or ask for that field."
            )
    if not present:
        return 'Mark it optional as "txt?", or leave it out of fields=.'
    if "cls" in alternatives:
        return (
            "A class label comes from class folders, or from a column of a table, when packing (docs/inputs.md). "
            f'Without one name what is there, fields={_argument(present)}, or mark it optional as "cls?".'
        )
    return (
        f'Name what is there, such as fields={_argument(present)}, alternatives as "jpg;png", or mark it optional as '
        '"txt?".'
    )


def _argument(present: Sequence[str]) -> str:
    """`fields=` for a sample with these, as one would write it: its pictures first."""
    pictures = sorted(name for name in present if codec.kind_of(name) == "picture")
    others = sorted(set(present).difference(pictures))
    shown = ", ".join(json.dumps(name, ensure_ascii=False) for name in [*pictures, *others][:_SHOWN])
    return f"({shown},)" if len(present) == 1 else f"({shown})"


def parse_fields(fields: Sequence[str], image: ImageSpec) -> tuple[FieldSpec, ...]:
    """The columns, in the order given.

    A single crop is for all pictures; where no column has any, for the arrays, which are then pixels. A dict names
    either.

    Raises:
        UsageError: no field, an empty or repeated one, or an `image` entry that fits none.
    """
    if isinstance(fields, str) or not isinstance(fields, Iterable) or not fields:
        raise UsageError(f"fields is {fields!r}, expected some names", cure='For example fields=("jpg;png", "cls").')
    _check_crops(image)
    specs = tuple(_parse(text) for text in fields)
    arrays = isinstance(image, Mapping) or not any(spec.picture for spec in specs)
    specs = tuple(
        replace(spec, image=_image_of(spec.alternatives, image)) if spec.picture or (arrays and spec.arrays) else spec
        for spec in specs
    )
    seen: set[str] = set()
    for spec in specs:
        if spec.name in seen:
            raise UsageError(f"fields has {spec.text!r} twice, by the column name {spec.name!r}")
        seen.add(spec.name)
    _check_image(specs, image)
    return specs


def _parse(text: str) -> FieldSpec:
    if not isinstance(text, str):
        raise UsageError(f"fields has {text!r}, expected names", cure='For example fields=("jpg;png", "cls").')
    optional = text.endswith("?")
    alternatives = tuple(part.strip() for part in text.removesuffix("?").split(";") if part.strip())
    if not alternatives:
        raise UsageError(f"fields has {text!r}, which names no field", cure='For example "jpg;png" or "txt?".')
    alternatives = tuple(part if part in SPECIAL else part.lower() for part in alternatives)
    kinds = {part: "text" if part in SPECIAL else codec.kind_of(part) for part in alternatives}
    if len({kind == "picture" for kind in kinds.values()}) > 1:
        raise UsageError(
            f"fields has {text!r}, whose alternatives are partly pictures ({kinds})",
            cure="Name pictures and other fields as two columns.",
        )
    return FieldSpec(
        text=text, name=_identifier(alternatives[0]), alternatives=alternatives, optional=optional, image=None
    )


def _is_npy(field: str) -> bool:
    """Whether a field holds an array as it lies in memory, which can be had without a copy: no npy.gz."""
    return field not in SPECIAL and field.rpartition(".")[2] == "npy"


def _image_of(alternatives: tuple[str, ...], image: ImageSpec) -> Geometry | Mask | None:
    if not isinstance(image, Mapping):
        return image
    for names_text, geometry in image.items():
        if set(names_text.removesuffix("?").lower().split(";")) & set(alternatives):
            return geometry
    return None


def _check_crops(image: Any) -> None:
    named = {"image": image}
    if isinstance(image, Mapping):
        named = {f"image[{text!r}]": crop for text, crop in image.items()}
        for text in image:
            if not isinstance(text, str):
                raise UsageError(f"image has {text!r}, expected a field's name")
    for name, crop in named.items():
        if isinstance(crop, type) or not (crop is None or isinstance(crop, Geometry | Mask)):
            shown = crop.__name__ if isinstance(crop, type) else repr(crop)
            raise UsageError(
                f"{name} is {shown}, expected a crop such as RandomResizedCrop(224), CenterCrop(224), Resize(224) or "
                "Mask()",
                cure="Your own function goes into transform=.",
            )


def _check_image(specs: Sequence[FieldSpec], image: ImageSpec) -> None:
    geometries = [spec.image for spec in specs if spec.image is not None]
    if image is not None and not geometries:
        raise UsageError(
            f"image is given, but none of the fields {', '.join(spec.text for spec in specs)} is a picture it fits",
            cure="Name a picture field, or leave image out.",
        )
    if isinstance(image, Mapping):
        wanted = {alternative for spec in specs for alternative in spec.alternatives}
        for text in image:
            if not set(text.removesuffix("?").lower().split(";")) & wanted:
                raise UsageError(
                    f"image has {text!r}, which is no field of the batch", cure=f"Fields: {sorted(wanted)}."
                )


def _identifier(field: str) -> str:
    """A field's name as a column: `seg.png` is seg_png, `class` is class_, `__key__` is key."""
    name = re.sub(r"\W", "_", field.strip("_") if field in SPECIAL else field)
    if not name or name[0].isdigit() or name[0] == "_":
        name = f"f{name}"
    return f"{name}_" if keyword.iskeyword(name) or name in ("count", "index") else name
