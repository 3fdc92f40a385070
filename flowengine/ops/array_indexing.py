"""Picking and placing elements by index: gathers, scatters, uniques."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.arrays import to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape, unknown_of_rank
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    VECTOR,
    axis_of,
    check_scalars,
    dimension_value,
    merge_dims,
    of_rank,
    prefix,
    ranked,
    ranked_at_least,
    replace_dim,
    scalar_value,
    suffix,
    unchanged,
    vector,
)


def gather_rows(c: ShapeContext) -> Sequence[TensorShape]:
    """(rows, rest...), indices -> (indices..., rest...)"""
    params = ranked_at_least(c, 0, 1)
    return [c.input(1).concatenate(suffix(params, 1))]


define(
    "Gather",
    inputs=["params: Tparams", "indices: Tindices"],
    outputs=["output: Tparams"],
    attrs=["validate_indices: bool = true", "Tparams: type", "Tindices: {int32, int64}"],
    shape=gather_rows,
)


def gather(c: ShapeContext) -> Sequence[TensorShape]:
    """(before..., axis, after...), (batch..., indices...) -> (before..., indices..., after...)"""
    params, indices = ranked_at_least(c, 0, 1), c.input(1)
    axis = scalar_value(c, 2)
    batch: int = c.attrs["batch_dims"]
    if params.dims is None or indices.dims is None:
        return [UNKNOWN_SHAPE]
    rank = len(params.dims)
    if batch < 0:
        batch += len(indices.dims)
    if axis is None:
        return [unknown_of_rank(rank - 1 + len(indices.dims) - batch)]
    where = axis_of(axis, rank)
    if not 0 <= batch <= min(where, len(indices.dims)):
        raise InvalidArgumentError(
            f"batch_dims ({batch}) must not exceed axis ({where}) nor the rank of indices {indices}"
        )
    merged = prefix(params, batch).merge_with(prefix(indices, batch))
    before = TensorShape(params.dims[batch:where])
    picked = suffix(indices, batch)
    return [merged.concatenate(before).concatenate(picked).concatenate(suffix(params, where + 1))]


define(
    "GatherV2",
    inputs=["params: Tparams", "indices: Tindices", "axis: Taxis"],
    outputs=["output: Tparams"],
    attrs=["batch_dims: int = 0", "Tparams: type", "Tindices: {int32, int64}", "Taxis: {int32, int64}"],
    shape=gather,
)


def gather_nd(c: ShapeContext) -> Sequence[TensorShape]:
    """params, (outer..., k) -> (outer..., what k indices leave of params)"""
    params, indices = c.input(0), ranked_at_least(c, 1, 1)
    if params.dims is None or indices.dims is None or indices.dims[-1] is None:
        return [UNKNOWN_SHAPE]
    depth = indices.dims[-1]
    if depth > len(params.dims):
        raise InvalidArgumentError(
            f"indices.shape[-1] must be <= params.rank, but saw indices shape {indices} and params {params}"
        )
    return [prefix(indices, -1).concatenate(suffix(params, depth))]


define(
    "GatherNd",
    inputs=["params: Tparams", "indices: Tindices"],
    outputs=["output: Tparams"],
    attrs=["Tparams: type", "Tindices: {int32, int64}"],
    shape=gather_nd,
)


def scatter_nd(c: ShapeContext) -> Sequence[TensorShape]:
    """(outer..., k), (outer..., rest...), shape -> shape"""
    ranked(c, 2, 1)
    shape = c.input_as_shape(2)
    check_scatter_nd(shape, c.input(0), c.input(1))
    return [shape]


def check_scatter_nd(shape: TensorShape, indices: TensorShape, updates: TensorShape) -> None:
    """Whether updates of this shape can be scattered into a tensor at such indices."""
    if shape.dims is None or indices.dims is None or updates.dims is None:
        return
    if not indices.dims:
        raise InvalidArgumentError("indices must be at least rank 1")
    depth = indices.dims[-1]
    if depth is None:
        return
    expected = prefix(indices, -1).concatenate(suffix(shape, depth))
    if depth > len(shape.dims) or not expected.is_compatible_with(updates):
        raise InvalidArgumentError(
            f"updates of shape {updates} do not fit indices {indices} into shape {shape}: expected {expected}"
        )


define(
    "ScatterNd",
    inputs=["indices: Tindices", "updates: T", "shape: Tindices"],
    outputs=["output: T"],
    attrs=["T: type", "Tindices: {int32, int64}"],
    shape=scatter_nd,
)


def scatter_into(c: ShapeContext) -> Sequence[TensorShape]:
    check_scatter_nd(c.input(0), c.input(1), c.input(2))
    return [c.input(0)]


define(
    "ScatterNdNonAliasingAdd",
    inputs=["input: T", "indices: Tindices", "updates: T"],
    outputs=["output: T"],
    attrs=[
        (
            "T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, "
            "bfloat16, uint16, complex128, half, uint32, uint64, bool}"
        ),
        "Tindices: {int32, int64}",
    ],
    shape=scatter_into,
)
define(
    "TensorScatterAdd",
    inputs=["tensor: T", "indices: Tindices", "updates: T"],
    outputs=["output: T"],
    attrs=["T: type", "Tindices: {int32, int64}"],
    shape=scatter_into,
)
define(
    "TensorScatterSub",
    inputs=["tensor: T", "indices: Tindices", "updates: T"],
    outputs=["output: T"],
    attrs=["T: type", "Tindices: {int32, int64}"],
    shape=scatter_into,
)
define(
    "TensorScatterUpdate",
    inputs=["tensor: T", "indices: Tindices", "updates: T"],
    outputs=["output: T"],
    attrs=["T: type", "Tindices: {int32, int64}"],
    shape=scatter_into,
)
define(
    "InplaceAdd", inputs=["x: T", "i: int32", "v: T"], outputs=["y: T"], attrs=["T: type"], shape=unchanged
)
define(
    "InplaceSub", inputs=["x: T", "i: int32", "v: T"], outputs=["y: T"], attrs=["T: type"], shape=unchanged
)
define(
    "InplaceUpdate", inputs=["x: T", "i: int32", "v: T"], outputs=["y: T"], attrs=["T: type"], shape=unchanged
)


def one_hot(c: ShapeContext) -> Sequence[TensorShape]:
    """indices -> indices with an axis of `depth`"""
    shape = c.input(0)
    depth = dimension_value(c, 1)
    check_scalars(c, 2, 3)
    axis: int = c.attrs["axis"]
    if axis < -1:
        raise InvalidArgumentError(f"axis must be >= -1, but is {axis}")
    if shape.dims is None:
        return [UNKNOWN_SHAPE]
    rank = len(shape.dims)
    where = rank if axis == -1 else axis_of(axis, rank + 1)
    return [TensorShape((*shape.dims[:where], depth, *shape.dims[where:]))]


define(
    "OneHot",
    inputs=["indices: TI", "depth: int32", "on_value: T", "off_value: T"],
    outputs=["output: T"],
    attrs=["axis: int = -1", "T: type", "TI: {uint8, int32, int64} = int64"],
    shape=one_hot,
)
define(
    "InvertPermutation",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {int32, int64} = int32"],
    shape=of_rank(1),
)


def reverse_sequence(c: ShapeContext) -> Sequence[TensorShape]:
    shape, lengths = c.input(0), ranked(c, 1, 1)
    if shape.dims is None:
        return [UNKNOWN_SHAPE]
    rank = len(shape.dims)
    batch, sequence = c.attrs["batch_dim"], c.attrs["seq_dim"]
    if not 0 <= batch < rank or not 0 <= sequence < rank:
        raise InvalidArgumentError(f"batch_dim {batch} and seq_dim {sequence} must be < rank {rank}")
    return [replace_dim(shape, batch, merge_dims(shape.dims[batch], lengths[0]))]


define(
    "ReverseSequence",
    inputs=["input: T", "seq_lengths: Tlen"],
    outputs=["output: T"],
    attrs=["seq_dim: int", "batch_dim: int = 0", "T: type", "Tlen: {int32, int64} = int64"],
    shape=reverse_sequence,
)


def unique(c: ShapeContext) -> Sequence[TensorShape]:
    """x -> y, idx (as long as x), and how often each occurs"""
    return [VECTOR, ranked(c, 0, 1), VECTOR][: c.num_outputs]


define(
    "Unique",
    inputs=["x: T"],
    outputs=["y: T", "idx: out_idx"],
    attrs=["T: type", "out_idx: {int32, int64} = int32"],
    shape=unique,
)
define(
    "UniqueWithCounts",
    inputs=["x: T"],
    outputs=["y: T", "idx: out_idx", "count: out_idx"],
    attrs=["T: type", "out_idx: {int32, int64} = int32"],
    shape=unique,
)


def unique_along(c: ShapeContext) -> Sequence[TensorShape]:
    """Distinct slices along one axis; without an axis x is a vector."""
    shape = c.input(0)
    axes = c.input_value(1)
    length = ranked(c, 1, 1)[0]
    if shape.dims is None or (axes is None and length != 0 and len(shape.dims) != 1):
        rank_only = UNKNOWN_SHAPE if shape.dims is None else unknown_of_rank(len(shape.dims))
        return [rank_only, VECTOR, VECTOR][: c.num_outputs]
    chosen: list[int] = [] if axes is None else to_array(axes).reshape(-1).tolist()
    axis = axis_of(chosen[0], len(shape.dims)) if chosen else 0
    if not chosen and len(shape.dims) != 1:
        raise InvalidArgumentError(f"without an axis the input must be a vector, not {shape}")
    return [replace_dim(shape, axis, None), vector(shape.dims[axis]), VECTOR][: c.num_outputs]


define(
    "UniqueV2",
    inputs=["x: T", "axis: Taxis"],
    outputs=["y: T", "idx: out_idx"],
    attrs=["T: type", "Taxis: {int32, int64} = int64", "out_idx: {int32, int64} = int32"],
    shape=unique_along,
)
define(
    "UniqueWithCountsV2",
    inputs=["x: T", "axis: Taxis"],
    outputs=["y: T", "idx: out_idx", "count: out_idx"],
    attrs=["T: type", "Taxis: {int32, int64} = int64", "out_idx: {int32, int64} = int32"],
    shape=unique_along,
)


def list_diff(c: ShapeContext) -> Sequence[TensorShape]:
    ranked(c, 0, 1)
    ranked(c, 1, 1)
    return [VECTOR, VECTOR]


define(
    "ListDiff",
    inputs=["x: T", "y: T"],
    outputs=["out: T", "idx: out_idx"],
    attrs=["T: type", "out_idx: {int32, int64} = int32"],
    shape=list_diff,
)


def search_sorted(c: ShapeContext) -> Sequence[TensorShape]:
    ranked(c, 0, 2)
    return [ranked(c, 1, 2)]


define(
    "LowerBound",
    inputs=["sorted_inputs: T", "values: T"],
    outputs=["output: out_type"],
    attrs=["T: type", "out_type: {int32, int64} = int32"],
    shape=search_sorted,
)
define(
    "UpperBound",
    inputs=["sorted_inputs: T", "values: T"],
    outputs=["output: out_type"],
    attrs=["T: type", "out_type: {int32, int64} = int32"],
    shape=search_sorted,
)


def unravel(c: ShapeContext) -> Sequence[TensorShape]:
    """Indices -> one row of coordinates for each dimension"""
    indices, count = c.input(0), ranked(c, 1, 1)[0]
    if indices.dims is None:
        return [UNKNOWN_SHAPE]
    if not indices.dims:
        return [vector(count)]
    return [TensorShape([count, indices.num_elements()])]


define(
    "UnravelIndex",
    inputs=["indices: Tidx", "dims: Tidx"],
    outputs=["output: Tidx"],
    attrs=["Tidx: {int32, int64} = int32"],
    shape=unravel,
)


def where(c: ShapeContext) -> Sequence[TensorShape]:
    """(true elements, rank): coordinates of each"""
    return [TensorShape([None, c.input(0).rank])]


define(
    "Where",
    inputs=["input: T"],
    outputs=["index: int64"],
    attrs=[
        (
            "T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, "
            "bfloat16, uint16, complex128, half, uint32, uint64, bool} = bool"
        )
    ],
    shape=where,
)
