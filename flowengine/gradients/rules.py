"""Helpers that gradient functions of several families share."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array, to_array
from flowengine.core.dtypes import DType
from flowengine.gradients.backward import Backward, repeated_axes
from flowengine.graphs.tensor import Operation, Tensor

#: {complex type: the type of its parts}
_PARTS: Final = {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}


def part_type(complex_type: DType) -> DType:
    """The type of a complex number's real and imaginary part."""
    return _PARTS[complex_type.base]


def real_only(b: Backward, tensor: Tensor) -> Tensor:
    """A tensor without its imaginary parts, in the type that it has."""
    if not tensor.dtype.is_complex:
        return tensor
    real = b.ops.Real(tensor, Tout=part_type(tensor.dtype))
    result: Tensor = b.ops.Cast(real, DstT=tensor.dtype.base)
    return result


def known(tensor: Tensor) -> Array | None:
    """The value of a small tensor that is the same in every run, else None."""
    value = tensor.graph.constant_value(tensor)
    return None if value is None else to_array(value)


def integers(b: Backward, *values: int, dtype: DType = dtypes.int32) -> Tensor:
    """A constant vector."""
    return b.constant(np.array(values, dtype.as_numpy_dtype))


def integer(b: Backward, value: int, dtype: DType = dtypes.int32) -> Tensor:
    """A constant scalar."""
    return b.constant(np.array(value, dtype.as_numpy_dtype))


def at_least_int32(b: Backward, indices: Tensor) -> Tensor:
    """Indices for an op that takes no shorter ones, where the op forwards does."""
    if indices.dtype.base in (dtypes.int32, dtypes.int64):
        return indices
    result: Tensor = b.ops.Cast(indices, DstT=dtypes.int32)
    return result


def rank(b: Backward, tensor: Tensor) -> Tensor:
    """The rank of a forward tensor, a scalar of int32, without keeping the tensor itself."""
    if tensor.shape.rank is not None:
        return integer(b, tensor.shape.rank)
    result: Tensor = b.ops.Size(b.shape(tensor))
    return result


def size(b: Backward, tensor: Tensor, dtype: DType = dtypes.int32) -> Tensor:
    """The number of a forward tensor's elements, without keeping the tensor itself."""
    count = tensor.shape.num_elements()
    if count is not None:
        return integer(b, count, dtype)
    result: Tensor = b.ops.Prod(b.shape(tensor, dtype), integers(b, 0))
    return result


def element(b: Backward, vector: Tensor, index: int) -> Tensor:
    """One element of a vector, as a scalar."""
    begin, end = integers(b, index), integers(b, index + 1)
    result: Tensor = b.ops.StridedSlice(vector, begin, end, integers(b, 1), shrink_axis_mask=1)
    return result


def from_element(b: Backward, vector: Tensor, index: int) -> Tensor:
    """A vector from one of its elements on."""
    result: Tensor = b.ops.StridedSlice(
        vector, integers(b, index), integers(b, 0), integers(b, 1), end_mask=1
    )
    return result


def rows(b: Backward, tensor: Tensor, dtype: DType = dtypes.int32) -> Tensor:
    """The first dimension of a forward tensor, as a scalar."""
    shape = tensor.shape
    if shape.dims and shape.dims[0] is not None:
        return integer(b, shape.dims[0], dtype)
    return element(b, b.shape(tensor, dtype), 0)


def joined(b: Backward, parts: list[Tensor]) -> Tensor:
    """Vectors behind each other."""
    if len(parts) == 1:
        return parts[0]
    result: Tensor = b.ops.ConcatV2(parts, integer(b, 0))
    return result


def per_row(b: Backward, values: Tensor, ids: Tensor, data: Tensor) -> Tensor:
    """Values of the shape of ids, made to broadcast to data, whose shape is ids..., rest...

    ids and data are forward tensors.
    """
    if data.shape.rank is None or ids.shape.rank is None:
        count = b.ops.Sub(rank(b, data), rank(b, ids))
        ones = b.ops.Fill(b.ops.Reshape(count, integers(b, 1)), integer(b, 1))
    elif data.shape.rank == ids.shape.rank:
        return values
    else:
        ones = integers(b, *[1] * (data.shape.rank - ids.shape.rank))
    result: Tensor = b.ops.Reshape(values, joined(b, [b.shape(ids), ones]))
    return result


def sum_like(b: Backward, grad: Tensor, x: Tensor) -> Tensor:
    """Sum a tensor made here to the shape of the forward tensor x, which was broadcast to its shape."""
    axes = repeated_axes(x.shape, grad.shape)
    if axes is not None and not axes:
        return grad
    if axes is None:
        along = b.ops.BroadcastGradientArgs(b.shape(x), b.ops.Shape(grad))[0]
    else:
        along = integers(b, *axes)
    result: Tensor = b.ops.Reshape(b.ops.Sum(grad, along), b.shape(x))
    return result


def same(op: Operation, *names: str) -> dict[str, Any]:
    """Those of an operation's attributes, as keywords for the constructor of another op."""
    return {name: op.get_attr(name) for name in names}
