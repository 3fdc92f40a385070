"""Products and sums of sparse matrices, by entries or by rows."""

from __future__ import annotations

from typing import Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import SCALAR, UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    check_scalars,
    dims_of,
    like_input,
    merge_dims,
    ranked,
    ranked_at_least,
    ranked_at_most,
)

# Products and sums of a sparse matrix and a dense one.

define(
    "SparseTensorDenseAdd(a_indices: Tindices, a_values: T, a_shape: Tindices, b: T) -> output: T",
    "T: numbertype; Tindices: indextype",
    shape=like_input(3),
)


@define(
    "SparseTensorDenseMatMul(a_indices: Tindices, a_values: T, a_shape: int64, b: T) -> product: T",
    "T: type; Tindices: indextype = int64; adjoint_a, adjoint_b: bool = false",
)
def sparse_mat_mul(c: ShapeContext) -> Shapes:
    """(M, K) sparse, (K, N) -> (M, N)"""
    shape = c.input_as_shape(2)
    rows, columns = dims_of(ranked(c, 3, 2), 2)
    outer, inner = shape.dims if shape.dims is not None and len(shape.dims) == 2 else (None, None)
    if c.attrs["adjoint_a"]:
        outer, inner = inner, outer
    if c.attrs["adjoint_b"]:
        rows, columns = columns, rows
    merge_dims(inner, rows, "The inner dimensions")
    return [TensorShape([outer, columns])]


# Sparse matrices by rows: products, sums, orders and factors.

_NUMBERS: Final = "{float, double, complex64, complex128}"
_TURNED: Final = "transpose_a, transpose_b, adjoint_a, adjoint_b: bool = false"


def _check_turned(c: ShapeContext) -> None:
    for side in "ab":
        if c.attrs[f"adjoint_{side}"] and c.attrs[f"transpose_{side}"]:
            raise InvalidArgumentError(f"Only one of adjoint_{side} and transpose_{side} may be true.")


@define(
    "SparseMatrixMatMul(a: variant, b: T) -> output: T",
    f"T: type; {_TURNED}; transpose_output, conjugate_output: bool = false",
)
def mat_mul(c: ShapeContext) -> Shapes:
    check_scalars(c, 0)
    ranked_at_least(c, 1, 2)
    ranked_at_most(c, 1, 3)
    _check_turned(c)
    return [UNKNOWN_SHAPE]


@define("SparseMatrixMul(a: variant, b: T) -> output: variant", "T: type")
def mul(c: ShapeContext) -> Shapes:
    check_scalars(c, 0)
    ranked_at_most(c, 1, 3)
    return [SCALAR]


@define("SparseMatrixAdd(a, b: variant, alpha, beta: T) -> c: variant", f"T: {_NUMBERS}")
def add(c: ShapeContext) -> Shapes:
    check_scalars(c, 0, 1, 2, 3)
    return [SCALAR]


@define("SparseMatrixSparseMatMul(a, b: variant) -> c: variant", f"type: {_NUMBERS}; {_TURNED}")
def csr_sparse_mat_mul(c: ShapeContext) -> Shapes:
    check_scalars(c, 0, 1)
    _check_turned(c)
    return [SCALAR]


@define("SparseMatrixOrderingAMD(input: variant) -> output: int32", NotDifferentiable())
def ordering(c: ShapeContext) -> Shapes:
    check_scalars(c, 0)
    return [UNKNOWN_SHAPE]


@define(
    "SparseMatrixSparseCholesky(input: variant, permutation: int32) -> output: variant", f"type: {_NUMBERS}"
)
def cholesky(c: ShapeContext) -> Shapes:
    check_scalars(c, 0)
    ranked_at_least(c, 1, 1)
    ranked_at_most(c, 1, 2)
    return [SCALAR]
