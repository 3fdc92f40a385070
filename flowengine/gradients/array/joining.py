"""Gradients of tensors joined and taken apart."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core import dtypes
from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import integer, integers, known, rank, rows
from flowengine.gradients.values import Gradient, IndexedSlices, Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("Concat", slices=True)
def concat_first(b: Backward, op: Operation, grad: Gradient) -> Results:
    """The part of g that is of each"""
    return [None, *_parts(b, op.inputs[1:], op.inputs[0], grad)]


@gradient("ConcatV2", slices=True)
def concat(b: Backward, op: Operation, grad: Gradient) -> Results:
    """The part of g that is of each"""
    return [*_parts(b, op.inputs[:-1], op.inputs[-1], grad), None]


def _parts(b: Backward, values: Sequence[Tensor], axis: Tensor, grad: Gradient) -> list[Gradient]:
    where = known(axis)
    count = next((each.shape.rank for each in values if each.shape.rank is not None), None)
    place = None if where is None or count is None else int(where) % count
    if isinstance(grad, IndexedSlices):
        if place == 0:
            return _parts_of_rows(b, values, grad)
        if place is not None:
            pieces = _split(b, values, place, axis, grad.values)
            return [
                IndexedSlices(piece, grad.indices, b.shape(each))
                for piece, each in zip(pieces, values, strict=True)
            ]
    return list(_split(b, values, place, axis, b.dense(grad)))


def _split(
    b: Backward, values: Sequence[Tensor], place: int | None, axis: Tensor, grad: Tensor
) -> Sequence[Tensor]:
    """g split along an axis into parts as long as the values; `place` is the axis if the graph tells it."""
    where = b.ops.Cast(axis, DstT=dtypes.int32) if place is None else integer(b, place)
    pieces: Sequence[Tensor] = b.ops.SplitV(
        grad, _sizes(b, values, place, where), where, num_split=len(values)
    )
    return pieces


def _sizes(b: Backward, values: Sequence[Tensor], place: int | None, where: Tensor) -> Tensor:
    """How long each of the values is along the axis: a constant where at most one is not known."""
    if place is not None:
        lengths = [None if each.shape.dims is None else each.shape.dims[place] for each in values]
        if lengths.count(None) < 2:
            return integers(b, *[-1 if length is None else length for length in lengths])
    shapes = b.ops.Pack([b.shape(each) for each in values])
    axis = where if place is not None else b.ops.FloorMod(where, rank(b, values[0]))
    result: Tensor = b.ops.GatherV2(shapes, axis, integer(b, 1))
    return result


def _parts_of_rows(b: Backward, values: Sequence[Tensor], grad: IndexedSlices) -> list[Gradient]:
    """Of slices the rows that fall into each, their numbers counted from its start"""
    parts: list[Gradient] = []
    indices = grad.indices
    start = b.constant(0, indices.dtype)
    for each in values:
        length = rows(b, each, indices.dtype.base)
        end = b.ops.AddV2(start, length)
        is_inside = b.ops.LogicalAnd(b.ops.GreaterEqual(indices, start), b.ops.Less(indices, end))
        inside = b.ops.Reshape(b.ops.Where(is_inside), integers(b, -1))
        values_inside = b.ops.GatherV2(grad.values, inside, integer(b, 0))
        numbers = b.ops.Sub(b.ops.GatherV2(indices, inside, integer(b, 0)), start)
        parts.append(IndexedSlices(values_inside, numbers, b.shape(each)))
        start = end
    return parts


@gradient("ParallelConcat")
def parallel_concat(b: Backward, op: Operation, grad: Tensor) -> Results:
    """To each its row"""
    if len(op.inputs) == 1:
        return [grad]
    pieces: Sequence[Tensor] = b.ops.Split(integer(b, 0), grad, num_split=len(op.inputs))
    return list(pieces)


@gradient("Pack")
def pack(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g taken apart"""
    pieces: Sequence[Tensor] = b.ops.Unpack(grad, num=len(op.inputs), axis=op.get_attr("axis"))
    return list(pieces)


@gradient("Unpack")
def unpack(b: Backward, op: Operation, *grads: Tensor) -> Results:
    """The gradients put together"""
    return [b.ops.Pack(grads, axis=op.get_attr("axis"))]


@gradient("Split")
def split(b: Backward, op: Operation, *grads: Tensor) -> Results:
    """The gradients put behind each other"""
    return [None, _behind_each_other(b, grads, op.inputs[0])]


@gradient("SplitV")
def split_sizes(b: Backward, op: Operation, *grads: Tensor) -> Results:
    """The gradients put behind each other"""
    return [_behind_each_other(b, grads, op.inputs[2]), None, None]


def _behind_each_other(b: Backward, grads: Sequence[Tensor], axis: Tensor) -> Tensor:
    if len(grads) == 1:
        return grads[0]
    result: Tensor = b.ops.ConcatV2(grads, axis)
    return result
