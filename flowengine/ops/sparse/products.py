"""Products and sums of a sparse matrix and a dense one."""

from __future__ import annotations

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import dims_of, like_input, merge_dims, ranked

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
