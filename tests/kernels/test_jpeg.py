"""JPEG decoded with TensorFlow's values."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from flowengine.core import dtypes
from flowengine.core.accounting import call_for
from flowengine.core.errors import InvalidArgumentError, ResourceExhaustedError
from flowengine.kernels.image import coding, jpeg
from tests.kernels.jpeg.record import CASES, HERE, PART

pytest.importorskip("simplejpeg", reason="simplejpeg (the extra `image`) is not installed")
Image = pytest.importorskip("PIL.Image", reason="Pillow (the extra `image`) is not installed")

_PICTURE = (HERE / "picture.jpg").read_bytes()


def _recorded() -> Any:
    return np.load(HERE / "tensorflow.npz")


@pytest.mark.parametrize("case", CASES)
def test_values_are_tensorflows(case: str) -> None:
    file, options = CASES[case]
    options = {"channels": 3, **options}
    if "dct_method" in options:
        options["dct_method"] = options["dct_method"].encode()
    found = coding.decode_jpeg((HERE / file).read_bytes(), **options)
    assert found.dtype == np.uint8
    assert np.array_equal(found, _recorded()[case])


def test_other_ops_decode_it_alike() -> None:
    recorded = _recorded()
    any_format = coding.decode_image(_PICTURE, channels=3, dtype=dtypes.uint8, expand_animations=True)
    assert np.array_equal(any_format, recorded["of_any_format"])
    as_png = coding.decode_png(_PICTURE, channels=3, dtype=dtypes.uint8)
    assert np.array_equal(as_png, recorded["by_decode_png"])
    part = coding.decode_and_crop_jpeg(
        _PICTURE, np.array(PART), channels=3, ratio=1, dct_method=b"", fancy_upscaling=True
    )
    assert part.flags.c_contiguous
    # TensorFlow does not decode what is right of the part, which the colours of its last column need.
    assert np.array_equal(part[:, :-1], recorded["part"][:, :-1])


def test_without_simplejpeg_values_are_near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jpeg, "_library", lambda: None)
    found = coding.decode_jpeg(_PICTURE, channels=3)
    assert np.abs(found.astype(int) - _recorded()["plain"]).max() <= 6
    accurate = coding.decode_jpeg(_PICTURE, channels=3, dct_method=b"INTEGER_ACCURATE")
    assert np.array_equal(accurate, _recorded()["accurate"])


def test_colours_for_printing_are_left_to_pillow() -> None:
    out = io.BytesIO()
    Image.new("CMYK", (16, 8), (10, 20, 30, 40)).save(out, "JPEG")
    assert jpeg.decoded(out.getvalue(), 3, 1, False, True, lambda *_: None) is None
    assert coding.decode_jpeg(out.getvalue(), channels=3).shape == (8, 16, 3)


def test_damage_is_told_by_pillow() -> None:
    with pytest.raises(InvalidArgumentError, match="Invalid JPEG data, data size"):
        coding.decode_jpeg(_PICTURE[:-300], channels=3)
    with pytest.raises(InvalidArgumentError, match="Invalid JPEG data"):
        coding.decode_jpeg(_PICTURE[:60], channels=3)


def test_what_follows_the_image_does_not_matter() -> None:
    assert np.array_equal(coding.decode_jpeg(_PICTURE + b"junk" * 9, channels=3), _recorded()["plain"])


def test_memory_is_asked_for_before_anything_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def check(self, size: int) -> None:
            assert size == 37 * 45 * 3
            raise ResourceExhaustedError("full")

    monkeypatch.setattr(jpeg, "recycled", None)
    account: Any = Full()
    with pytest.raises(ResourceExhaustedError, match="full"):
        call_for(account, coding.decode_jpeg, _PICTURE, channels=3)


def test_too_many_pixels_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coding, "PIXELS_MAX", 37 * 45 - 1)
    monkeypatch.setattr(jpeg, "recycled", None)
    with pytest.raises(ResourceExhaustedError, match="45 x 37 pixels"):
        coding.decode_jpeg(_PICTURE, channels=3)
