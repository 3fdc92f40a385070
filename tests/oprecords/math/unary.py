"""Elementwise functions of one tensor, and their gradients that are ops of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tests.oprecords.elementwise import SMALL_GRADS, gradient, unary
from tests.oprecords.record import COMPLEX, OpRecord, Sample, sample

# Elementwise functions of one tensor.

POSITIVE = [sample(0.75), sample([0.25, 0.5, 1.0, 1.5, 2.5, 7.0, 100.0]), sample(np.zeros((0, 3)))]
UNIT = [sample(0.5), sample([[-0.9, -0.5, 0.0], [0.25, 0.5, 0.9]]), sample(np.zeros(0))]
SPECIAL = [sample([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0]), sample(np.zeros((0, 2)))]


def _sign(x: Any) -> Any:
    return np.where(x == 0, 0, x / np.where(x == 0, 1, np.abs(x))) if x.dtype.kind == "c" else np.sign(x)


def _away_from_zero(values: Sequence[float]) -> list[Sample]:
    return [sample(values), sample(values[0]), sample(np.zeros((0,)))]


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _bits_set(x: Any) -> Any:
    return np.bitwise_count(x.view(f"u{x.itemsize}"))


_PART_OPS: dict[str, Callable[..., Any]] = {
    "Real": np.real,
    "Imag": np.imag,
    "Angle": np.angle,
    "ComplexAbs": np.abs,
}
_PARTS = [{"T": "complex64", "Tout": "float32"}, {"T": "complex128", "Tout": "float64"}]
_ONES = [1.0, -1.0, 2.0, -4.0]

_OF_UNARY: Final = [
    OpRecord(
        "Complex",
        [sample([1.0, -2.0], [0.5, 3.0]), sample(1.0, [2.0, 3.0])],
        lambda re, im: re + 1j * im,
        only=[{"T": "float32", "Tout": "complex64"}, {"T": "float64", "Tout": "complex128"}],
        differentiable=True,
    ),
    unary("Abs", np.abs),
    unary("Neg", np.negative),
    unary("Sign", _sign),
    unary("Square", np.square),
    unary("Sqrt", np.sqrt, POSITIVE),
    unary("Rsqrt", lambda x: 1 / np.sqrt(x), POSITIVE, loose=2),
    unary("Exp", np.exp, loose=3),
    unary("Expm1", np.expm1, loose=3),
    unary("Log", np.log, POSITIVE),
    unary("Log1p", np.log1p, POSITIVE),
    unary("Sin", np.sin),
    unary("Cos", np.cos),
    unary("Tan", np.tan, UNIT, loose=3),
    unary("Asin", np.arcsin, UNIT),
    unary("Acos", np.arccos, UNIT),
    unary("Atan", np.arctan),
    unary("Sinh", np.sinh, loose=3),
    unary("Cosh", np.cosh, loose=3),
    unary("Tanh", np.tanh),
    unary("Asinh", np.arcsinh),
    unary("Acosh", np.arccosh, [sample([1.0, 1.5, 4.0]), sample(2.0), sample(np.zeros((0, 1)))]),
    unary("Atanh", np.arctanh, UNIT, loose=2),
    unary("Sigmoid", _sigmoid),
    unary("Floor", np.floor, differentiable=False),
    unary("Ceil", np.ceil, differentiable=False),
    unary("Rint", np.rint, differentiable=False),
    unary("Round", np.rint, differentiable=False),
    unary("IsNan", np.isnan, SPECIAL, differentiable=False),
    unary("IsInf", np.isinf, SPECIAL, differentiable=False),
    unary("IsFinite", np.isfinite, SPECIAL, differentiable=False),
    unary("Inv", np.reciprocal, _away_from_zero(_ONES)),
    unary("Reciprocal", np.reciprocal, _away_from_zero(_ONES)),
    unary("Invert", np.invert, [sample([0, 1, -1, 100]), sample(np.zeros((2, 0)))], differentiable=False),
    OpRecord("PopulationCount", [sample([0, 1, 7, -1, 100]), sample(3)], _bits_set),
    OpRecord("LogicalNot", [sample([True, False]), sample(True), sample(np.zeros((0,)))], np.logical_not),
    *[
        OpRecord(
            op, [sample([1 + 2j, -3j, -1 + 0.5j]), sample(1j)], reference, only=_PARTS, differentiable=True
        )
        for op, reference in _PART_OPS.items()
    ],
    unary("Conj", np.conj, [sample([3 + 4j, -3j])], COMPLEX),
]


# Gradients of elementwise functions that are ops of their own.

_OF_GRADIENTS: Final = [
    gradient("SigmoidGrad", lambda y, g: y * (1 - y) * g, SMALL_GRADS),
    gradient("TanhGrad", lambda y, g: (1 - y**2) * g, SMALL_GRADS),
    gradient("SqrtGrad", lambda y, g: g * 0.5 / np.conj(y), [sample([0.5, 2.0], [1.0, -3.0])]),
    gradient(
        "RsqrtGrad", lambda y, g: -0.5 * g * np.conj(y) ** 3, [sample([0.5, 2.0], [1.0, -3.0])], loose=3
    ),
    gradient("InvGrad", lambda y, g: -g * np.conj(y) ** 2, SMALL_GRADS),
    gradient("ReciprocalGrad", lambda y, g: -g * np.conj(y) ** 2, SMALL_GRADS),
]


RECORDS: Final = [*_OF_UNARY, *_OF_GRADIENTS]
