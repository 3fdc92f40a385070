"""Gradients of rows picked by their numbers: slices where that can be, else sums at the places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from flowengine.core import dtypes
from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import (
    at_least_int32,
    from_element,
    integer,
    integers,
    joined,
    known,
    rank,
    same,
    size,
)
from flowengine.gradients.values import IndexedSlices, Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("Gather")
def gather_rows(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The rows of g, at the numbers of the rows that were picked"""
    params, indices = op.inputs
    return [row_slices(b, params, indices, grad), None]


def row_slices(b: Backward, params: Tensor, indices: Tensor, grad: Tensor) -> IndexedSlices:
    """g (indices..., rest...) as slices of params (rows, rest...), or of the variable of a handle"""
    shape = b.shape(params)
    if indices.shape.rank == 1:
        return IndexedSlices(grad, b.here(indices), shape)
    flat = b.ops.Reshape(indices, integers(b, -1))
    return IndexedSlices(b.ops.Reshape(grad, _rows_shape(b, params, indices, shape)), flat, shape)


def _rows_shape(b: Backward, params: Tensor, indices: Tensor, shape: Tensor) -> Tensor:
    """(number of indices, rest...)"""
    is_handle = params.dtype.base is dtypes.resource
    form = b.graph.variable_behind(params)[0] if is_handle else params.shape
    rest = form.dims[1:] if form.dims else (None,)
    count = indices.shape.num_elements()
    known_rest = [d for d in rest if d is not None]
    if len(known_rest) == len(rest):
        if count is not None:
            return integers(b, count, *known_rest)
        if math.prod(known_rest):
            return integers(b, -1, *known_rest)
    count_of_indices = b.ops.Reshape(size(b, indices), integers(b, 1))
    return joined(b, [count_of_indices, from_element(b, shape, 1)])


@gradient("GatherV2")
def gather(b: Backward, op: Operation, grad: Tensor) -> Results:
    """Of axis 0 slices; of others, of one written as -rank, and within batches, the sum of g at each place"""
    params, indices, axis = op.inputs
    # TensorFlow's gradient is dense for an axis that is not written as 0, which matters to norms.
    if known(axis) == 0 and not op.get_attr("batch_dims"):
        return [row_slices(b, params, indices, grad), None, None]
    return [_summed_along_axis(b, op, grad), None, None]


#: A number that the graph tells, or a scalar of int32 that is known when the step runs.
_Count: TypeAlias = int | Tensor


def _summed_along_axis(b: Backward, op: Operation, grad: Tensor) -> Tensor:
    """The adjoint of picking along an axis.

    g is (batch..., before..., picked..., after...). It becomes (batch..., picked..., before..., after...), is
    summed by numbers that count on from batch to batch, and the sums (batch..., n, before..., after...) are
    put in the order of params (batch..., before..., n, after...).
    """
    params, indices, _ = op.inputs
    batch, axis = _batch_dims(b, op), _axis(b, op)
    picked = _plus(b, _rank(b, indices), _minus(b, batch))
    behind = _plus(b, axis, picked)
    sizes = b.shape(params)
    count = _elements(b, sizes, axis, _plus(b, axis, 1))
    is_first = isinstance(axis, int) and axis == batch
    moved = grad
    if not is_first:
        end = _rank(b, op.outputs[0])
        order = [(0, batch), (axis, behind), (batch, axis), (behind, end)]
        moved = b.ops.Transpose(grad, _order(b, order))
    if isinstance(batch, int) and not batch:
        summed: Tensor = b.ops.UnsortedSegmentSum(moved, indices, b.ops.Reshape(count, integers(b)))
    else:
        summed = _summed_in_batches(b, moved, indices, batch, count)
        after = _elements(b, sizes, _plus(b, axis, 1), _rank(b, params))
        dims = [_elements(b, sizes, 0, batch), count, _elements(b, sizes, batch, axis), after]
        summed = b.ops.Reshape(summed, joined(b, dims))
    if not is_first:
        next_axis = _plus(b, axis, 1)
        order = [
            (0, batch),
            (_plus(b, batch, 1), next_axis),
            (batch, _plus(b, batch, 1)),
            (next_axis, _rank(b, params)),
        ]
        summed = b.ops.Transpose(summed, _order(b, order))
    return summed


