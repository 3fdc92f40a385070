"""Gradients of systems of linear equations, and matrices of three diagonals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flowengine.gradients.backward import Backward
from flowengine.gradients.errors import GradientValueError
from flowengine.gradients.matrices import adjoint, part, product, solved, sum_batches, triangle, turned
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor

# Systems of linear equations.
#
# Of A X = B with the gradient G of X: B gets H = A^-H G, and A gets -H X^H. Of A^H X = B it is H = A^-1 G
# and
# -X H^H.


def _of_matrix(b: Backward, of_right: Tensor, solution: Tensor, is_adjoint: bool) -> Tensor:
    """-H X^H, or its adjoint."""
    pair = (solution, of_right) if is_adjoint else (of_right, solution)
    result: Tensor = b.ops.Neg(product(b, *pair, adjoint_y=True))
    return result


@gradient("MatrixSolve", "BatchMatrixSolve")
def solve(b: Backward, op: Operation, grad: Tensor) -> Results:
    is_adjoint = op.get_attr("adjoint")
    of_right = b.ops.MatrixSolve(op.inputs[0], grad, adjoint=not is_adjoint)
    return [_of_matrix(b, of_right, op.outputs[0], is_adjoint), of_right]


@gradient("MatrixTriangularSolve", "BatchMatrixTriangularSolve")
def triangular_solve(b: Backward, op: Operation, grad: Tensor) -> Results:
    matrix, right = op.inputs
    is_lower, is_adjoint = op.get_attr("lower"), op.get_attr("adjoint")
    of_right = solved(b, matrix, grad, lower=is_lower, adjoint=not is_adjoint)
    of_matrix = _of_matrix(b, of_right, op.outputs[0], is_adjoint)
    return [
        sum_batches(b, triangle(b, of_matrix, lower=is_lower), matrix, right),
        sum_batches(b, of_right, right, matrix),
    ]


@gradient("BandedTriangularSolve")
def banded_solve(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The diagonals of the full matrix's gradient, laid out as the bands are; beyond its corner, zeros."""
    bands, right = op.inputs
    is_lower, is_adjoint = op.get_attr("lower"), op.get_attr("adjoint")
    of_right = b.ops.BandedTriangularSolve(bands, grad, lower=is_lower, adjoint=not is_adjoint)
    of_matrix = _of_matrix(b, of_right, op.outputs[0], is_adjoint)
    count = b.ops.StridedSlice(b.shape(bands), [-2], [-1], [1], shrink_axis_mask=1)
    last = b.ops.Sub(b.ops.Minimum(count, _rows_of(b, of_matrix)), 1)
    which = b.ops.Pack([b.ops.Neg(last), 0] if is_lower else [0, last])
    zero = b.constant(0, grad.dtype.base)
    # The element of row i stands at place i: shorter diagonals below are at the right, others at the left.
    rows = b.ops.MatrixDiagPartV3(of_matrix, which, zero, align="LEFT_RIGHT")
    # Of a single diagonal the result has no axis that counts them.
    outer = b.ops.StridedSlice(b.ops.Shape(of_matrix), [0], [-2], [1], begin_mask=1)
    own = b.ops.Pack([b.ops.AddV2(last, 1), _rows_of(b, of_matrix)])
    of_bands = b.ops.Reshape(rows, b.ops.ConcatV2([outer, own], 0))
    known, size = bands.shape[-2], bands.shape[-1]
    if known is None or size is None or known > size:
        beyond = b.ops.Pack([b.ops.Sub(b.ops.Sub(count, 1), last), _rows_of(b, of_matrix)])
        zeros = b.ops.Fill(b.ops.ConcatV2([outer, beyond], 0), zero)
        of_bands = b.ops.ConcatV2([of_bands, zeros] if is_lower else [zeros, of_bands], -2)
    return [sum_batches(b, of_bands, bands, right), sum_batches(b, of_right, right, bands)]


