"""A sparse matrix times a dense one by SciPy, which multiplies without gathering rows first."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.kernels.common.host_rows import SPARSE_KINDS
from flowengine.kernels.registry import kernel
from flowengine.kernels.sparse.products import checked_operands, sparse_tensor_dense_mat_mul

#: Below this many products SciPy's set-up (60 us) does not pay.
_PRODUCTS_MIN = 4096


@kernel("SparseTensorDenseMatMul", device="CPU", host=["a_shape"], fresh=True)
def sparse_tensor_dense_mat_mul_scipy(
    indices: Array, values: Array, shape: Array, b: Array, *, adjoint_a: bool, adjoint_b: bool
) -> Any:
    """The product with its terms added in the order of the entries, as without SciPy."""
    columns = b.shape[0 if adjoint_b else 1] if b.ndim == 2 else 0
    if values.size * columns < _PRODUCTS_MIN or b.dtype.char not in SPARSE_KINDS:
        return sparse_tensor_dense_mat_mul(
            np, indices, values, shape, b, adjoint_a=adjoint_a, adjoint_b=adjoint_b
        )
    from scipy.sparse import coo_array

    target, source, size = checked_operands(indices, values, shape, b, adjoint_a, adjoint_b)
    dense = b.T if adjoint_b else b
    if b.dtype.kind == "c":
        dense = dense.conj() if adjoint_b else dense
        values = values.conj() if adjoint_a else values
    inner = dense.shape[0]
    product: Array = coo_array((values, (target, source)), shape=(size[0], inner)) @ dense
    return product
