"""Products of matrices, single and in batches, through BLAS where there is one for the type.

Half and bfloat16 go through float32: NumPy has no fast product of them, and TensorFlow rounds once too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.matrices import product
from flowengine.kernels.common.ufuncs import NARROW, float_kernel, shape_text, widened
from flowengine.kernels.registry import kernel

#: Multiplications and additions a microsecond of one core, roughly: 25e9 a second.
_PRODUCTS_A_MICROSECOND = 25_000.0


def _matmul_cost(a: Array, b: Array) -> float:
    width = b.shape[-1] if b.ndim else 1
    return float(a.size * width / _PRODUCTS_A_MICROSECOND)


@kernel("MatMul", types={"T": NARROW}, fresh=True, heavy=_matmul_cost)
@widened
def mat_mul_narrow(xp: Any, a: Array, b: Array, *, transpose_a: bool, transpose_b: bool) -> Any:
    return mat_mul(xp, a, b, transpose_a=transpose_a, transpose_b=transpose_b)


@kernel("MatMul", fresh=True, heavy=_matmul_cost)
def mat_mul(xp: Any, a: Array, b: Array, *, transpose_a: bool, transpose_b: bool) -> Any:
    """Multiply (M, K) by (K, N), each read transposed on demand; integers wrap; returns (M, N).

    InvalidArgumentError where one is no matrix or the inner dimensions differ.
    """
    if a.ndim != 2 or b.ndim != 2:
        which, value = (0, a) if a.ndim != 2 else (1, b)
        raise InvalidArgumentError(f"In[{which}] is not a matrix. Instead it has shape {shape_text(value)}")
    try:
        return xp.dot(a.T if transpose_a else a, b.T if transpose_b else b)
    except ValueError:
        raise InvalidArgumentError(
            f"Matrix size-incompatible: In[0]: {shape_text(a)}, In[1]: {shape_text(b)} "
            f"(transpose_a={transpose_a}, transpose_b={transpose_b})"
        ) from None


@kernel("SparseMatMul", fresh=True, heavy=_matmul_cost)
def sparse_mat_mul(xp: Any, a: Array, b: Array, *, transpose_a: bool, transpose_b: bool) -> Any:
    """MatMul of float32 or bfloat16 in any mixture; returns float32. Zeros are not exploited."""
    return mat_mul(
        xp,
        a.astype(np.float32, copy=False),
        b.astype(np.float32, copy=False),
        transpose_a=transpose_a,
        transpose_b=transpose_b,
    )


def _batch_cost(x: Array, y: Array) -> float:
    inner = max(y.shape[-2] if y.ndim > 1 else 1, 1)
    batch = max(y.size // max(inner * y.shape[-1], 1), 1) if y.ndim > 1 else 1
    return x.size * (y.size / batch / inner) / _PRODUCTS_A_MICROSECOND


def _adjoint(xp: Any, x: Array) -> Any:
    x = x.swapaxes(-1, -2)
    return xp.conjugate(x) if x.dtype.kind == "c" else x


@float_kernel("BatchMatMul", fresh=True, heavy=_batch_cost)
def batch_mat_mul(xp: Any, x: Array, y: Array, *, adj_x: bool, adj_y: bool) -> Any:
    """Multiply (..., M, K) by (..., K, N) with equal leading dimensions, either side adjoint on demand."""
    if x.shape[:-2] != y.shape[:-2]:
        raise InvalidArgumentError(
            f"In[0] and In[1] must have the same leading dimensions: {shape_text(x)} vs. {shape_text(y)}"
        )
    return batch_mat_mul_v2(xp, x, y, adj_x=adj_x, adj_y=adj_y)


@float_kernel("BatchMatMulV2", fresh=True, heavy=_batch_cost)
def batch_mat_mul_v2(xp: Any, x: Array, y: Array, *, adj_x: bool, adj_y: bool) -> Any:
    """Multiply (..., M, K) by (..., K, N), leading dimensions broadcast, either side adjoint on demand.

    InvalidArgumentError for less than two dimensions, different inner dimensions, or leading ones that
    do not broadcast.
    """
    if (
        not (adj_x or adj_y)
        and x.ndim == y.ndim > 1
        and x.shape[-1] == y.shape[-2]
        and x.shape[:-2] == y.shape[:-2]
        and x.size
    ):
        return xp.matmul(x, y)
    for index, value in enumerate((x, y)):
        if value.ndim < 2:
            raise InvalidArgumentError(f"In[{index}] ndims must be >= 2: {value.ndim}")
    left = _adjoint(xp, x) if adj_x else x
    right = _adjoint(xp, y) if adj_y else y
    if left.shape[-1] != right.shape[-2]:
        raise InvalidArgumentError(
            f"In[0] mismatch In[1] shape: {left.shape[-1]} vs. {right.shape[-2]}: {shape_text(x)} "
            f"{shape_text(y)} {int(adj_x)} {int(adj_y)}"
        )
    try:
        return product(xp, left, right)
    except ValueError:
        raise InvalidArgumentError(
            f"In[0] and In[1] must have compatible batch dimensions: {shape_text(x)} vs. {shape_text(y)}"
        ) from None


@kernel("BatchMatMulV3", fresh=True, heavy=_batch_cost)
def batch_mat_mul_v3(xp: Any, x: Array, y: Array, *, adj_x: bool, adj_y: bool, Tout: DType) -> Any:
    """BatchMatMulV2 of operands of two types; half precision is multiplied in float32."""
    result = Tout.as_numpy_dtype
    wide = np.dtype(np.float32) if Tout.is_floating and result.itemsize == 2 else result
    wide_result = batch_mat_mul_v2(
        xp, x.astype(wide, copy=False), y.astype(wide, copy=False), adj_x=adj_x, adj_y=adj_y
    )
    return wide_result.astype(result, copy=False)


@kernel("Cross", fresh=True)
def cross(xp: Any, a: Array, b: Array) -> Any:
    """The vector product along the last axis, of 3; InvalidArgumentError for other shapes."""
    if a.shape != b.shape:
        raise InvalidArgumentError(f"Both inputs must be of same shape: {shape_text(a)} vs. {shape_text(b)}")
    if a.ndim < 1:
        raise InvalidArgumentError(f"Input must be at least 1D: {shape_text(a)}")
    if a.shape[-1] != 3:
        raise InvalidArgumentError(f"Cross-products are only defined for 3-element vectors: {shape_text(a)}")
    result = xp.empty_like(a)
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        result[..., i] = a[..., j] * b[..., k] - a[..., k] * b[..., j]
    return result
