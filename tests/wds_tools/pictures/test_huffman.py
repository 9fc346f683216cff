"""The kernel's own Huffman decoder: not one bit differs from libjpeg's, and what it does not know is left to that."""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import simplejpeg
from PIL import Image

from tests.wds_tools.pictures.made import ARITHMETIC, ODD_SAMPLING, jpeg, saved, scene, with_segment
from wds_tools.errors import PictureError
from wds_tools.pictures import huffman
from wds_tools.pictures.decode import Box, Decoder
from wds_tools.pictures.facts import Facts, read_facts
from wds_tools.pictures.kernel import Kernel, capability, tried
from wds_tools.pictures.options import Pictures

pytestmark = pytest.mark.skipif(not capability().huffman, reason=capability().missing)

Pixels = npt.NDArray[np.uint8]
SAMPLINGS = ("444", "422", "420", "440", "411", "Gray")


def _draw_pixels(random: np.random.Generator, width: int, height: int) -> Pixels:
    """Smooth, busy, hard, or flat: each fills other parts of the codes."""
    match random.integers(4):
        case 0:
            return scene(width, height, int(random.integers(1000)))
        case 1:
            return random.integers(0, 256, (height, width, 3), np.uint8)
        case 2:
            return (random.integers(0, 2, (height, width, 1), np.uint8) * 255).repeat(3, 2)
        case _:
            return np.full((height, width, 3), random.integers(256), np.uint8)


def _draw_picture(random: np.random.Generator) -> bytes:
    """A baseline JPEG of one scan."""
    width, height = (int(random.integers(1, 9 if random.random() < 0.1 else 150)) for _ in range(2))
    pixels, quality = _draw_pixels(random, width, height), int(random.integers(1, 101))
    kind = str(random.choice(SAMPLINGS))
    if random.random() < 0.5:  # with tables of its own
        sampling = {"444": "4:4:4", "422": "4:2:2", "420": "4:2:0"}.get(kind, "4:2:0")
        return saved(pixels[:, :, 0] if kind == "Gray" else pixels, "JPEG", quality=quality, optimize=True,
                     subsampling=sampling)  # fmt: skip
    if kind == "Gray":
        return bytes(simplejpeg.encode_jpeg(np.ascontiguousarray(pixels[:, :, :1]), quality, "GRAY", "Gray"))
    return bytes(simplejpeg.encode_jpeg(pixels, quality, "RGB", kind))


def _dressed(data: bytes, random: np.random.Generator) -> bytes:
    """The same picture with what else is met in files: fill bytes before markers, bytes behind the end, comments."""
    match random.integers(5):
        case 0:
            return data[:-2] + b"\xff" * int(random.integers(1, 9)) + data[-2:]
        case 1:
            return data + random.bytes(int(random.integers(1, 50)))
        case 2:
            return with_segment(data, 0xFE, b"\xff\xda\xff\xd9", after=b"\xff" * int(random.integers(5)))
        case _:
            return data