def _rows_of(b: Backward, matrix: Tensor) -> Tensor:
    count: Tensor = b.ops.StridedSlice(b.ops.Shape(matrix), [-1], [0], [1], end_mask=1, shrink_axis_mask=1)
    return count


@gradient("MatrixSolveLs", "BatchMatrixSolveLs")
def least_squares(b: Backward, op: Operation, grad: Tensor) -> Results:
    """Of X = P B, P = (A^H A + l)^-1 A^H = A^H (A A^H + l)^-1; the weight l has no gradient.

    B gets H = P^H G, the same problem with A^H. A gets -H X^H and (B - A X) Z^H, Z = (A^H A + l)^-1 G, where
    it has at least as many rows as columns; else T (G - A^H H)^H, T = (A A^H + l)^-1 B.
    """
    if not op.get_attr("fast"):
        raise GradientValueError(
            f"{op.type} '{op.name}' has no gradient with fast=False, by which it finds the shortest solution "
            "of matrices of any rank: use fast=True, with an l2_regularizer if need be"
        )
    matrix, right, weight = op.inputs
    (solution,) = op.outputs
    turned = adjoint(b, matrix)
    of_right = b.ops.MatrixSolveLs(turned, grad, weight)
    parts = (matrix, right, grad, solution, of_right)
    rows, columns = matrix.shape[-2], matrix.shape[-1]
    if rows is not None and columns is not None:
        rest = (_of_tall if rows >= columns else _of_wide)(b, *parts, weight)
    else:
        rest = _as_it_is(b, *parts, weight)
    return [b.ops.Sub(rest, product(b, of_right, solution, adjoint_y=True)), of_right, None]


def _of_tall(
    b: Backward, a: Tensor, right: Tensor, grad: Tensor, solution: Tensor, of_right: Tensor, weight: Tensor
) -> Tensor:
    z = _by_gram(b, product(b, a, a, adjoint_x=True), weight, grad)
    missed = b.ops.Sub(right, product(b, a, solution))
    return product(b, missed, z, adjoint_y=True)


def _of_wide(
    b: Backward, a: Tensor, right: Tensor, grad: Tensor, solution: Tensor, of_right: Tensor, weight: Tensor
) -> Tensor:
    t = _by_gram(b, product(b, a, a, adjoint_y=True), weight, right)
    missed = b.ops.Sub(grad, product(b, a, of_right, adjoint_x=True))
    return product(b, t, missed, adjoint_y=True)


def _by_gram(b: Backward, gram: Tensor, weight: Tensor, right: Tensor) -> Tensor:
    """(gram + weight)^-1 B, the weight on the diagonal, by Cholesky's factor."""
    diagonal = b.ops.AddV2(b.ops.MatrixDiagPart(gram), b.ops.Cast(weight, DstT=gram.dtype.base))
    factor = b.ops.Cholesky(b.ops.MatrixSetDiag(gram, diagonal))
    return solved(b, factor, solved(b, factor, right), adjoint=True)


def _as_it_is(b: Backward, matrix: Tensor, *parts: Tensor) -> Tensor:
    """By the shape that the matrix has when the graph runs: a conditional."""
    shape = b.shape(matrix)
    rows, columns = (
        b.ops.StridedSlice(shape, [place], [end], [1], shrink_axis_mask=1, end_mask=mask)
        for place, end, mask in ((-2, -1, 0), (-1, 0, 1))
    )
    is_tall = b.ops.GreaterEqual(rows, columns)
    branches: list[Tensor] = []
    sides = [b.ops.Switch(each, is_tall) for each in (matrix, *parts)]
    for side, rule in ((0, _of_wide), (1, _of_tall)):
        taken: list[Tensor] = [each[side] for each in sides]
        way: Callable[..., Tensor] = rule
        branches.append(way(b, *taken))
    result: Tensor = b.ops.Merge(branches)[0]
    return result


# Matrices of three diagonals.
#
# Element i of a diagonal stands in row i of the matrix: at (i, i + 1), (i, i) and (i, i - 1). So the last
# of
# the upper and the first of the lower one count for nothing.


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
