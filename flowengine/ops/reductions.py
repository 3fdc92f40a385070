"""Reductions and scans along axes."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.arrays import to_array
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape, unknown_of_rank
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import axis_of, ranked_at_most, scalar_value, unchanged


def reduction(c: ShapeContext) -> Sequence[TensorShape]:
    """The axes of the second input become 1 (keep_dims) or go."""
    shape = c.input(0)
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


define(
    "Sum",
    inputs=["input: T", "reduction_indices: Tidx"],
    outputs=["output: T"],
    attrs=["keep_dims: bool = false", "T: numbertype", "Tidx: {int32, int64} = int32"],
    shape=reduction,
)
define(
    "Mean",
    inputs=["input: T", "reduction_indices: Tidx"],
    outputs=["output: T"],
    attrs=["keep_dims: bool = false", "T: numbertype", "Tidx: {int32, int64} = int32"],
    shape=reduction,
)
define(
    "Prod",
    inputs=["input: T", "reduction_indices: Tidx"],
    outputs=["output: T"],
    attrs=["keep_dims: bool = false", "T: numbertype", "Tidx: {int32, int64} = int32"],
    shape=reduction,
)
define(
    "Max",
    inputs=["input: T", "reduction_indices: Tidx"],
    outputs=["output: T"],
    attrs=["keep_dims: bool = false", "T: numbertype", "Tidx: {int32, int64} = int32"],
    shape=reduction,
)
define(
    "Min",
    inputs=["input: T", "reduction_indices: Tidx"],
    outputs=["output: T"],
    attrs=["keep_dims: bool = false", "T: numbertype", "Tidx: {int32, int64} = int32"],
    shape=reduction,
)
define(
    "All",
    inputs=["input: bool", "reduction_indices: Tidx"],
    outputs=["output: bool"],
    attrs=["keep_dims: bool = false", "Tidx: {int32, int64} = int32"],
    shape=reduction,
)
define(
    "Any",
    inputs=["input: bool", "reduction_indices: Tidx"],
    outputs=["output: bool"],
    attrs=["keep_dims: bool = false", "Tidx: {int32, int64} = int32"],
    shape=reduction,
)
define(
    "EuclideanNorm",
    inputs=["input: T", "reduction_indices: Tidx"],
    outputs=["output: T"],
    attrs=["keep_dims: bool = false", "T: numbertype", "Tidx: {int32, int64} = int32"],
    shape=reduction,
)


def arg_extreme(c: ShapeContext) -> Sequence[TensorShape]:
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
    "ArgMax",
    inputs=["input: T", "dimension: Tidx"],
    outputs=["output: output_type"],
    attrs=["T: numbertype", "Tidx: {int32, int64} = int32", "output_type: {int32, int64} = int64"],
    shape=arg_extreme,
)
define(
    "ArgMin",
    inputs=["input: T", "dimension: Tidx"],
    outputs=["output: output_type"],
    attrs=["T: numbertype", "Tidx: {int32, int64} = int32", "output_type: {int32, int64} = int64"],
    shape=arg_extreme,
)
define(
    "Cumsum",
    inputs=["x: T", "axis: Tidx"],
    outputs=["out: T"],
    attrs=[
        "exclusive: bool = false",
        "reverse: bool = false",
        "T: numbertype",
        "Tidx: {int32, int64} = int32",
    ],
    shape=unchanged,
)
define(
    "Cumprod",
    inputs=["x: T", "axis: Tidx"],
    outputs=["out: T"],
    attrs=[
        "exclusive: bool = false",
        "reverse: bool = false",
        "T: numbertype",
        "Tidx: {int32, int64} = int32",
    ],
    shape=unchanged,
)
define(
    "CumulativeLogsumexp",
    inputs=["x: T", "axis: Tidx"],
    outputs=["out: T"],
    attrs=[
        "exclusive: bool = false",
        "reverse: bool = false",
        "T: {half, float, double}",
        "Tidx: {int32, int64} = int32",
    ],
    shape=unchanged,
)
