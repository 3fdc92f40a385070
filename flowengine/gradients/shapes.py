"""Shapes, zeros and broadcasting: what many gradient functions ask of their `Backward`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.dtypes import DType, as_dtype
from flowengine.core.shapes import Dimension, TensorShape
from flowengine.graphs.tensor import Tensor

if TYPE_CHECKING:
    from flowengine.gradients.values import Backward

#: Zeros of more elements are filled when the graph runs, not kept in it.
_STORED_ELEMENTS: Final = 1000


def shape_of(b: Backward, tensor: Tensor, dtype: DType | str) -> Tensor:
    """The shape of a forward tensor, or of the variable of a handle, as a vector."""
    is_handle = tensor.dtype.base is dtypes.resource
    known = (b.graph.variable_behind(tensor)[0] if is_handle else tensor.shape).as_tuple()
    if known is not None:
        return b.constant(np.array(known, as_dtype(dtype).as_numpy_dtype))
    asked = "VariableShape" if is_handle else "Shape"
    return b.region.computed_forward(tensor, asked, out_type=as_dtype(dtype))


def zeros_like(b: Backward, tensor: Tensor) -> Tensor:
    """Zeros of a forward tensor's shape; of the variable's for the handle of one."""
    dtype = tensor.dtype.base
    if dtype is dtypes.variant:
        result: Tensor = b.ops.ZerosLike(tensor)
        return result
    if dtype is dtypes.resource:
        shape, dtype = b.graph.variable_behind(tensor)
    else:
        shape = tensor.shape
    known = shape.as_tuple()
    if known is None:
        dimensions = shape_of(b, tensor, "int32")
        result = b.ops.Fill(dimensions, _zero(dtype))
    elif math.prod(known) <= _STORED_ELEMENTS:
        result = b.constant(np.zeros(known, dtype.as_numpy_dtype), dtype)
    else:
        result = b.ops.Fill(b.constant(np.array(known, np.int32)), _zero(dtype))
    return result


def _zero(dtype: DType) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    return np.zeros((), dtype.as_numpy_dtype)


def sum_to(b: Backward, grad: Tensor, x: Tensor, other: Tensor) -> Tensor:
    """See `Backward.sum_to`."""
    axes = repeated_axes(x.shape, other.shape)
    if axes is None:
        return _summed_as_told(b, grad, x, other)
    if not axes:
        return grad
    rank = len(x.shape)
    added = max(len(other.shape) - rank, 0)
    if all(axis >= added for axis in axes):
        result: Tensor = b.ops.Sum(grad, np.array(axes, np.int32), keep_dims=True)
    else:
        result = b.ops.Sum(grad, np.array(axes, np.int32))
        if len(axes) > added:
            result = b.ops.Reshape(result, b.shape(x))
    return result


def _summed_as_told(b: Backward, grad: Tensor, x: Tensor, other: Tensor) -> Tensor:
    """The sum along the axes that are only known when the graph runs."""
    memory = b.remembered()
    key, twin = ("broadcast", x, other), ("broadcast", other, x)
    if key not in memory:
        memory[key], memory[twin] = b.ops.BroadcastGradientArgs(b.shape(x), b.shape(other))
    axes: Tensor = memory[key]
    result: Tensor = b.ops.Reshape(b.ops.Sum(grad, axes), b.shape(x))
    return result


def empty_rows(b: Backward, tensor: Tensor) -> Tensor:
    """No rows of a forward tensor's, or of a variable's: (0, ...)."""
    if tensor.dtype.base is dtypes.resource:
        shape, dtype = b.graph.variable_behind(tensor)
    else:
        shape, dtype = tensor.shape, tensor.dtype.base
    known = None if shape.dims is None else TensorShape(shape.dims[1:]).as_tuple()
    if known is not None:
        return b.constant(np.zeros((0, *known), dtype.as_numpy_dtype), dtype)
    row = b.ops.StridedSlice(b.shape(tensor), [1], [0], [1], end_mask=1)
    result: Tensor = b.ops.Fill(b.ops.ConcatV2([[0], row], 0), _zero(dtype))
    return result


def repeated_axes(x: TensorShape, other: TensorShape) -> list[int] | None:
    """The axes of the broadcast shape along which `x` is repeated; None where the shapes do not tell."""
    if x.dims is None or other.dims is None:
        return None
    rank = max(len(x.dims), len(other.dims))
    mine: tuple[Dimension, ...] = (0,) * (rank - len(x.dims)) + x.dims
    others: tuple[Dimension, ...] = (1,) * (rank - len(other.dims)) + other.dims
    added = rank - len(x.dims)
    axes = []
    for axis, (a, c) in enumerate(zip(mine, others, strict=True)):
        if axis < added:
            axes.append(axis)
        elif a == 1:
            # Summing along an axis of length one changes nothing, so an unknown other side does no harm.
            if c != 1:
                axes.append(axis)
        elif a is None and c != 1:
            return None
    return axes
