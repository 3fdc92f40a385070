"""Elementwise arithmetic of two tensors and more, division and remainders."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.elementwise import PAIRS, POSITIVE_PAIRS, WITH_ZEROS, binary
from tests.oprecords.record import COMPLEX, FLOATS, REALS, OpRecord, Sample, bad, sample, strings

# Elementwise arithmetic of two tensors and more.


def _mul_no_nan(x: Any, y: Any) -> Any:
    return np.where(y == 0, 0, x * y)


def _xlogy(x: Any, y: Any) -> Any:
    return np.where(x == 0, 0, x * np.log(np.where(x == 0, 1, y)))


def _xlog1py(x: Any, y: Any) -> Any:
    return np.where(x == 0, 0, x * np.log1p(np.where(x == 0, 1, y)))


def _xdivy(x: Any, y: Any) -> Any:
    return np.where(x == 0, 0, x / np.where((x == 0) & (y == 0), 1, y))


def _squared_difference(x: Any, y: Any) -> Any:
    return (x - y) * np.conj(x - y)


def _select(c: Any, t: Any, e: Any) -> Any:
    if c.ndim == 1 and t.ndim > 1:
        c = c.reshape((-1,) + (1,) * (t.ndim - 1))
    return np.where(c, t, e)


_BITS = [sample([5, 3, -1], [1, 6, 7]), sample([[12], [10]], 6), sample(np.zeros((0,)), 1)]
_SHIFTS = [sample([1, 2, 3, -8], [0, 1, 2, 3]), sample(64, [0, 1, 2])]

_OF_BINARY: Final = [
    binary(
        "Add",
        np.add,
        [*PAIRS, Sample((strings(b"a", b"b"), strings(b"x", b"")), {"T": "string"}, [strings(b"ax", b"b")])],
    ),
    binary("AddV2", np.add),
    binary("Sub", np.subtract),
    binary("Mul", np.multiply),
    binary("MulNoNan", _mul_no_nan, [*PAIRS, *WITH_ZEROS, sample([np.inf, np.nan], [0.0, 0.0], T="float32")]),
    binary("Maximum", np.maximum),
    binary("Minimum", np.minimum),
    binary(
        "Pow",
        np.power,
        POSITIVE_PAIRS,
        None,
        bad("InvalidArgumentError", "negative integer powers", [2, 3], [1, -2], T="int32"),
        loose=3,
    ),
    binary("SquaredDifference", _squared_difference),
    binary("Atan2", np.arctan2),
    binary("Xlogy", _xlogy, [*POSITIVE_PAIRS, sample([0.0, 0.0, 2.0], [0.0, -1.0, 3.0])]),
    binary("Xlog1py", _xlog1py, [*POSITIVE_PAIRS, sample([0.0, 0.0, 2.0], [-1.0, -2.0, 3.0])]),
    binary("Xdivy", _xdivy, [*POSITIVE_PAIRS, sample([0.0, 0.0, 2.0], [0.0, -1.0, 4.0])]),
    binary("BitwiseAnd", np.bitwise_and, _BITS, differentiable=False),
    binary("BitwiseOr", np.bitwise_or, _BITS, differentiable=False),
    binary("BitwiseXor", np.bitwise_xor, _BITS, differentiable=False),
    binary("LeftShift", np.left_shift, _SHIFTS, differentiable=False),
    binary("RightShift", np.right_shift, _SHIFTS, differentiable=False),
    OpRecord(
        "Select",
        [
            sample([True, False], [1.0, 2.0], [3.0, 4.0]),
            sample([True, False], [[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]),
            sample(True, [1.0, 2.0], [3.0, 4.0]),
            sample(np.zeros((0,)), np.zeros((0, 2)), np.zeros((0, 2))),
        ],
        _select,
        [
            bad("InvalidArgumentError", "[3]", [True, False], [1.0, 2.0], [1.0, 2.0, 3.0]),
            bad("InvalidArgumentError", "[3]", [True, False, True], [1.0, 2.0], [1.0, 2.0]),
        ],
        differentiable=True,
    ),
    OpRecord(
        "SelectV2",
        [
            sample([[True], [False]], [1.0, 2.0], 9.0),
            sample(False, 1.0, 2.0),
            sample(np.zeros((0,)), 1.0, 2.0),
        ],
        np.where,
        [bad("InvalidArgumentError", "[3]", [True, False], 1.0, [1.0, 2.0, 3.0])],
        differentiable=True,
    ),
    OpRecord(
        "NextAfter",
        [sample([1.0, -1.0, 0.0], [2.0, 2.0, -1.0]), sample(1.0, [1.0, 0.0])],
        dtypes={"T": ("float32", "float64")},
        check=lambda outputs, inputs: np.testing.assert_array_equal(outputs[0], np.nextafter(*inputs)),
        differentiable=True,
    ),
    OpRecord(
        "ClipByValue",
        [
            sample([[-3.0, 0.5], [2.0, 9.0]], 0.0, 2.0),
            sample(np.zeros((0,)), 0.0, 1.0),
            sample([1.0, 5.0, 9.0], 7.0, 3.0),
        ],
        lambda x, low, high: np.maximum(np.minimum(x, high), low),
        dtypes={"T": REALS},
        differentiable=True,
    ),
    OpRecord(
        "AddN",
        [sample([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), sample([2.0]), sample([np.zeros((0, 1))] * 2)],
        lambda xs: sum(xs[1:], xs[0]),
        [bad("InvalidArgumentError", "[2]", [[1.0], [1.0, 2.0]])],
        differentiable=True,
    ),
    OpRecord(
        "AccumulateNV2",
        [sample([[1.0, 2.0], [3.0, 4.0]], shape=[2])],
        lambda xs: sum(xs[1:], xs[0]),
        differentiable=True,
    ),
]


# Division and remainders.

_NO_DIVISOR = bad("InvalidArgumentError", "zero", [1, 2], [1, 0], T="int32")
_NO_DIVISOR_TRUNCATED = bad("InternalError", "zero", [1, 2], [1, 0], T="int32")


def _truncated_div(x: Any, y: Any) -> Any:
    if x.dtype.kind in "iu":
        quotient = np.abs(x.astype(np.int64)) // np.abs(y.astype(np.int64))
        return np.where((x < 0) != (y < 0), -quotient, quotient)
    return np.trunc(x / y) if x.dtype.kind == "f" else x / y


def _div(x: Any, y: Any) -> Any:
    return _truncated_div(x, y) if x.dtype.kind in "iu" else x / y


def _no_nan(x: Any, y: Any) -> Any:
    return np.where(y == 0, 0, x / np.where(y == 0, 1, y))


_OF_DIVISION: Final = [
    binary("Div", _div, PAIRS, None, _NO_DIVISOR, loose=2),
    binary("RealDiv", _div, PAIRS, (*FLOATS, *COMPLEX), loose=2),
    binary(
        "FloorDiv",
        lambda x, y: x / y if x.dtype.kind == "c" else np.floor_divide(x, y),
        PAIRS,
        REALS[:-2],
        _NO_DIVISOR,
        differentiable=False,
    ),
    binary(
        "TruncateDiv",
        _truncated_div,
        PAIRS,
        ("int32", "int64", "int8", "int16", "uint8", "uint16"),
        _NO_DIVISOR_TRUNCATED,
        differentiable=False,
    ),
    binary("FloorMod", np.mod, PAIRS, None, _NO_DIVISOR),
    binary("Mod", np.fmod, PAIRS, None, _NO_DIVISOR, differentiable=True),
    binary("TruncateMod", np.fmod, PAIRS, None, _NO_DIVISOR_TRUNCATED, differentiable=True),
    binary("DivNoNan", _no_nan, [*PAIRS, *WITH_ZEROS]),
]


RECORDS: Final = [*_OF_BINARY, *_OF_DIVISION]