def _summed_in_batches(b: Backward, moved: Tensor, indices: Tensor, batch: _Count, count: Tensor) -> Tensor:
    """(batches * n, before..., after...): sums by numbers that count on from batch to batch"""
    sizes = b.shape(indices)
    batches = b.ops.Prod(_elements(b, sizes, 0, batch), integers(b, 0))
    number = b.ops.Reshape(count, integers(b))
    starts = b.ops.Mul(b.ops.Range(integer(b, 0), batches, integer(b, 1)), number)
    ones = b.ops.OnesLike(_elements(b, sizes, batch, _rank(b, indices)))
    starts = b.ops.Reshape(starts, joined(b, [_elements(b, sizes, 0, batch), ones]))
    ids = b.ops.AddV2(indices, b.ops.Cast(starts, DstT=indices.dtype.base))
    result: Tensor = b.ops.UnsortedSegmentSum(moved, ids, b.ops.Mul(batches, number))
    return result


def _batch_dims(b: Backward, op: Operation) -> _Count:
    batch: int = op.get_attr("batch_dims")
    return batch if batch >= 0 else _plus(b, _rank(b, op.inputs[1]), batch)


def _axis(b: Backward, op: Operation) -> _Count:
    """The axis, counted from the front."""
    params, _, axis = op.inputs
    where = known(axis)
    if where is None:
        found: Tensor = b.ops.FloorMod(b.ops.Cast(axis, DstT=dtypes.int32), rank(b, params))
        return found
    return int(where) if where >= 0 else _plus(b, _rank(b, params), int(where))


def _rank(b: Backward, tensor: Tensor) -> _Count:
    return rank(b, tensor) if tensor.shape.rank is None else tensor.shape.rank


def _plus(b: Backward, x: _Count, y: _Count) -> _Count:
    if isinstance(x, int) and isinstance(y, int):
        return x + y
    result: Tensor = b.ops.AddV2(x, y)
    return result


def _minus(b: Backward, x: _Count) -> _Count:
    if isinstance(x, int):
        return -x
    result: Tensor = b.ops.Neg(x)
    return result


def _elements(b: Backward, vector: Tensor, start: _Count, end: _Count) -> Tensor:
    """The elements of a vector from one place to another."""
    value = known(vector)
    if value is not None and isinstance(start, int) and isinstance(end, int):
        return integers(b, *value[start:end].tolist())
    result: Tensor = b.ops.StridedSlice(vector, _vector(b, start), _vector(b, end), integers(b, 1))
    return result


def _vector(b: Backward, count: _Count) -> Tensor:
    if isinstance(count, int):
        return integers(b, count)
    result: Tensor = b.ops.Reshape(count, integers(b, 1))
    return result


def _order(b: Backward, spans: Sequence[tuple[_Count, _Count]]) -> Tensor:
    """The axes of these spans, one behind the other."""
    axes: list[int] = []
    for start, end in spans:
        if not (isinstance(start, int) and isinstance(end, int)):
            return joined(b, [b.ops.Range(*span, 1) for span in spans])
        axes.extend(range(start, end))
    return integers(b, *axes)


@gradient("GatherNd")
def gather_elements(b: Backward, op: Operation, grad: Tensor) -> Results:
    """Of rows slices; else the sum of g at each place"""
    params, indices = op.inputs
    dims = indices.shape.dims
    policy = same(op, "bad_indices_policy")
    if dims is not None and len(dims) == 2 and dims[1] == 1 and policy["bad_indices_policy"] != b"IGNORE":
        flat = b.ops.Reshape(indices, integers(b, -1))
        return [IndexedSlices(grad, flat, b.shape(params)), None]
    indices = at_least_int32(b, indices)
    return [b.ops.ScatterNd(indices, grad, b.shape(params, indices.dtype.base), **policy), None]
