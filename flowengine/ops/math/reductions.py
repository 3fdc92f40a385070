"""Reductions along axes, places of extremes, running sums."""

from __future__ import annotations

from typing import Final

from flowengine.core.arrays import to_array
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape, unknown_of_rank
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import axis_of, ranked_at_most, scalar_value, unchanged

#: Of a reduction of numbers along axes.
REDUCTION: Final = "keep_dims: bool = false; T: numbertype; Tidx: indextype = int32"

#: Before this producer version the axes of a reduction could have any shape.
_FLAT_AXES: Final = 21


@define("Sum(input: T, reduction_indices: Tidx) -> output: T", REDUCTION)
@define("Mean(input: T, reduction_indices: Tidx) -> output: T", REDUCTION)
@define("Prod(input: T, reduction_indices: Tidx) -> output: T", REDUCTION)
@define("Max(input: T, reduction_indices: Tidx) -> output: T", REDUCTION)
@define("Min(input: T, reduction_indices: Tidx) -> output: T", REDUCTION)
@define(
    "All, Any(input: bool, reduction_indices: Tidx) -> output: bool",
    "keep_dims: bool = false; Tidx: indextype = int32",
    NotDifferentiable(),
)
@define("EuclideanNorm(input: T, reduction_indices: Tidx) -> output: T", REDUCTION)
def reduction(c: ShapeContext) -> Shapes:
    """The axes of the second input become 1 (keep_dims) or go."""
    shape = c.input(0)
    if c.producer >= _FLAT_AXES:
        ranked_at_most(c, 1, 1)
    axes = c.input_value(1)
    keep = c.attrs["keep_dims"]
    if shape.dims is None:
        if axes is not None and not keep and not to_array(axes).size:
            return [shape]
        return [UNKNOWN_SHAPE]
    rank = len(shape.dims)
    if axes is None:
        count = c.input(1).num_elements()
        if keep:
            return [unknown_of_rank(rank)]
        # Each axis once: a single one cannot be a repetition.
        return [unknown_of_rank(rank - 1) if count == 1 and rank else UNKNOWN_SHAPE]
    reduced = {axis_of(axis, rank, "reduction axis") for axis in to_array(axes).reshape(-1)}
    if keep:
        return [TensorShape([1 if i in reduced else d for i, d in enumerate(shape.dims)])]
    return [TensorShape([d for i, d in enumerate(shape.dims) if i not in reduced])]


@define(
    "ArgMax(input: T, dimension: Tidx) -> output: output_type",
    "T: numberorbooltype; Tidx: shortindextype = int32; output_type: {int16, uint16, int32, int64} = int64",
    NotDifferentiable(),
)
@define(
    "ArgMin(input: T, dimension: Tidx) -> output: output_type",
    "T: numberorbooltype; Tidx: indextype = int32; output_type: indextype = int64",
    NotDifferentiable(),
)
def arg_extreme(c: ShapeContext) -> Shapes:
    shape = c.input(0)
    axis = scalar_value(c, 1)
    if shape.dims is None:
        return [UNKNOWN_SHAPE]
    # A scalar is taken as a vector of one.
    rank = max(len(shape.dims), 1)
    if axis is None:
        return [unknown_of_rank(rank - 1)]
    where = axis_of(axis, rank, "dimension")
    return [TensorShape([d for i, d in enumerate(shape.dims) if i != where])]


define(
    "Cumsum, Cumprod(x: T, axis: Tidx) -> out: T",
    "exclusive, reverse: bool = false; T: numbertype; Tidx: indextype = int32",
    shape=unchanged,
)
define(
    "CumulativeLogsumexp(x: T, axis: Tidx) -> out: T",
    "exclusive, reverse: bool = false; T: floattype; Tidx: indextype = int32",
    shape=unchanged,
)
