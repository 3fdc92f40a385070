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

pytest.importorskip("PIL.Image", reason="Pillow (the extra `image`) is not installed")

_KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "DecodePng": coding.decode_png,
    "DecodeGif": coding.decode_gif,
}
_FAMILIES: Final = ("gif", "png")

#: {kind of picture: what differs from TensorFlow 1.15}
EXCEPTIONS: Final[dict[str, str]] = {}


def _found(op: str, file: bytes, attrs: dict[str, Any]) -> str:
    if "dtype" in attrs:
        attrs = {**attrs, "dtype": dtypes.as_dtype(attrs["dtype"])}
    try:
        return digest(np.ascontiguousarray(_KERNELS[op](file, **attrs)))
    except InvalidArgumentError:
        return REFUSED


@pytest.mark.parametrize("family", _FAMILIES)
def test_drawn_pictures_have_tensorflows_values(family: str) -> None:
    recorded = json.loads(RECORDED.read_text())
    cases = [case for case in all_cases() if case[0].startswith(family)]
    differ = {name for name, op, file, attrs in cases if _found(op, file, attrs) != recorded[name]}
    assert {name for name in differ if "/".join(name.split("/")[:2]) not in EXCEPTIONS} == set()


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
