"""Variables, what is scattered into them, and optimizers' steps."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.benchmarks.op_tables.bench import Bench, One, called, kept, named, rows


def _updated(count: int, numbers: int) -> Any:
    """So many variables, so many numbers, and a gradient."""
    return lambda b, n: ([b.floats(n) for _ in range(count)], [0.01] * numbers, b.floats(n))


def _applied(op: str, count: int, numbers: int) -> One:
    return kept(
        _updated(count, numbers),
        lambda b, variables, given, gradient: getattr(b.ops, op)(*variables, *given, gradient),
    )


def _scattered(b: Bench, n: int) -> tuple[Any, ...]:
    variable, places = rows(b, n)
    return variable, places, b.floats(max(n // 64, 1), 16)


OPS: Final[dict[str, One]] = {
    **named(
        lambda op: kept(lambda b, n: (b.floats(n), b.floats(n)), called(op)), "Assign AssignAdd AssignSub"
    ),
    **named(lambda op: kept(_scattered, called(op)), "ScatterAdd ScatterSub ScatterUpdate"),
    "ApplyGradientDescent": _applied("ApplyGradientDescent", 1, 1),
    "ApplyAdagrad": _applied("ApplyAdagrad", 2, 1),
    "ApplyMomentum": kept(
        _updated(2, 1), lambda b, v, given, gradient: b.ops.ApplyMomentum(*v, *given, gradient, 0.9)
    ),
    "ApplyAdam": _applied("ApplyAdam", 3, 6),
    "ApplyRMSProp": _applied("ApplyRMSProp", 3, 4),
    "SparseApplyAdagrad": kept(
        lambda b, n: (b.floats(max(n // 16, 2), 16), *_scattered(b, n)),
        lambda b, total, variable, places, gradient: b.ops.SparseApplyAdagrad(
            variable, total, 0.01, gradient, places
        ),
    ),
    "RandomUniform": kept(
        lambda b, n: (b.variable(np.array([n], np.int32)),),
        lambda b, s: b.ops.RandomUniform(s, dtype="float32", seed=1),
    ),
    "TruncatedNormal": kept(
        lambda b, n: (b.variable(np.array([n], np.int32)),),
        lambda b, s: b.ops.TruncatedNormal(s, dtype="float32", seed=1),
    ),
}
