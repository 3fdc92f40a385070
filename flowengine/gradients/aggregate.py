"""Several gradients of one tensor become one, as in TensorFlow.

A dense gradient among them makes the sum dense: a tied embedding, which is looked up by rows and read whole,
has a gradient that is a `Tensor`. If all of them are `IndexedSlices`, the sum lists them behind each other.
Global norms, clipping and optimizers treat the two kinds differently, so the kind is a part of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.gradients.values import Gradient, IndexedSlices
from flowengine.graphs.tensor import Tensor

if TYPE_CHECKING:
    from flowengine.gradients.regions import GradientRegion

METHODS: Final = ("add", "tree", "accumulate")


def aggregate(region: GradientRegion, gradients: Sequence[Gradient]) -> Gradient:
    """Sum one gradient or more, all of one tensor, in the place of the tensor's gradient.

    returns   a Tensor if any gradient is one, else `IndexedSlices`
    """
    if len(gradients) == 1:
        return gradients[0]
    tensors = [each for each in gradients if isinstance(each, Tensor)]
    slices = [each for each in gradients if isinstance(each, IndexedSlices)]
    if slices:
        listed = _listed(region, slices)
        if not tensors:
            return listed
        tensors.append(_dense_beside(region, listed, tensors[0]))
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


def _listed(region: GradientRegion, slices: Sequence[IndexedSlices]) -> IndexedSlices:
    """Concatenate slices of one tensor."""
    if len(slices) == 1:
        return slices[0]
    ops = region.graph.ops
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


def _dense_beside(region: GradientRegion, slices: IndexedSlices, other: Tensor) -> Tensor:
    """Add slices up in a tensor of the shape of a dense gradient of the same tensor.

    The other gradient tells the number of rows, so the slices need no dense shape.
    """
    if other.shape.rank == 0:
        raise InvalidArgumentError(
            f"the slices '{slices.values.name}' cannot be added to the scalar gradient '{other.name}': a "
            "scalar has no rows; return a Tensor from the gradient function that made the slices"
        )
    ops = region.graph.ops
    rows: Tensor | int | None = other.shape.dims[0] if other.shape.dims else None
    if rows is None:
        rows = ops.StridedSlice(ops.Shape(other), [0], [1], [1], shrink_axis_mask=1)
    result: Tensor = ops.UnsortedSegmentSum(slices.values, slices.indices, rows)
    return result


def added_to(region: GradientRegion, total: Tensor, gradient: Tensor) -> Tensor:
    """Add one more dense gradient to a sum so far."""
    result: Tensor = region.graph.ops.AddN([total, gradient])
    return result
