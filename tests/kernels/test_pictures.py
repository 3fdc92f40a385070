"""Drawn pictures, whole and damaged, against recorded values of TensorFlow 1.15."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.image import coding
from tests.kernels.pictures.png_files import SIGNATURE, chunk
from tests.kernels.pictures.record import RECORDED, REFUSED, all_cases, digest

pytest.importorskip("simplejpeg", reason="simplejpeg (the extra `image`) is not installed")
pytest.importorskip("PIL.Image", reason="Pillow (the extra `image`) is not installed")


def _window(file: bytes, window: list[int], **attrs: Any) -> Any:
    given = {"channels": 0, "ratio": 1, "dct_method": b"", "fancy_upscaling": True, **attrs}
    return coding.decode_and_crop_jpeg(file, np.array(window, np.int32), **given)


_KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "DecodePng": coding.decode_png,
    "DecodeGif": coding.decode_gif,
    "DecodeJpeg": coding.decode_jpeg,
    "DecodeAndCropJpeg": _window,
}
_FAMILIES: Final = ("gif", "jpeg", "png", "restarts")

#: {picture: how it differs from TensorFlow 1.15}. All are progressive files that are cut off, decoded with
#: `try_recover_truncated`: TensorFlow reads the last bytes again and again, and smooths otherwise.
EXCEPTIONS: Final[dict[str, str]] = {
    "jpeg/cut/444_progressive": "789 of 2,915 values, by 26 at most",
    "jpeg/cut/cmyk_progressive": "165 of 2,673 values, by 11 at most",
    "jpeg/no_end/cmyk_progressive": "TensorFlow refuses it: the byte 0xFF at the end begins a marker",
}


def _found(op: str, file: bytes, attrs: dict[str, Any]) -> str:
    if "dtype" in attrs:
        attrs = {**attrs, "dtype": dtypes.as_dtype(attrs["dtype"])}
    if "dct_method" in attrs:
        attrs = {**attrs, "dct_method": attrs["dct_method"].encode()}
    try:
        return digest(np.ascontiguousarray(_KERNELS[op](file, **attrs)))
    except InvalidArgumentError:
        return REFUSED


@pytest.mark.parametrize("family", _FAMILIES)
def test_drawn_pictures_have_tensorflows_values(family: str) -> None:
    recorded = json.loads(RECORDED.read_text())
    cases = [case for case in all_cases() if case[0].startswith(family)]
    differ = {name for name, op, file, attrs in cases if _found(op, file, attrs) != recorded[name]}
    assert differ == {name for name in EXCEPTIONS if name.startswith(family)}


def test_files_torn_within_a_table_are_decoded_where_tensorflow_decodes_them() -> None:
    recorded = json.loads(RECORDED.read_text())
    cases = [case for case in all_cases() if case[0].startswith("torn")]
    decoded = {name for name, op, file, attrs in cases if _found(op, file, attrs) != REFUSED}
    assert len(decoded) >= 5
    assert decoded == {name for name, *_ in cases if recorded[name] != REFUSED}


def test_every_picture_is_recorded() -> None:
    names = [name for name, *_ in all_cases()]
    assert len(names) == len(set(names)) == len(json.loads(RECORDED.read_text()))


@settings(deadline=None)
@given(st.integers(1, 4), st.integers(1, 9), st.integers(1, 9), st.sampled_from(["uint8", "uint16"]))
def test_png_comes_back_to_the_bit(channels: int, height: int, width: int, dtype: str) -> None:
    image = np.random.default_rng(height).integers(0, np.iinfo(dtype).max, (height, width, channels), dtype)
    file = coding.encode_png(image, compression=-1)
    found = coding.decode_png(file, channels=0, dtype=dtypes.as_dtype(dtype))
    assert found.dtype == image.dtype
    assert np.array_equal(found, image)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (SIGNATURE + chunk(b"IEND", b""), "its first chunk, and no other, must be IHDR"),
        (SIGNATURE + chunk(b"IHDR", bytes(13)), "there is no colour type 0 of 0 bits"),
        (SIGNATURE + chunk(b"IHDR", b""), "its chunk IHDR has 0 bytes, not 13"),
        (SIGNATURE + b"\0\0\0\1IHDR" + bytes(5), "the checksum of the chunk IHDR at byte 8 is wrong"),
        (SIGNATURE, "the file ends before its chunk IEND"),
    ],
)
def test_damage_is_named(file: bytes, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"Invalid PNG data, data size {len(file)}: {message}"):
        coding.decode_png(file, channels=0, dtype=dtypes.uint8)


def test_only_png_has_16_bits() -> None:
    for head in (b"\xff\xd8\xff", b"GIF89a"):
        with pytest.raises(InvalidArgumentError, match="only PNG files can be decoded to uint16"):
            coding.decode_png(head + bytes(40), channels=0, dtype=dtypes.uint16)
