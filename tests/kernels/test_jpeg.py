"""JPEG decoded with TensorFlow's values."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
import pytest

from flowengine.core import dtypes
from flowengine.core.accounting import call_for
from flowengine.core.errors import InvalidArgumentError, ResourceExhaustedError
from flowengine.ir.graph import Node
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
    assert np.array_equal(part, recorded["part"])


def test_without_simplejpeg_values_are_near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jpeg, "_library", lambda: None)
    found = coding.decode_jpeg(_PICTURE, channels=3)
    assert np.abs(found.astype(int) - _recorded()["plain"]).max() <= 6
    accurate = coding.decode_jpeg(_PICTURE, channels=3, dct_method=b"INTEGER_ACCURATE")
    assert np.array_equal(accurate, _recorded()["accurate"])
    with pytest.raises(InvalidArgumentError, match="it has no end"):
        coding.decode_jpeg(_PICTURE[:-2], channels=3)


def test_colours_for_printing_cannot_become_grey() -> None:
    out = io.BytesIO()
    Image.new("CMYK", (16, 8), (10, 20, 30, 40)).save(out, "JPEG")
    assert coding.decode_jpeg(out.getvalue(), channels=3).shape == (8, 16, 3)
    with pytest.raises(InvalidArgumentError, match="CMYK cannot become grey"):
        coding.decode_jpeg(out.getvalue(), channels=1)


def test_a_file_that_is_cut_off() -> None:
    with pytest.raises(InvalidArgumentError, match=r"it has no end, and \d+ of 37 rows can be read; try_"):
        coding.decode_jpeg(_PICTURE[:-300], channels=3)
    with pytest.raises(InvalidArgumentError, match="Invalid JPEG data"):
        coding.decode_jpeg(_PICTURE[:60], channels=3)
    whole = coding.decode_jpeg(_PICTURE, channels=3)
    some = coding.decode_jpeg(_PICTURE[:-300], channels=3, acceptable_fraction=0.1)
    rows = int((some != 0).any(axis=(1, 2)).sum())
    assert np.array_equal(some[:rows], whole[:rows])
    assert 0 < rows < 37
    assert not some[rows:].any()
    rest = coding.decode_jpeg(_PICTURE[:-300], channels=3, try_recover_truncated=True)
    assert np.array_equal(rest[:rows], whole[:rows])


def test_pixels_of_a_damaged_file_are_no_older_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """simplejpeg leaves the buffer as it was where libjpeg stops."""
    monkeypatch.setattr(jpeg, "recycled", lambda shape, dtype: np.full(shape, 77, dtype))
    cut = _PICTURE[:700] + b"\xff\xd9"
    found = coding.decode_jpeg(cut, channels=3)
    assert not (found[-4:] == 77).all()


@pytest.mark.parametrize("options", [{}, {"density_unit": b"cm", "x_density": 5}, {"xmp_metadata": b"<x/>"}])
def test_metadata_is_written(options: dict[str, Any]) -> None:
    node = Node("jpeg", "EncodeJpeg", attrs={"format": b""})
    defaults: dict[str, Any] = {"density_unit": b"in", "x_density": 300, "y_density": 7}
    more: dict[str, Any] = {
        "quality": 95,
        "progressive": False,
        "optimize_size": False,
        "chroma_downsampling": True,
    }
    image = np.zeros((3, 5, 3), np.uint8)
    file = coding.encode_jpeg(image, node=node, **{**defaults, **more, **options})
    unit, x = (2, 5) if "x_density" in options else (1, 300)
    assert file[:20] == b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1" + struct.pack(">BHHBB", unit, x, 7, 0, 0)
    assert (b"http://ns.adobe.com/xap/1.0/\0<x/>" in file) is ("xmp_metadata" in options)
    assert coding.decode_jpeg(file, channels=0).shape == (3, 5, 3)
    with pytest.raises(InvalidArgumentError, match="a JPEG file has room for 65504"):
        coding.encode_jpeg(image, node=node, **defaults, **more, xmp_metadata=bytes(65505))


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
