"""Images in files, decoded and encoded."""

from __future__ import annotations

import io
from typing import Any, Final

import numpy as np
from PIL import Image

from flowengine.core.arrays import to_array
from tests.oprecords.record import OpRecord, Sample, bad, sample

_INVALID: Final = "InvalidArgumentError"


def _file(pixels: Any, form: str, **options: Any) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, form, **options)
    return out.getvalue()


_PIXELS: Final = (np.arange(4 * 6 * 3) * 37 % 251).astype(np.uint8).reshape(4, 6, 3)
_GREY: Final = np.full((16, 24), 77, np.uint8)
_PNG, _BMP, _JPEG = _file(_PIXELS, "PNG"), _file(_PIXELS, "BMP"), _file(_GREY, "JPEG")
_GIF: Final = _file(_GREY, "GIF")
_WEBP: Final = _file(_PIXELS, "WEBP", lossless=True)
_LONG: Final = (_PIXELS.astype(np.uint16) << 8, _PIXELS.astype(np.uint16) * 257)


def _check_jpeg(outputs: Any, inputs: Any) -> None:
    pixels = np.asarray(Image.open(io.BytesIO(to_array(outputs[0]).item()))).astype(int)
    assert np.abs(pixels.reshape(inputs[0].shape) - inputs[0]).max() <= 6


RECORDS: Final = [
    OpRecord(
        "DecodeImage",
        [
            Sample((_PNG,), {"dtype": "uint8"}, [_PIXELS]),
            Sample((_BMP,), {"dtype": "uint8"}, [_PIXELS]),
            Sample((_BMP,), {"dtype": "uint16"}, [_LONG[0]]),
            Sample((_PNG,), {"dtype": "uint16"}, [_LONG[1]]),
            Sample((_BMP,), {"dtype": "float32"}, [_PIXELS / np.float32(255)]),
            Sample((_JPEG,), {"dtype": "uint8"}, [_GREY[:, :, None]]),
            Sample((_GIF,), {"dtype": "uint8"}, [_GREY[None, :, :, None].repeat(3, 3)]),
            Sample((_GIF,), {"dtype": "uint8", "expand_animations": False}, [_GREY[:, :, None].repeat(3, 2)]),
        ],
        bad=[
            bad(_INVALID, "One of JPEG, PNG, GIF, BMP", b"junk", dtype="uint8"),
            bad(_INVALID, "got 2", _PNG, dtype="uint8", channels=2),
            bad(_INVALID, "Invalid PNG data", _PNG[:60], dtype="uint8"),
        ],
        dtypes={"dtype": ["uint8"]},
        partial=True,
    ),
    OpRecord(
        "DecodeWebP",
        [Sample((_WEBP,), {}, [_PIXELS[None]]), Sample((_PNG,), {}, [_PIXELS])],
        bad=[bad(_INVALID, "One of JPEG, PNG, GIF, BMP", b"junk"), bad(_INVALID, "got 1", _WEBP, channels=1)],
        partial=True,
    ),
    OpRecord(
        "DecodeAndCropJpeg",
        [
            Sample((_JPEG, [1, 2, 3, 4]), {}, [_GREY[1:4, 2:6, None]]),
            Sample((_JPEG, [0, 0, 16, 24]), {"channels": 3}, [_GREY[:, :, None].repeat(3, 2)]),
        ],
        bad=[
            bad(_INVALID, "[0, 0, 17, 24]", _JPEG, [0, 0, 17, 24]),
            bad(_INVALID, "[-1, 0, 4, 4]", _JPEG, [-1, 0, 4, 4]),
            bad(_INVALID, "Expected a JPEG", _PNG, [0, 0, 1, 1]),
        ],
        partial=True,
    ),
    OpRecord(
        "ExtractJpegShape",
        [Sample((_JPEG,), {}, [np.array([16, 24, 1])])],
        bad=[bad(_INVALID, "Invalid JPEG", _PNG)],
    ),
    OpRecord(
        "EncodeJpegVariableQuality",
        [sample(_GREY[:, :, None], 95), sample(_GREY[:, :, None].repeat(3, 2), 80)],
        check=_check_jpeg,
        bad=[bad(_INVALID, "101", _GREY[:, :, None], 101), bad(_INVALID, "scalar", _GREY[:, :, None], [1])],
    ),
]

#: {why they have no record: ops}
EXCUSED: Final = {
    "values of strings, told by recorded ones: tests/kernels, tests/conformance": """
        DecodeBmp DecodeGif DecodeJpeg DecodePng EncodeJpeg EncodePng
    """,
}
