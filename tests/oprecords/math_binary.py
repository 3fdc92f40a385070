"""Ops of two or more inputs that work element by element and broadcast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import special

from tests.oprecords.record import (
    COMPLEX,
    FLOATS,
    REALS,
    BadSample,
    OpRecord,
    Sample,
    bad,
    sample,
    strings,
)

PAIRS = [
    sample(3.0, 2.0),
    sample([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]], [[2.0], [-3.0]]),
    sample([7.0, -7.0, 7.0, -7.0], [2.0, 2.0, -2.0, -2.0]),
    sample([1.0, 2.0], 2.0),
    sample(np.zeros((2, 0, 3)), np.ones((1, 3))),
]
POSITIVE = [
    sample([0.5, 1.0, 2.0, 3.0], [2.0, 0.5, 3.0, 1.0]),
    sample(2.0, [1.0, 3.0]),
    sample(np.ones((0,)), 2.0),
]
WITH_ZEROS = [sample([0.0, 2.0, 0.0, -3.0], [0.0, 0.0, 5.0, 2.0]), sample(np.zeros((0,)), 1.0)]
_MISFIT = bad("InvalidArgumentError", "[2] vs. [3]", [1.0, 2.0], [1.0, 2.0, 3.0])
_NO_DIVISOR = bad("InvalidArgumentError", "zero", [1, 2], [1, 0], T="int32")


def _binary(
    op: str,
    reference: Callable[..., Any],
    samples: Sequence[Sample] = PAIRS,
    dtypes: Sequence[str] | None = None,
    *more_bad: BadSample,
    loose: float = 1.0,
    differentiable: bool = True,
) -> OpRecord:
    named = {} if dtypes is None else {"T": dtypes}
    return OpRecord(
        op, samples, reference, (_MISFIT, *more_bad), named, loose=loose, differentiable=differentiable
    )


def _compare(op: str, reference: Callable[..., Any]) -> OpRecord:
    return _binary(op, reference, differentiable=False)


def _truncated_div(x: Any, y: Any) -> Any:
    if x.dtype.kind in "iu":
        quotient = np.abs(x.astype(np.int64)) // np.abs(y.astype(np.int64))
        return np.where((x < 0) != (y < 0), -quotient, quotient)
    return np.trunc(x / y) if x.dtype.kind == "f" else x / y


def _div(x: Any, y: Any) -> Any:
    return _truncated_div(x, y) if x.dtype.kind in "iu" else x / y


def _no_nan(x: Any, y: Any) -> Any:
    return np.where(y == 0, 0, x / np.where(y == 0, 1, y))


def _mul_no_nan(x: Any, y: Any) -> Any:
    return np.where(y == 0, 0, x * y)


def _xlogy(x: Any, y: Any) -> Any:
    return np.where(x == 0, 0, x * np.log(np.where(x == 0, 1, y)))


def _xdivy(x: Any, y: Any) -> Any:
    return np.where(x == 0, 0, x / np.where((x == 0) & (y == 0), 1, y))


def _squared_difference(x: Any, y: Any) -> Any:
    return (x - y) * np.conj(x - y)


def _near(x: Any, y: Any, *, tolerance: float) -> Any:
    # As recorded from TensorFlow 1.15: the bound itself is near for floats, not for integers.
    distance = np.abs(x - y)
    return distance < int(tolerance) if x.dtype.kind == "i" else distance <= tolerance


def _select(c: Any, t: Any, e: Any) -> Any:
    if c.ndim == 1 and t.ndim > 1:
        c = c.reshape((-1,) + (1,) * (t.ndim - 1))
    return np.where(c, t, e)


_BITS = [sample([5, 3, -1], [1, 6, 7]), sample([[12], [10]], 6), sample(np.zeros((0,)), 1)]
_SHIFTS = [sample([1, 2, 3, -8], [0, 1, 2, 3]), sample(64, [0, 1, 2])]
_TRUTHS = [sample([True, False, True], [[True], [False]]), sample(True, False), sample(np.zeros((0,)), True)]

RECORDS = [
    _binary(
        "Add",
        np.add,
        [*PAIRS, Sample((strings(b"a", b"b"), strings(b"x", b"")), {"T": "string"}, [strings(b"ax", b"b")])],
    ),
    _binary("AddV2", np.add),
    _binary("Sub", np.subtract),
    _binary("Mul", np.multiply),
    _binary("Div", _div, PAIRS, None, _NO_DIVISOR, loose=2),
    _binary("RealDiv", _div, PAIRS, (*FLOATS, *COMPLEX), loose=2),
    _binary(
        "FloorDiv",
        lambda x, y: x / y if x.dtype.kind == "c" else np.floor_divide(x, y),
        PAIRS,
        REALS[:-2],
        _NO_DIVISOR,
    ),
    _binary(
        "TruncateDiv",
        _truncated_div,
        PAIRS,
        ("int32", "int64", "int8", "int16", "uint8", "uint16"),
        _NO_DIVISOR,
        differentiable=False,
    ),
    _binary("FloorMod", np.mod, PAIRS, None, _NO_DIVISOR),
    _binary("Mod", np.fmod, PAIRS, None, _NO_DIVISOR, differentiable=False),
    _binary("TruncateMod", np.fmod, PAIRS, None, _NO_DIVISOR, differentiable=False),
    _binary("DivNoNan", _no_nan, [*PAIRS, *WITH_ZEROS]),
    _binary(
        "MulNoNan", _mul_no_nan, [*PAIRS, *WITH_ZEROS, sample([np.inf, np.nan], [0.0, 0.0], T="float32")]
    ),
    _binary("Maximum", np.maximum),
    _binary("Minimum", np.minimum),
    _binary(
        "Pow",
        np.power,
        POSITIVE,
        None,
        bad("InvalidArgumentError", "negative integer powers", [2, 3], [1, -2], T="int32"),
        loose=3,
    ),
    _binary("SquaredDifference", _squared_difference),
    _binary("Atan2", np.arctan2),
    _binary("Xlogy", _xlogy, [*POSITIVE, sample([0.0, 0.0, 2.0], [0.0, -1.0, 3.0])]),
    _binary("Xdivy", _xdivy, [*POSITIVE, sample([0.0, 0.0, 2.0], [0.0, -1.0, 4.0])]),
    _binary("Igamma", special.gammainc, POSITIVE, loose=5),
    _binary("Igammac", special.gammaincc, POSITIVE, loose=5),
    _binary("Zeta", special.zeta, [sample([2.0, 3.0], [1.0, 0.5]), sample(np.ones((0,)), 1.0)], loose=5),
    _binary(
        "Polygamma",
        lambda n, x: special.polygamma(n.astype(int), x),
        [sample([1.0, 2.0], [1.5, 0.5])],
        loose=20,
    ),
    _binary("BitwiseAnd", np.bitwise_and, _BITS, differentiable=False),
    _binary("BitwiseOr", np.bitwise_or, _BITS, differentiable=False),
    _binary("BitwiseXor", np.bitwise_xor, _BITS, differentiable=False),
    _binary("LeftShift", np.left_shift, _SHIFTS, differentiable=False),
    _binary("RightShift", np.right_shift, _SHIFTS, differentiable=False),
    _compare("Equal", np.equal),
    _compare("NotEqual", np.not_equal),
    _compare("Less", np.less),
    _compare("LessEqual", np.less_equal),
    _compare("Greater", np.greater),
    _compare("GreaterEqual", np.greater_equal),
    OpRecord("LogicalAnd", _TRUTHS, np.logical_and),
    OpRecord("LogicalOr", _TRUTHS, np.logical_or),
    OpRecord(
        "ApproximateEqual",
        [
            sample([1.0, 2.0, 3.0], [1.0, 2.5, 3.25], tolerance=0.375),
            sample([1.0, 1.0], [1.0, 2.0], tolerance=1.0),
        ],
        _near,
        [bad("InvalidArgumentError", "", [1.0, 2.0], [1.0, 2.0, 3.0])],
        {"T": ("float32", "float64", "int32")},
    ),
    OpRecord(
        "Complex",
        [sample([1.0, -2.0], [0.5, 3.0]), sample(1.0, [2.0, 3.0])],
        lambda re, im: re + 1j * im,
        only=[{"T": "float32", "Tout": "complex64"}, {"T": "float64", "Tout": "complex128"}],
    ),
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
        "Betainc",
        [sample([1.0, 2.0], [2.0, 0.5], [0.25, 0.75]), sample(np.ones((0,)), np.ones((0,)), np.ones((0,)))],
        special.betainc,
        loose=10,
    ),
    OpRecord(
        "NextAfter",
        [sample([1.0, -1.0, 0.0], [2.0, 2.0, -1.0]), sample(1.0, [1.0, 0.0])],
        dtypes={"T": ("float32", "float64")},
        check=lambda outputs, inputs: np.testing.assert_array_equal(outputs[0], np.nextafter(*inputs)),
    ),
    OpRecord(
        "ClipByValue",
        [sample([[-3.0, 0.5], [2.0, 9.0]], 0.0, 2.0), sample(np.zeros((0,)), 0.0, 1.0)],
        lambda x, low, high: np.minimum(np.maximum(x, low), high),
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
