"""Several gradients of one tensor become one: dense ones are added, slices are listed behind each other.

Slices beside dense gradients make slices of all of them, as TensorFlow 1 does: who asked for the gradient of
an embedding gets rows, also where the embedding is decayed besides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.gradients.values import Gradient, IndexedSlices, dense
from flowengine.graphs.tensor import Tensor

if TYPE_CHECKING:
    from flowengine.gradients.regions import GradientRegion

METHODS: Final = ("add", "tree", "accumulate")


def aggregate(region: GradientRegion, gradients: Sequence[Gradient]) -> Gradient:
    """The sum of one gradient or more, all of one tensor, where they are."""
    if len(gradients) == 1:
        return gradients[0]
    tensors = [each for each in gradients if isinstance(each, Tensor)]
    if len(tensors) < len(gradients):
        return _listed(region, gradients)
    return added(region, tensors, region.call.aggregation)


def added(region: GradientRegion, tensors: Sequence[Tensor], method: str) -> Tensor:
    """The sum of tensors of one shape and type."""
    ops = region.graph.ops
    total: Tensor
    if method == "tree" and len(tensors) > 2:
        total = tensors[0]
        for each in tensors[1:]:
            total = ops.AddN([total, each])
        return total
    if method == "accumulate" and len(tensors) > 2:
        shape = tensors[0].shape
        for each in tensors[1:]:
            if shape.is_compatible_with(each.shape):
                shape = shape.merge_with(each.shape)
        if shape.is_fully_defined:
            total = ops.AccumulateNV2(tensors, shape=shape)
            return total
    total = ops.AddN(tensors)
    return total


def _listed(region: GradientRegion, gradients: Sequence[Gradient]) -> IndexedSlices:
    ops = region.graph.ops
    slices = [as_slices(region, each) for each in gradients]
    indices = [each.indices for each in slices]
    if len({each.dtype.base for each in indices}) > 1:
        indices = [
            each if each.dtype.base is dtypes.int64 else ops.Cast(each, DstT=dtypes.int64) for each in indices
        ]
    shapes = [each.dense_shape for each in slices if each.dense_shape is not None]
    return IndexedSlices(
        ops.ConcatV2([each.values for each in slices], 0),
        ops.ConcatV2(indices, 0),
        shapes[0] if shapes else None,
    )


def as_slices(region: GradientRegion, gradient: Gradient) -> IndexedSlices:
    """A dense gradient as the slices that are all of its rows."""
    if isinstance(gradient, IndexedSlices):
        return gradient
    if gradient.shape.rank == 0:
        raise InvalidArgumentError(f"the scalar '{gradient.name}' has no rows to be given as slices")
    ops = region.graph.ops
    known = gradient.shape.as_tuple()
    shape = region.graph.constant(list(known)) if known else ops.Shape(gradient)
    rows = known[0] if known else ops.StridedSlice(shape, [0], [1], [1], shrink_axis_mask=1)
    return IndexedSlices(gradient, ops.Range(0, rows, 1), shape)


def added_to(region: GradientRegion, total: Tensor, gradient: Gradient) -> Tensor:
    """A sum so far, and one more."""
    ops = region.graph.ops
    dense_one = gradient if isinstance(gradient, Tensor) else dense(region.graph, ops, gradient)
    result: Tensor = ops.AddN([total, dense_one])
    return result
