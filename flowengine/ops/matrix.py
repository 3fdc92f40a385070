"""Products of matrices."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, Dimension, TensorShape, broadcast_shapes
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    dims_of,
    merge,
    merge_dims,
    prefix,
    ranked,
    ranked_at_least,
)


def mat_mul(c: ShapeContext) -> Sequence[TensorShape]:
    """(M, K), (K, N) -> (M, N), each transposed if its attribute says so."""
    a, b = dims_of(ranked(c, 0, 2), 2), dims_of(ranked(c, 1, 2), 2)
    rows, inner_a = (a[1], a[0]) if c.attrs["transpose_a"] else (a[0], a[1])
    inner_b, columns = (b[1], b[0]) if c.attrs["transpose_b"] else (b[0], b[1])
    _check_inner(inner_a, inner_b, c)
    return [TensorShape([rows, columns])]


def _check_inner(a: Dimension, b: Dimension, c: ShapeContext) -> None:
    if a is not None and b is not None and a != b:
        raise InvalidArgumentError(
            f"Dimensions must be equal, but are {a} and {b}: the inner ones of {c.input(0)} and {c.input(1)}"
        )


define(
    "MatMul",
    inputs=["a: T", "b: T"],
    outputs=["product: T"],
    attrs=[
        "transpose_a: bool = false",
        "transpose_b: bool = false",
        "T: {bfloat16, half, float, double, int32, int64, complex64, complex128}",
    ],
    shape=mat_mul,
)
define(
    "SparseMatMul",
    inputs=["a: Ta", "b: Tb"],
    outputs=["product: float"],
    attrs=[
        "transpose_a: bool = false",
        "transpose_b: bool = false",
        "a_is_sparse: bool = false",
        "b_is_sparse: bool = false",
        "Ta: {float, bfloat16} = float",
        "Tb: {float, bfloat16} = float",
    ],
    shape=mat_mul,
)


def batch_mat_mul(c: ShapeContext) -> Sequence[TensorShape]:
    """(..., M, K), (..., K, N) -> (..., M, N), with equal leading dimensions."""
    a, b = ranked_at_least(c, 0, 2), ranked_at_least(c, 1, 2)
    if a.dims is None or b.dims is None:
        return [UNKNOWN_SHAPE]
    return [_batched(c, a, b, prefix(a, -2).merge_with(prefix(b, -2)))]


def _batched(c: ShapeContext, a: TensorShape, b: TensorShape, batch: TensorShape) -> TensorShape:
    rows, inner_a = (a[-1], a[-2]) if c.attrs["adj_x"] else (a[-2], a[-1])
    inner_b, columns = (b[-1], b[-2]) if c.attrs["adj_y"] else (b[-2], b[-1])
    _check_inner(inner_a, inner_b, c)
    return batch.concatenate(TensorShape([rows, columns]))


define(
    "BatchMatMul",
    inputs=["x: T", "y: T"],
    outputs=["output: T"],
    attrs=[
        "T: {bfloat16, half, float, double, int32, int64, complex64, complex128}",
        "adj_x: bool = false",
        "adj_y: bool = false",
    ],
    shape=batch_mat_mul,
)


def batch_mat_mul_broadcast(c: ShapeContext) -> Sequence[TensorShape]:
    """(..., M, K), (..., K, N) -> (..., M, N), leading dimensions broadcast."""
    a, b = ranked_at_least(c, 0, 2), ranked_at_least(c, 1, 2)
    if a.dims is None or b.dims is None:
        return [UNKNOWN_SHAPE]
    return [_batched(c, a, b, broadcast_shapes(prefix(a, -2), prefix(b, -2)))]


define(
    "BatchMatMulV2",
    inputs=["x: T", "y: T"],
    outputs=["output: T"],
    attrs=[
        "T: {bfloat16, half, float, double, int32, int64, complex64, complex128}",
        "adj_x: bool = false",
        "adj_y: bool = false",
    ],
    shape=batch_mat_mul_broadcast,
)


def cross(c: ShapeContext) -> Sequence[TensorShape]:
    ranked_at_least(c, 0, 1)
    ranked_at_least(c, 1, 1)
    shape = merge(c, (0, 1))
    if shape.dims is not None:
        merge_dims(shape.dims[-1], 3, "The last dimension and 3")
    return [shape]


define("Cross", inputs=["a: T", "b: T"], outputs=["product: T"], attrs=["T: realnumbertype"], shape=cross)
