"""Codes by scales and zero points: what TensorFlow 2.21 gave."""

from __future__ import annotations

from typing import Any, Final

from tests.oprecords.record import OpRecord, bad, told

_NUMBERS: Final = [-3.0, -0.5, -0.25, 0.25, 0.5, 0.75, 1.5, 100.0]
_BYTES: Final[dict[str, Any]] = {"quantization_min_val": -128, "quantization_max_val": 127}
_WORDS: Final[dict[str, Any]] = {"quantization_min_val": -(2**31), "quantization_max_val": 2**31 - 1}
_TO_BYTES: Final[dict[str, Any]] = {"Tin": "float32", "Tout": "qint8", **_BYTES}
_FROM_BYTES: Final[dict[str, Any]] = {"Tin": "qint8", "Tout": "float32", **_BYTES}
_CLIPPED: Final[dict[str, Any]] = {"T": "qint32", **_WORDS}
_CODES: Final = [[-128, -5, 0], [7, 127, 3]]

RECORDS: Final = [
    OpRecord(
        "UniformQuantize",
        [
            told((_NUMBERS, 0.5, 3), [[-3, 2, 3, 4, 4, 5, 6, 127]], _TO_BYTES),
            told(
                ([_NUMBERS[:4], _NUMBERS[4:]], [0.5, 2.0], [3, -1]),
                [[[-3, 2, 3, 4], [-1, -1, 0, 49]]],
                {**_TO_BYTES, "quantization_min_val": -127, "quantization_axis": 0},
            ),
        ],
        bad=[
            bad("InvalidArgumentError", "one shape", _NUMBERS, [0.5], 3, **_TO_BYTES),
            bad("InvalidArgumentError", "scalars", _NUMBERS, [0.5], [3], **_TO_BYTES),
            bad("InvalidArgumentError", "8 elements", _NUMBERS, [0.5], [3], **_TO_BYTES, quantization_axis=0),
            bad("InvalidArgumentError", "but is 1", _NUMBERS, [0.5], [3], **_TO_BYTES, quantization_axis=1),
        ],
        only=[{"Tin": "float32", "Tout": "qint8"}],
    ),
    OpRecord(
        "UniformDequantize",
        [
            told(([-128, -5, 0, 7, 127, 3], 0.5, 3), [[-65.5, -4.0, -1.5, 2.0, 62.0, 0.0]], _FROM_BYTES),
            told(
                ([[1, 2], [3, 4]], [0.5, 2.0], [0, 1]),
                [[[0.5, 2.0], [1.5, 6.0]]],
                {**_FROM_BYTES, "quantization_axis": 1},
            ),
        ],
        bad=[bad("InvalidArgumentError", "one shape", [1], [0.5], 3, **_FROM_BYTES)],
        only=[{"Tin": "qint8", "Tout": "float32"}],
    ),
    OpRecord(
        "UniformQuantizedClipByValue",
        [
            told((_CODES, -4, 100, 0.5, 3), [[[-4, -4, 0], [7, 100, 3]]], _CLIPPED),
            told(
                (_CODES, [-4, 5, 1], [100, 6, 2], [0.5, 0.5, 1.0], [3, 3, 3]),
                [[[-4, 5, 1], [7, 6, 2]]],
                {**_CLIPPED, "quantization_axis": 1},
            ),
        ],
        bad=[bad("InvalidArgumentError", "one shape", _CODES, [-4], 100, 0.5, 3, **_CLIPPED)],
        only=[{"T": "qint32"}],
    ),
]
