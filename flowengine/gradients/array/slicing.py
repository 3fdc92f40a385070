"""Gradients of parts of tensors."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import at_least_int32, known, sum_like
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor

_MASKS: Final = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


def _masks(op: Operation) -> dict[str, Any]:
    return {name: op.get_attr(name) for name in _MASKS}


@gradient("Slice")
def part(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g with zeros around it"""
    x, begin, _ = op.inputs
    return [b.ops.Pad(grad, _margins(b, x, begin, op.outputs[0])), None, None]


def _margins(b: Backward, x: Tensor, begin: Tensor, piece: Tensor) -> Tensor:
    """(rank, 2): how much of x lies before and behind the piece along each axis"""
    start, whole, taken = known(begin), x.shape.as_tuple(), piece.shape.as_tuple()
    if start is not None and whole is not None and taken is not None:
        before = start.reshape(-1)
        behind = np.array(whole, before.dtype) - before - np.array(taken, before.dtype)
        return b.constant(np.stack([before, behind], axis=1))
    kind = begin.dtype.base
    rest = b.ops.Sub(b.ops.Sub(b.shape(x, kind), begin), b.shape(piece, kind))
    result: Tensor = b.ops.Pack([begin, rest], axis=1)
    return result


@gradient("StridedSlice")
def strided_part(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g in its places among zeros, an op of its own"""
    x, *places = op.inputs
    begin, end, strides = (at_least_int32(b, each) for each in places)
    shape = b.shape(x, begin.dtype.base)
    return [b.ops.StridedSliceGrad(shape, begin, end, strides, grad, **_masks(op)), None, None, None]


@gradient("StridedSliceGrad")
def strided_part_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The part again"""
    _, begin, end, strides, _ = op.inputs
    return [None, None, None, None, b.ops.StridedSlice(grad, begin, end, strides, **_masks(op))]


@gradient("TensorStridedSliceUpdate")
def strided_update(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g with zeros for what was written over, and that part of g"""
    _, begin, end, strides, value = op.inputs
    rest = b.ops.TensorStridedSliceUpdate(grad, begin, end, strides, b.zeros_like(value), **_masks(op))
    # A value that was repeated over the part gets the sum; it may have a higher rank, with ones in front.
    piece = b.ops.StridedSlice(grad, begin, end, strides, **_masks(op))
    inner, outer = value.shape.rank, piece.shape.rank
    if inner is None or outer is None or inner > outer:
        piece = b.ops.Reshape(piece, b.ops.BroadcastArgs(b.shape(value), b.ops.Shape(piece)))
    return [rest, None, None, None, sum_like(b, piece, value)]
