"""Matrices of three diagonals.

Element i of a diagonal stands in row i of the matrix: at (i, i + 1), (i, i) and (i, i - 1). So the last of
the upper and the first of the lower one count for nothing.
"""

from __future__ import annotations

import numpy as np

from flowengine.gradients.matrices import part, turned
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor


def _next_row(b: Backward, x: Tensor) -> Tensor:
    """Row i + 1 at place i, zeros at the last one."""
    rest, lost = part(b, x, rows=(1, None)), part(b, x, rows=(0, 1))
    result: Tensor = b.ops.ConcatV2([rest, b.ops.ZerosLike(lost)], np.int32(-2))
    return result


def _row_before(b: Backward, x: Tensor) -> Tensor:
    """Row i - 1 at place i, zeros at the first one."""
    rest, lost = part(b, x, rows=(0, -1)), part(b, x, rows=(-1, None))
    result: Tensor = b.ops.ConcatV2([b.ops.ZerosLike(lost), rest], np.int32(-2))
    return result


def _of_diagonals(b: Backward, left: Tensor, x: Tensor) -> list[Tensor]:
    """The upper, main and lower diagonal (..., M) of L X^H, for L and X (..., M, K)."""
    conjugate = b.real_or_conj(x)
    sides = (_next_row(b, conjugate), conjugate, _row_before(b, conjugate))
    return [b.ops.Sum(b.ops.Mul(left, side), np.int32(-1)) for side in sides]


@gradient("TridiagonalSolve")
def tridiagonal_solve(b: Backward, op: Operation, grad: Tensor) -> Results:
    """H = A^-H G for the right-hand side, and the three diagonals of -H X^H."""
    diagonals, _ = op.inputs
    upper, main, lower = (turned(b, part(b, b.real_or_conj(diagonals), rows=(i, i + 1))) for i in range(3))
    across = b.ops.ConcatV2([_next_row(b, lower), main, _row_before(b, upper)], np.int32(-1))
    of_right = b.ops.TridiagonalSolve(
        turned(b, across),
        grad,
        partial_pivoting=op.get_attr("partial_pivoting"),
        perturb_singular=op.node.attrs.get("perturb_singular", False),
    )
    found = _of_diagonals(b, b.ops.Neg(of_right), op.outputs[0])
    return [b.ops.Pack(found, axis=-2), of_right]


@gradient("TridiagonalMatMul")
def tridiagonal_mat_mul(b: Backward, op: Operation, grad: Tensor) -> Results:
    upper, main, lower, right = op.inputs
    above, here, below = (turned(b, each, conjugate=True) for each in (upper, main, lower))
    of_right = b.ops.AddN(
        [
            _row_before(b, b.ops.Mul(above, grad)),
            b.ops.Mul(here, grad),
            _next_row(b, b.ops.Mul(below, grad)),
        ]
    )
    found = [b.ops.ExpandDims(each, np.int32(-2)) for each in _of_diagonals(b, grad, right)]
    return [*found, of_right]