def _draw_part(random: np.random.Generator, facts: Facts) -> tuple[Box, tuple[int, int]]:
    """A part, and its height and width at one of the scales."""
    left, top = int(random.integers(facts.width)), int(random.integers(facts.height))
    wide, high = int(random.integers(1, facts.width - left + 1)), int(random.integers(1, facts.height - top + 1))
    if random.random() < 0.2:
        left, top, wide, high = 0, 0, facts.width, facts.height
    scale = int(random.choice([1, 1, 1, 2, 4, 8]))
    return Box(left, top, wide, high), (max(1, high // scale), max(1, wide // scale))


def _decoded(kernel: Kernel, data: bytes, facts: Facts, part: Box, size: tuple[int, int]) -> object:
    """The pixels, or what is wrong."""
    out = np.zeros((*size, 3), np.uint8)
    try:
        return kernel.jpeg(data, facts, part, out, 1), out.tobytes()
    except PictureError as error:
        return str(error)


def _compare_pictures(count: int, seed: int) -> None:
    random, own, plain = np.random.default_rng(seed), Kernel(), Kernel(huffman=False)
    for number in range(count):
        data = _dressed(_draw_picture(random), random)
        facts = read_facts(data)
        for _ in range(3):
            part, size = _draw_part(random, facts)
            wanted = _decoded(plain, data, facts, part, size)
            assert _decoded(own, data, facts, part, size) == wanted, (seed, number, part, size)
            assert own.decoded_itself, (seed, number, part, size)
            assert not plain.decoded_itself


def test_no_bit_of_any_baseline_picture_differs() -> None:
    _compare_pictures(2500, seed=0)


@pytest.mark.long
def test_no_bit_of_many_baseline_pictures_differs() -> None:
    _compare_pictures(60_000, seed=1)


def test_coefficients_of_all_lengths_are_met() -> None:
    # Noise at the best quality has the longest codes and the largest values; a flat field the shortest.
    random, own, plain = np.random.default_rng(3), Kernel(), Kernel(huffman=False)
    for contrast in (1, 2, 5, 20, 60, 127):
        pixels = (128 + random.uniform(-contrast, contrast, (80, 80, 3))).astype(np.uint8)
        for quality in (100, 95, 60, 10):
            for optimize in (False, True):
                data = saved(pixels, "JPEG", quality=quality, optimize=optimize, subsampling="4:4:4")
                facts = read_facts(data)
                for part in (Box(0, 0, 80, 80), Box(0, 0, 9, 80), Box(70, 70, 10, 10)):
                    size = int(part.height), int(part.width)
                    assert _decoded(own, data, facts, part, size) == _decoded(plain, data, facts, part, size)
                    assert own.decoded_itself


def test_tables_of_the_picture_before_are_not_taken_for_those_of_this_one() -> None:
    # more sets of tables than are kept, in turns
    random = np.random.default_rng(0)
    pictures = [
        saved(_draw_pixels(random, 70, 50), "JPEG", quality=quality, optimize=True) for quality in range(5, 100, 5)
    ]
    facts = [read_facts(data) for data in pictures]
    own, whole = Kernel(), Box(0, 0, 70, 50)
    wanted = [
        _decoded(Kernel(huffman=False), data, fact, whole, (50, 70)) for data, fact in zip(pictures, facts, strict=True)
    ]
    for at in random.integers(0, len(pictures), 600):
        assert _decoded(own, pictures[at], facts[at], whole, (50, 70)) == wanted[at]
        assert own.decoded_itself


SEPARATE = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAgGBgcGBQgHBwcJCQgKDBQNDAsLDBkSEw8UHRofHh0aHBwgJC4nICIsIxwcKDcpLDAxNDQ0Hyc5PTgy"
    "PC4zNDL/2wBDAQkJCQwLDBgNDRgyIRwhMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjL/wAARCAAYACAD"
    "ASIAAhEBAxEB/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKB"
    "kaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZ"
    "mqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/9oACAEBAAA/AODtdPwBkY9K047ADsOPath9"
    "PP8AdrOuNP7ha1rXTQAMqK049NAH3f0rXk01QD8g/KqFzpqjnYOvpXT2thx0FakWncdOayH044PH6Vnz6eBn5a//xAAfAQADAQEBAQEBAQEBAAAA"
    "AAAAAQIDBAUGBwgJCgv/xAC1EQACAQIEBAMEBwUEBAABAncAAQIDEQQFITEGEkFRB2FxEyIygQgUQpGhscEJIzNS8BVictEKFiQ04SXxFxgZGiYn"
    "KCkqNTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqCg4SFhoeIiYqSk5SVlpeYmZqio6Slpqeoqaqys7S1tre4ubrCw8TFxsfI"
    "ycrS09TV1tfY2dri4+Tl5ufo6ery8/T19vf4+fr/2gAIAQIRAD8A8unU1PUwNTU+Vpt3PrMC3dH/2gAIAQMRAD8A+6wmMfLueJmWMfLueHhK0+Xc"
    "rMq0+Xc//9k="
)
"""32 x 24, each colour in a scan of its own, made by `jpegtran -scans`."""


@pytest.mark.parametrize(
    "data",
    [
        jpeg(120, 90, progressive=True),
        jpeg(120, 90, restart_marker_blocks=3),
        jpeg(120, 90, restart_marker_rows=1),
        saved(scene(50, 40)[:, :, 0], "JPEG", progressive=True),
        SEPARATE,
    ],
)
def test_other_codings_are_left_to_libjpeg(data: bytes) -> None:
    facts, own = read_facts(data), Kernel()
    whole, size = Box(0, 0, facts.width, facts.height), (facts.height, facts.width)
    assert _decoded(own, data, facts, whole, size) == _decoded(Kernel(huffman=False), data, facts, whole, size)
    assert not own.decoded_itself


def test_odd_sampling_is_decoded_and_arithmetic_coding_is_not() -> None:
    facts, own, whole = read_facts(ODD_SAMPLING), Kernel(), Box(0, 0, 32, 24)
    assert _decoded(own, ODD_SAMPLING, facts, whole, (24, 32)) == _decoded(
        Kernel(huffman=False), ODD_SAMPLING, facts, whole, (24, 32)
    )
    assert own.decoded_itself
    assert not own.jpeg(ARITHMETIC, read_facts(ARITHMETIC), whole, np.empty((24, 32, 3), np.uint8), 1)


@functools.cache
def _seeds() -> list[bytes]:
    small = scene(50, 38)
    made = [bytes(simplejpeg.encode_jpeg(small, 80, "RGB", kind)) for kind in ("444", "422", "420", "440", "411")]
    return [*made, saved(small[:, :, 0], "JPEG"), jpeg(50, 38, optimize=True), jpeg(90, 20, quality=100)]


def _changed(data: bytes, random: np.random.Generator) -> bytes:
    """A few bytes changed, left out or put in, mostly in the coded data; markers put in; the end cut."""
    changed, scan = bytearray(data), read_facts(data).scan
    for _ in range(random.integers(1, 4)):
        at = int(random.integers(scan if random.random() < 0.8 else 2, len(changed)))
        match random.integers(7):
            case 0:
                changed[at] ^= 1 << int(random.integers(8))
            case 1:
                changed[at] = int(random.choice([0, 0x7F, 0x80, 0xFE, 0xFF]))
            case 2:
                del changed[at : at + int(random.integers(1, 9))]
            case 3:
                changed[at:at] = random.bytes(int(random.integers(1, 9)))
            case 4:
                changed[at:at] = bytes([0xFF, int(random.choice([0, 0xD0, 0xD9, 0xDA, 0xFF, 1]))])
            case 5:
                changed[at:] = b"\xff\xd9" if random.random() < 0.7 else b""
            case _:
                changed[at : at + 8] = changed[scan : scan + 8]
        if len(changed) <= scan:
            return data
    return bytes(changed)


def _compare_changed(count: int, seed: int) -> tuple[int, int, int]:
    random, own, plain = np.random.default_rng(seed), Kernel(), Kernel(huffman=False)
    itself = repeated = damaged = 0
    for number in range(count):
        data = _changed(_seeds()[number % len(_seeds())], random)
        try:
            facts = read_facts(data)
        except PictureError:
            continue
        if facts.width * facts.height > 1 << 16:
            continue
        part, size = _draw_part(random, facts)
        wanted = _decoded(plain, data, facts, part, size)
        assert _decoded(own, data, facts, part, size) == wanted, (seed, number, part, size)
        itself += own.decoded_itself
        damaged += isinstance(wanted, str)
        repeated += not isinstance(wanted, str) and not own.decoded_itself
    return itself, damaged, repeated


def test_damage_is_judged_as_libjpeg_judges_it() -> None:
    itself, damaged, repeated = _compare_changed(6000, seed=0)
    assert min(itself, damaged) > 500
    assert repeated  # what is odd and no damage to libjpeg: decoded by it, from the beginning


@pytest.mark.long
def test_much_damage_is_judged_as_libjpeg_judges_it() -> None:
    _compare_changed(200_000, seed=1)


@pytest.mark.parametrize("data", [jpeg(60, 50), saved(scene(60, 50)[:, :, 0], "JPEG"), jpeg(60, 50, quality=100)])
@pytest.mark.parametrize(
    "end", [b"", b"\xff\xd9", b"\xff", b"\xff\xff\xd9", b"\xff\xff", b"\xff" * 60, b"\xff" * 60 + b"\xd9", b"\0"]
)
def test_a_picture_cut_anywhere_is_judged_alike(data: bytes, end: bytes) -> None:
    facts, own, plain = read_facts(data), Kernel(), Kernel(huffman=False)
    for length in range(facts.scan, len(data) - 1):
        for part in (Box(0, 0, 60, 50), Box(0, 0, 60, 10), Box(30, 20, 9, 9)):
            size = int(part.height), int(part.width)
            cut = data[:length] + end
            assert _decoded(own, cut, facts, part, size) == _decoded(plain, cut, facts, part, size), (length, part)


def test_it_is_used_unless_it_is_switched_off() -> None:
    data, kernels = jpeg(120, 90), []
    for options in (Pictures(), Pictures(huffman=False)):
        decoder = Decoder(options, backend="kernel")
        decoder.decode(data)
        assert decoder._kernel is not None
        kernels.append(decoder._kernel.decoded_itself)
    assert kernels == [True, False]


# ---- whether it may be used


def _module() -> Any:
    from wds_tools.pictures import _pixels

    return _pixels


def _kernel(**calls: Callable[..., Any]) -> Any:
    """A real kernel but for some calls."""
    real = _module().Kernel()
    names = ("resize", "jpeg", "encode", "baseline", "units")
    return SimpleNamespace(**{name: getattr(real, name) for name in names} | calls)


def _failing(fault: str) -> Any:
    """A kernel whose own decoder, or the library behind it, has one fault."""
    real = _module().Kernel()

    def jpeg(*arguments: Any) -> Any:
        data, *rest, entropy = arguments if len(arguments) > 9 else (*arguments, 0)
        if fault == "ignores markers" and entropy == 1 and real.jpeg(data, *rest, 0):
            return None
        result = real.jpeg(data, *rest, entropy)
        if fault == "one level off" and entropy == 1:
            rest[6][-1, -1, 0] ^= 1
        return result

    def units() -> int:
        count: int = real.units()
        return {"not called": 0, "called once too often": count + 1 if count else 0}.get(fault, count)

    return _kernel(jpeg=jpeg, units=units, encode=real.encode)


def test_the_trial_finds_nothing_wrong_with_this_kernel() -> None:
    assert huffman.trial(_module().Kernel()) == ""


@pytest.mark.parametrize("fault", ["not called", "called once too often", "one level off", "ignores markers"])
def test_with_a_fault_it_is_not_used_and_jpegs_are_decoded_without(fault: str) -> None:
    found = tried(SimpleNamespace(Kernel=lambda: _failing(fault), JPEG="libjpeg-turbo 9", HUFFMAN=True))
    assert (found.jpeg, found.resize, found.huffman) == (True, True, False)
    assert "Huffman decoder fails its self-test" in found.missing


def test_with_a_libjpeg_of_another_kind_it_is_not_tried() -> None:
    found = tried(SimpleNamespace(Kernel=_module().Kernel, JPEG="libjpeg-turbo 9", HUFFMAN=False))
    assert (found.jpeg, found.huffman) == (True, False)
    assert "libjpeg-turbo 9" in found.missing


def test_a_cmyk_picture_is_left_to_others() -> None:
    data = saved(Image.fromarray(scene(40, 30)).convert("CMYK"), "JPEG")
    assert not Kernel().jpeg(data, read_facts(data), Box(0, 0, 40, 30), np.empty((30, 40, 3), np.uint8), 1)
