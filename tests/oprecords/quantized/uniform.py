"""Codes by scales and zero points: what TensorFlow 2.21 gave."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, told

_NUMBERS: Final = [-3.0, -0.5, -0.25, 0.25, 0.5, 0.75, 1.5, 100.0]
_BYTES: Final[dict[str, Any]] = {"quantization_min_val": -128, "quantization_max_val": 127}
_WORDS: Final[dict[str, Any]] = {"quantization_min_val": -(2**31), "quantization_max_val": 2**31 - 1}
_TO_BYTES: Final[dict[str, Any]] = {"Tin": "float32", "Tout": "qint8", **_BYTES}
_FROM_BYTES: Final[dict[str, Any]] = {"Tin": "qint8", "Tout": "float32", **_BYTES}
_CLIPPED: Final[dict[str, Any]] = {"T": "qint32", **_WORDS}
_CODES: Final = [[-128, -5, 0], [7, 127, 3]]
_COLUMNS: Final = [[1, -2], [50, 4], [-128, 127]]
_PLAIN: Final = (0.5, 3, 0.5, 3, 0.5, 3)
_HUNDREDS: Final[dict[str, Any]] = {"quantization_min_val": -100, "quantization_max_val": 100}


def _of(name: str, attrs: dict[str, Any]) -> dict[str, Any]:
    return {f"{name}_{key}": value for key, value in attrs.items()}


def _on(axis: int, *names: str) -> dict[str, int]:
    return {f"{name}_quantization_axis": axis for name in names}


_TO_CODES: Final = {"Tin": "qint32", "Tout": "qint8", **_of("input", _WORDS), **_of("output", _BYTES)}
_SUMS: Final = {"T": "qint32", **_of("lhs", _WORDS), **_of("rhs", _WORDS), **_of("output", _WORDS)}
_PRODUCTS: Final = {
    "Tin": "qint8",
    "Tout": "qint32",
    **_of("lhs", _BYTES),
    **_of("rhs", _BYTES),
    **_of("output", _WORDS),
}
_HYBRID: Final = {"Tlhs": "float32", "Trhs": "qint8", "Tout": "float32", **_of("rhs", _BYTES)}

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
    OpRecord(
        "UniformRequantize",
        [
            told(
                (_CODES, 0.5, 3, 0.75, -4),
                [[[-91, -9, -6], [-1, 79, -4]]],
                {"Tin": "qint8", "Tout": "qint8", **_of("input", _BYTES), **_of("output", _BYTES)},
            ),
            told(
                (_CODES, [0.5, 0.25, 3.0], [3, 0, -1], [0.25, 2.0, 0.3], [-4, 1, 0]),
                [[[-100, 0, 10], [4, 17, 40]]],
                {**_TO_CODES, **_of("output", _HUNDREDS), **_on(1, "input", "output")},
            ),
            told(
                (_CODES, [0.5, 1e-12], [3, 0], 1.0, 2),
                [[[-63, -2, 1], [2, 2, 2]]],
                {**_TO_CODES, **_on(0, "input")},
            ),
        ],
        bad=[
            bad(
                "InvalidArgumentError",
                "must be equal",
                _CODES,
                [0.5, 0.5],
                [3, 3],
                [0.5, 0.5, 0.5],
                [3, 3, 3],
                **_TO_CODES,
                input_quantization_axis=0,
                output_quantization_axis=1,
            )
        ],
        only=[{"Tin": "qint32", "Tout": "qint8"}],
    ),
    OpRecord(
        "UniformQuantizedAdd",
        [
            told(
                (_CODES, [[10, 20, 30], [4, 5, 6]], 0.5, 3, 0.3, -1, 0.2, 7),
                [[[-300, 19, 47], [25, 300, 18]]],
                {**_SUMS, "output_quantization_min_val": -300, "output_quantization_max_val": 300},
            ),
            told(
                (
                    *(_CODES, [10, 20, 30], [0.5, 1.0, 2.0], [3, 0, 1], [0.3, 1.0, 1.0], [-1, 0, 0]),
                    *([0.2, 0.3, 0.4], [7, 0, 0]),
                ),
                [[[-303, 50, 70], [34, 490, 85]]],
                {**_SUMS, **_on(1, "lhs", "output"), **_on(0, "rhs")},
            ),
        ],
        bad=[bad("InvalidArgumentError", "one shape", [1], [2], [0.5], 3, 0.5, 3, 0.5, 3, **_SUMS)],
        only=[{"T": "qint32"}],
    ),
    OpRecord(
        "UniformQuantizedDot",
        [
            told((_CODES, _COLUMNS, 0.5, 3, 0.3, -1, 0.2, 7), [[[-210, -213], [4756, 469]]], _PRODUCTS),
            told(
                (_CODES, _COLUMNS, 0.5, 3, [0.3, 2.0], [-1, 5], [0.2, 1.0], [7, 0]),
                [[[-210, 559], [4756, -152]]],
                {**_PRODUCTS, **_on(1, "rhs", "output")},
            ),
        ],
        bad=[
            bad("InvalidArgumentError", "[2,3]", _CODES, _CODES, *_PLAIN, **_PRODUCTS),
            bad(
                *("InvalidArgumentError", "where output_quantization_axis"),
                *(_CODES, _COLUMNS, 0.5, 3, 0.5, 3, [0.5, 0.5], [3, 3]),
                **{**_PRODUCTS, **_on(1, "output")},
            ),
            bad(
                *("InvalidArgumentError", "must be -1, but is 0", _CODES, _COLUMNS, *_PLAIN),
                **{**_PRODUCTS, **_on(0, "lhs")},
            ),
        ],
        only=[{"Tin": "qint8", "Tout": "qint32"}],
    ),
    OpRecord(
        "UniformQuantizedDotHybrid",
        [
            told(
                ([[1.5, -2.25, 3.0], [0.0, 0.0, 0.0]], _COLUMNS, [0.5, 2.0], [-1, 5]),
                [[[-246.59559631347656, 716.8823852539062], [0.0, 0.0]]],
                {**_HYBRID, **_on(1, "rhs")},
            ),
            told(
                ([[0.5, 0.25, 7.0], [-1.0, -2.0, -3.0]], _COLUMNS, [0.5, 2.0], [-1, 5]),
                [[[-437.70587158203125, 1700.5882568359375], [138.5, -714.0]]],
                {**_HYBRID, **_on(1, "rhs")},
            ),
            told(([[], []], np.zeros((0, 2)), 0.5, 3), [[[0.0, 0.0], [0.0, 0.0]]], _HYBRID),
        ],
        bad=[
            bad("InvalidArgumentError", "[2,3]", _CODES, _CODES, 0.5, 3, **_HYBRID),
            bad(
                *("InvalidArgumentError", "must be -1 or 1, but is 0", _CODES, _COLUMNS, [0.5], [3]),
                **{**_HYBRID, **_on(0, "rhs")},
            ),
        ],
        only=[{"Tlhs": "float32", "Trhs": "qint8", "Tout": "float32"}],
    ),
]
