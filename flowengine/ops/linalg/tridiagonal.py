"""Matrices of three diagonals."""

from __future__ import annotations

from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import Newer
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import like_input, merge_dims, ranked_at_least


@define(
    "TridiagonalSolve(diagonals, rhs: T) -> output: T",
    "partial_pivoting: bool = true; perturb_singular: bool = false",
    "T: {double, float, complex64, complex128}",
    Newer(("perturb_singular",)),
)
def tridiagonal_solve(c: ShapeContext) -> Shapes:
    """Three diagonals (..., 3, M), (..., M, K) -> (..., M, K)"""
    diagonals, right = ranked_at_least(c, 0, 2), ranked_at_least(c, 1, 2)
    if diagonals.dims is not None:
        merge_dims(diagonals.dims[-2], 3, "The number of diagonals and 3")
    return [right]


define(
    "TridiagonalMatMul(superdiag, maindiag, subdiag, rhs: T) -> output: T",
    "T: {double, float, complex64, complex128}",
    shape=like_input(3),
)
