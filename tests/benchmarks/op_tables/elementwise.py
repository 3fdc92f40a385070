"""Ops that go element by element, products and reductions."""

from __future__ import annotations

from typing import Final

import numpy as np

from tests.benchmarks.op_tables.bench import One, binary, called, images, kept, matrix, named, unary


def _reduce(op: str) -> One:
    return kept(
        lambda b, n: (b.floats(matrix(n), matrix(n)), b.graph.constant([0])),
        called(op),
    )


def _integers(op: str) -> One:
    return kept(lambda b, n: (b.integers(n), b.integers(n)), called(op))


def _truths(op: str) -> One:
    return kept(lambda b, n: (b.truths(n), b.truths(n)), called(op))


def _along(op: str) -> One:
    return kept(lambda b, n: (b.floats(matrix(n), matrix(n)), b.graph.constant(1)), called(op))


OPS: Final[dict[str, One]] = {
    **named(
        binary,
        "Mul Add Sub AddV2 RealDiv Maximum Minimum Less LessEqual Greater GreaterEqual Equal DivNoNan Pow "
        "SquaredDifference TanhGrad SigmoidGrad RsqrtGrad",
    ),
    **named(
        unary,
        "Identity L2Loss Sigmoid Tanh Neg Square Sqrt Rsqrt Exp Log Log1p Reciprocal Abs Floor ZerosLike "
        "Relu Relu6 Elu LeakyRelu Erf",
    ),
    "Cast": unary("Cast", DstT="float64"),
    **named(_integers, "FloorMod FloorDiv"),
    "LogicalAnd": _truths("LogicalAnd"),
    "LogicalNot": kept(lambda b, n: (b.truths(n),), called("LogicalNot")),
    "ReluGrad": binary("ReluGrad"),
    "AddN": kept(
        lambda b, n: (b.floats(n), b.floats(n), b.floats(n)), lambda b, x, y, z: b.ops.AddN([x, y, z])
    ),
    "Select": kept(
        lambda b, n: (b.variable(np.arange(n) % 3 == 0), b.floats(n), b.floats(n)), called("Select")
    ),
    "SelectV2": kept(
        lambda b, n: (b.variable(np.arange(n) % 3 == 0), b.floats(n), b.floats(n)), called("SelectV2")
    ),
    **named(_reduce, "Sum Prod Mean Max Min"),
    "All": kept(lambda b, n: (b.truths(matrix(n), matrix(n)), b.graph.constant([0])), called("All")),
    **named(_along, "ArgMax Cumsum"),
    "UnsortedSegmentSum": kept(
        lambda b, n: (
            b.floats(n // 16, 16),
            b.integers(n // 16, below=max(n // 64, 1), least=0),
            n // 64 + 1,
        ),
        called("UnsortedSegmentSum"),
    ),
    "SparseSegmentSum": kept(
        lambda b, n: (
            b.floats(n // 16, 16),
            b.integers(n // 16, below=max(n // 16, 1), least=0),
            b.variable(np.arange(n // 16, dtype=np.int32) // 4),
        ),
        called("SparseSegmentSum"),
    ),
    "MatMul": kept(
        lambda b, n: (b.floats(matrix(n), matrix(n)), b.floats(matrix(n), matrix(n))), called("MatMul")
    ),
    "BatchMatMulV2": kept(lambda b, n: (images(b, n), images(b, n)), called("BatchMatMulV2", adj_y=True)),
}
