"""Ops of one input that work element by element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import special

from tests.oprecords.record import COMPLEX, FLOATS, NUMBERS, REALS, SIGNED, OpRecord, Sample, sample

#: Rank 0, a vector, a matrix without elements, a tensor of rank 3.
ANYWHERE = [
    sample(0.75),
    sample([-3.0, -2.5, -1.5, -1.0, -0.5, -0.0, 0.0, 0.25, 0.5, 1.0, 1.5, 2.5, 3.0]),
    sample(np.zeros((2, 0))),
    sample(np.linspace(-2, 2, 12).reshape(2, 3, 2)),
]
POSITIVE = [sample(0.75), sample([0.25, 0.5, 1.0, 1.5, 2.5, 7.0, 100.0]), sample(np.zeros((0, 3)))]
UNIT = [sample(0.5), sample([[-0.9, -0.5, 0.0], [0.25, 0.5, 0.9]]), sample(np.zeros(0))]
SPECIAL = [sample([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0]), sample(np.zeros((0, 2)))]
_FLOATING = (*FLOATS, *COMPLEX)


def _unary(
    op: str,
    reference: Callable[..., Any],
    samples: Sequence[Sample] = ANYWHERE,
    dtypes: Sequence[str] | None = None,
    *,
    loose: float = 1.0,
    differentiable: bool = True,
) -> OpRecord:
    named = {} if dtypes is None else {"T": dtypes}
    return OpRecord(op, samples, reference, dtypes=named, loose=loose, differentiable=differentiable)


def _sign(x: Any) -> Any:
    return np.where(x == 0, 0, x / np.where(x == 0, 1, np.abs(x))) if x.dtype.kind == "c" else np.sign(x)


def _away_from_zero(values: Sequence[float]) -> list[Sample]:
    return [sample(values), sample(values[0]), sample(np.zeros((0,)))]


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _selu(x: Any) -> Any:
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    return scale * np.where(x > 0, x, alpha * np.expm1(x))


def _leaky(x: Any, *, alpha: float) -> Any:
    return np.where(x > 0, x, x * alpha)


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

RECORDS = [
    _unary("Abs", np.abs),
    _unary("Neg", np.negative),
    _unary("Sign", _sign),
    _unary("Square", np.square),
    _unary("Sqrt", np.sqrt, POSITIVE),
    _unary("Rsqrt", lambda x: 1 / np.sqrt(x), POSITIVE, loose=2),
    _unary("Exp", np.exp, loose=3),
    _unary("Expm1", np.expm1, loose=3),
    _unary("Log", np.log, POSITIVE),
    _unary("Log1p", np.log1p, POSITIVE),
    _unary("Sin", np.sin),
    _unary("Cos", np.cos),
    _unary("Tan", np.tan, UNIT, loose=3),
    _unary("Asin", np.arcsin, UNIT),
    _unary("Acos", np.arccos, UNIT),
    _unary("Atan", np.arctan),
    _unary("Sinh", np.sinh, loose=3),
    _unary("Cosh", np.cosh, loose=3),
    _unary("Tanh", np.tanh),
    _unary("Asinh", np.arcsinh),
    _unary("Acosh", np.arccosh, [sample([1.0, 1.5, 4.0]), sample(2.0), sample(np.zeros((0, 1)))]),
    _unary("Atanh", np.arctanh, UNIT, loose=2),
    _unary("Sigmoid", _sigmoid),
    _unary("Erf", special.erf),
    _unary("Erfc", special.erfc),
    _unary("Lgamma", special.gammaln, POSITIVE, loose=2),
    _unary("Digamma", special.digamma, POSITIVE, loose=2),
    _unary("BesselI0e", special.i0e),
    _unary("BesselI1e", special.i1e),
    _unary("Floor", np.floor, differentiable=False),
    _unary("Ceil", np.ceil, differentiable=False),
    _unary("Rint", np.rint, differentiable=False),
    _unary("Round", np.rint, differentiable=False),
    _unary("IsNan", np.isnan, SPECIAL, differentiable=False),
    _unary("IsInf", np.isinf, SPECIAL, differentiable=False),
    _unary("IsFinite", np.isfinite, SPECIAL, differentiable=False),
    _unary("Inv", np.reciprocal, _away_from_zero(_ONES)),
    _unary("Reciprocal", np.reciprocal, _away_from_zero(_ONES)),
    _unary("Invert", np.invert, [sample([0, 1, -1, 100]), sample(np.zeros((2, 0)))], differentiable=False),
    OpRecord("PopulationCount", [sample([0, 1, 7, -1, 100]), sample(3)], _bits_set),
    OpRecord("LogicalNot", [sample([True, False]), sample(True), sample(np.zeros((0,)))], np.logical_not),
    *[
        OpRecord(op, [sample([1 + 2j, -3j, -1 + 0.5j]), sample(1j)], reference, only=_PARTS)
        for op, reference in _PART_OPS.items()
    ],
    _unary("Conj", np.conj, [sample([3 + 4j, -3j])], COMPLEX),
    _unary("Relu", lambda x: np.maximum(x, 0), dtypes=REALS),
    _unary("Relu6", lambda x: np.clip(x, 0, 6), [*ANYWHERE, sample([5.0, 6.0, 7.0])], REALS),
    _unary("Elu", lambda x: np.where(x > 0, x, np.expm1(x))),
    _unary("Selu", _selu),
    OpRecord("LeakyRelu", [*ANYWHERE, sample([-2.0, 2.0], alpha=0.5)], _leaky, differentiable=True),
    _unary("Softplus", lambda x: np.logaddexp(x, 0), [*ANYWHERE, sample([-50.0, 50.0])]),
    _unary("Softsign", lambda x: x / (1 + np.abs(x))),
    _unary("OnesLike", lambda x: np.ones(x.shape), differentiable=False),
    _unary("ZerosLike", lambda x: np.zeros(x.shape), differentiable=False),
    *[
        _unary(op, lambda x: x)
        for op in (
            "Identity",
            "StopGradient",
            "PreventGradient",
            "Snapshot",
            "DeepCopy",
            "GuaranteeConst",
            "DebugGradientIdentity",
        )
    ],
    OpRecord(
        "Cast",
        [
            sample([[-3.7, -1.0, 0.0], [0.5, 1.0, 100.25]]),
            sample(2.5),
            sample(np.zeros((0, 4))),
            sample([True, False], SrcT="bool", DstT="float32"),
            sample([0.0, 0.5], SrcT="float32", DstT="bool"),
        ],
        lambda x: x.real,
        dtypes={"SrcT": NUMBERS, "DstT": (*FLOATS, *SIGNED)},
        differentiable=True,
    ),
]
