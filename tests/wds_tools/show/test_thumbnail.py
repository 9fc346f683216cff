"""Small pictures: of the size that fits, upright, masks in colours, arrays as they are."""

import io

import numpy as np
import pytest
from PIL import Image

from tests.builders import picture
from wds_tools.errors import TruncatedPictureError, UsageError
from wds_tools.pictures.decode import Decoder
from wds_tools.show.thumbnail import Thumbnail, of_array, of_picture


def opened(small: Thumbnail) -> Image.Image:
    image = Image.open(io.BytesIO(small.data))
    assert image.size == (small.width, small.height)
    assert small.media == f"image/{str(image.format).lower()}"
    return image


def png(array: np.ndarray) -> bytes:
    target = io.BytesIO()
    Image.fromarray(array).save(target, "PNG")
    return target.getvalue()


@pytest.mark.parametrize(("size", "fits"), [((640, 480), (160, 120)), ((300, 900), (53, 160)), ((48, 36), (48, 36))])
def test_a_picture_fits_into_the_square_and_is_never_enlarged(size: tuple[int, int], fits: tuple[int, int]) -> None:
    small = of_picture(picture(1, width=size[0], height=size[1]), side=160, decoder=Decoder())
    assert opened(small).size == fits
    assert (small.of, small.labels) == (size, ())


def test_it_is_what_the_picture_shows() -> None:
    data = picture(3, width=400, height=300)
    seen = np.asarray(opened(of_picture(data, side=100, decoder=Decoder())), dtype=float)
    meant = Decoder().decode(data, size=(75, 100)).astype(float)
    assert np.abs(seen - meant).mean() < 4


def test_it_is_upright() -> None:
    target = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (400, 100)).save(target, "JPEG", exif=exif)
    assert opened(of_picture(target.getvalue(), side=200, decoder=Decoder())).size == (50, 200)


def test_a_mask_gets_a_colour_for_each_value_and_0_stays_black() -> None:
    values = np.zeros((300, 400), np.uint8)
    values[100:], values[200:] = 1, 20
    small = of_picture(png(values), side=100, decoder=Decoder())
    assert (small.labels, small.exact, small.media) == ((0, 1, 20), True, "image/png")
    pixels = np.asarray(opened(small))
    rows = [tuple(pixels[row, 50]) for row in (10, 40, 70)]
    assert rows[0] == (0, 0, 0)
    assert len({*rows}) == 3
    assert {tuple(pixel) for pixel in pixels.reshape(-1, 3)} == set(rows)


def test_a_grey_photograph_is_no_mask() -> None:
    values = (np.arange(300)[:, None] + np.arange(400)[None]).astype(np.uint8)
    small = of_picture(png(values), side=100, decoder=Decoder())
    assert (small.labels, small.media) == ((), "image/jpeg")


def test_a_broken_picture_is_an_error() -> None:
    with pytest.raises(TruncatedPictureError):
        of_picture(picture(1, width=300, height=200)[:-500], side=100, decoder=Decoder())


def test_a_side_below_one_is_refused() -> None:
    with pytest.raises(UsageError, match="side of 0"):
        of_picture(picture(1), side=0, decoder=Decoder())


@pytest.mark.parametrize("shape", [(60, 40, 3), (3, 60, 40)])
def test_an_array_of_pixels_is_a_picture_wherever_its_channels_lie(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    small = of_array(array, side=200)
    assert small is not None
    image = np.asarray(opened(small))
    assert np.array_equal(image, array if shape[2] == 3 else array.transpose(1, 2, 0))


def test_floats_go_from_the_least_to_the_greatest() -> None:
    array = np.linspace(-2, 3, 50 * 50, dtype=np.float32).reshape(50, 50)
    array[0, 0] = np.nan
    small = of_array(array, side=50)
    assert small is not None
    image = np.asarray(opened(small))[:, :, 0]
    assert (image.min(), image.max(), image[0, 0]) == (0, 255, 0)


def test_a_constant_array_is_shown_too() -> None:
    assert of_array(np.full((9, 9), np.inf), side=9) is not None
    assert of_array(np.full((9, 9), 3.5), side=9) is not None


def test_whole_numbers_of_few_values_are_a_mask() -> None:
    small = of_array(np.eye(30, dtype=np.int64) * 7, side=90)
    assert small is not None
    assert small.labels == (0, 7)


@pytest.mark.parametrize("shape", [(), (7,), (1, 40), (5, 6, 7), (2, 3, 30, 30), (0, 0), (0, 5, 3)])
def test_other_arrays_are_no_pictures(shape: tuple[int, ...]) -> None:
    assert of_array(np.zeros(shape), side=50) is None


def test_the_address_holds_the_bytes() -> None:
    small = of_picture(picture(1), side=50, decoder=Decoder())
    assert small.uri.startswith("data:image/png;base64,iVBOR")
