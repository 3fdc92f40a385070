"""The builder that a gradient function works with, with shapes, zeros and sums over broadcast axes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.dtypes import DType, as_dtype
from flowengine.core.shapes import Dimension, TensorShape
from flowengine.gradients.regions import GradientRegion
from flowengine.gradients.values import Gradient, dense
from flowengine.graphs.tensor import Operation, Tensor

#: Zeros of more elements are filled when the graph runs, not kept in it.
_STORED_ELEMENTS: Final = 1000


class Backward:
    """A builder for a gradient function, for one op: nodes go where the gradient of that op belongs.

    graph    the graph that is extended
    ops      its constructors; a tensor of the forward graph may be given to each, wherever it lives: within
             the gradient of a loop it is replaced by its value in the iteration that is gone back through
    source   what tells this call's gradient TensorArrays from those of other calls
    """

    __slots__ = ("_memory", "graph", "op", "ops", "region")

    def __init__(self, region: GradientRegion, op: Operation) -> None:
        self.region = region
        self.op = op
        self.graph = region.graph
        self.ops = region.ops
        self._memory: dict[Any, Any] = {}

    @property
    def source(self) -> str:
        return self.region.call.source

    def here(self, tensor: Tensor) -> Tensor:
        """The value of a forward tensor at the place of the gradient; the same tensor in straight code."""
        return self.region.here(tensor)

    def constant(self, value: Any, dtype: DType | str | None = None) -> Tensor:
        """A Const at the place of the gradient."""
        return self.graph.constant(value, dtype)

    def control(self, tensors: Iterable[Tensor | Operation]) -> AbstractContextManager[None]:
        """Return a context whose new nodes run after these."""
        return self.graph.control_dependencies(tensors)

    def shape(self, tensor: Tensor, dtype: DType | str = "int32") -> Tensor:
        """The shape of a forward tensor, (rank,): a constant where the graph tells all of it."""
        key = (tensor, str(dtype))
        if key not in self._memory:
            self._memory[key] = shape_of(self, tensor, dtype)
        found: Tensor = self._memory[key]
        return found

    def zeros_like(self, tensor: Tensor) -> Tensor:
        """Zeros of a forward tensor's shape and type."""
        return zeros_like(self, tensor)

    def sum_to(self, grad: Tensor, x: Tensor, other: Tensor) -> Tensor:
        """The gradient of `x` from that of an op that broadcasts `x` and `other` together.

        grad   of the broadcast shape; returned is its sum along the axes along which `x` was repeated, of
               the shape of `x`
        """
        return sum_to(self, grad, x, other)

    def real_or_conj(self, x: Tensor) -> Tensor:
        """The complex conjugate of a complex tensor, any other as it is."""
        if not x.dtype.is_complex:
            return x
        found: Tensor = self.ops.Conj(x)
        return found

    def dense(self, gradient: Gradient) -> Tensor:
        """A gradient as one tensor: the slices of an `IndexedSlices` added up in zeros.

        Raises InvalidArgumentError for slices whose dense shape nobody knows.
        """
        if isinstance(gradient, Tensor):
            return gradient
        return dense(self.graph, self.ops, gradient)

    def remembered(self, *tensors: Tensor) -> dict[Any, Any]:
        """Return the cache of this op's helpers, for helpers that are called twice."""
        return self._memory


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
        return _summed_at_run_time(b, grad, x, other)
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


def _summed_at_run_time(b: Backward, grad: Tensor, x: Tensor, other: Tensor) -> Tensor:
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


__all__ = ["Backward"]
