"""The judging of odd pictures, over pictures that are made here: each outcome is told from the others.

In a process of its own, since it forks, and a test run has threads.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.builders import picture
from tests.odd_pictures.judge import SAME, Verdict, difference
from tests.odd_pictures.table import Tried, lines, reason

ROOT = Path(__file__).parents[2]

# Decoders that do wrong on purpose, beside ours: another part, a foreign exception, a crash, too much memory, no end.
SCRIPT = """
import ctypes, json, sys
from pathlib import Path
from tests.odd_pictures import contained
from tests.odd_pictures.judge import decoders, judged
from wds_tools.pictures.decode import Decoder

contained._WAIT = 1
contained.contained.__kwdefaults__.update(memory=1 << 30, seconds=2)

class Shifted(Decoder):
    def decode(self, data, *, box=None, **options):
        pixels = super().decode(data, box=box, **options)
        return pixels if box is None else pixels + 3

class Strange(Decoder):
    def decode(self, data, **options):
        raise KeyError("strange")

class Crashed(Decoder):
    def decode(self, data, **options):
        return ctypes.string_at(0)

class Greedy(Decoder):
    def decode(self, data, **options):
        return bytearray(4 << 30)

class Endless(Decoder):
    def decode(self, data, **options):
        while True:
            pass

by = decoders()
if sys.argv[1] == "wrong":
    by = {kind.__name__: kind for kind in (Shifted, Strange, Crashed, Greedy, Endless)}
for name in sys.argv[3:]:
    print(json.dumps([name, judged(Path(name), Path(sys.argv[2]), by)]))
"""


def _judged(folder: Path, which: str, **pictures: bytes) -> dict[str, dict[str, list[str]]]:
    names = []
    for name, data in pictures.items():
        names.append(str(folder / f"{name}.img"))
        Path(names[-1]).write_bytes(data)
    between = folder / "between"
    between.mkdir()
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, which, str(between), *names],
        cwd=ROOT, check=True, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert not list(between.iterdir())
    return {Path(name).stem: verdicts for name, verdicts in map(json.loads, run.stdout.splitlines())}


def _saved(image: Image.Image, form: str) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form)
    return stream.getvalue()


def test_each_picture_gets_its_outcome_from_every_backend(tmp_path: Path) -> None:
    image = Image.open(io.BytesIO(picture(1)))
    png = _saved(image, "PNG")
    found = _judged(
        tmp_path, "ours",
        jpeg=picture(1, width=300, height=200), png=png, clear=_saved(image.convert("RGBA").rotate(30), "PNG"),
        nothing=b"no picture at all", icon=_saved(image, "ICO"), endless=png[:-12],
        chunk=png[:33] + b"\0\0\0\1cHRM\0\xd8\x1c\x8c\x7d" + png[33:],
    )  # fmt: skip
    assert {name: {each[0] for each in verdicts.values()} for name, verdicts in found.items()} == {
        "jpeg": {"same"},
        "png": {"same"},
        "clear": {"same"},
        "nothing": {"both refuse"},
        "icon": {"we refuse"},
        "endless": {"we refuse"},
        "chunk": {"we read"},
    }
    assert "TruncatedPictureError" in found["endless"]["pillow"][1]


def test_what_goes_wrong_is_found_and_hurts_nobody(tmp_path: Path) -> None:
    found = _judged(tmp_path, "wrong", jpeg=picture(1))["jpeg"]
    assert [verdict[0] for verdict in found.values()] == ["differs", "broke", "broke", "broke", "broke"]
    assert found["Shifted"][1].startswith("Part(")
    assert found["Strange"][1] == "KeyError: 'strange'"
    assert found["Crashed"][1] == "died of SIGSEGV"
    assert found["Greedy"][1].startswith("MemoryError")
    assert found["Endless"][1] == "took too long"


def test_pictures_are_the_same_within_the_tolerance_only() -> None:
    one = np.full((4, 5, 3), 100, np.uint8)
    other = one.copy()
    other[0, 0, 0] += SAME
    assert difference(one, other) == ""
    other[0, 0, 0] += 1
    assert difference(one, other) == "5.00% of the pixels, by up to 3 levels, 0.05 in the mean"
    assert difference(one, one[:, :4]) == "5 x 4 instead of 4 x 4 pixels"


@pytest.mark.parametrize(
    ("why", "wanted"),
    [
        ("TruncatedPictureError: PNG picture cut off: 1,277 bytes", "PNG picture cut off: N bytes"),
        ("UnsupportedPictureError: no picture of a known format but b'x'", "a format that is not read here (ICO)"),
        ("OSError: cannot read <_io.BytesIO object at 0x7f>", "cannot read ..."),
    ],
)
def test_reasons_are_alike_for_like_pictures(why: str, wanted: str) -> None:
    assert reason(Tried("suite", Path("a"), "ICO", {}), Verdict("we refuse", why)) == wanted


def test_the_table_counts_by_decoder_and_by_reason() -> None:
    refused, same = Verdict("we refuse", "PictureError: cut at 17"), Verdict("same")
    tried = [
        Tried("one", Path("a.png"), "PNG", {"kernel": same, "pillow": same}),
        Tried("one", Path("b.png"), "PNG", {"kernel": refused, "pillow": same}),
        Tried("two", Path("c.png"), "PNG", {"kernel": refused, "pillow": refused}),
    ]
    text = list(lines(tried))
    assert "| the picture that Pillow makes | 1 | 2 |" in text
    assert "| a named error, where Pillow makes a picture | 2 | 1 |" in text
    assert "| another picture than Pillow's | 0 | 0 |" in text
    assert "\n3 pictures: 2 of one's, 1 of two's." in text
    assert "| cut at N | 2 | `b.png` | all |" in text
