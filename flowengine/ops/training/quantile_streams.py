"""Boosted trees: summaries of the values of features, and the boundaries of buckets made of them."""

from __future__ import annotations

from typing import Final

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable, Uses
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, check_scalars, dims_of, merge_dims, ranked, scalars

#: The handle is of streams.
_USES: Final = Uses("quantile_stream_resource_handle")
#: Entries with a value, its weight, and bounds of its rank.
_SUMMARY: Final = TensorShape([None, 4])

define(
    "BoostedTreesQuantileStreamResourceHandleOp() -> resource: resource",
    "stateful; container, shared_name: string = ''",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "IsBoostedTreesQuantileStreamResourceInitialized(quantile_stream_resource_handle: resource) "
    "-> is_initialized: bool",
    "stateful",
    _USES,
    NotDifferentiable(),
    shape=scalars,
)


@define(
    "BoostedTreesCreateQuantileStreamResource(quantile_stream_resource_handle: resource, epsilon: float, "
    "num_streams: int64)",
    "stateful; max_elements: int = 1099511627776",
    _USES,
    NotDifferentiable(),
)
def create(c: ShapeContext) -> Shapes:
    check_scalars(c, 1, 2)
    return []


@define(
    "BoostedTreesMakeQuantileSummaries(float_values: num_features * float, example_weights, epsilon: float) "
    "-> summaries: num_features * float",
    "num_features: int >= 0",
    NotDifferentiable(),
)
def make_summaries(c: ShapeContext) -> Shapes:
    """Values (examples,) of each feature, weights of the examples or one of all -> (entries, 4) each"""
    count = c.attrs["num_features"]
    length = None
    for index in range(count):
        length = merge_dims(length, dims_of(ranked(c, index, 1), 1)[0], "The numbers of values")
    ranked(c, count, 1)
    check_scalars(c, count + 1)
    return [_SUMMARY] * count


@define(
    "BoostedTreesFlushQuantileSummaries(quantile_stream_resource_handle: resource) "
    "-> summaries: num_features * float",
    "stateful; num_features: int >= 0",
    _USES,
    NotDifferentiable(),
)
def flush_summaries(c: ShapeContext) -> Shapes:
    return [_SUMMARY] * c.attrs["num_features"]


@define(
    "BoostedTreesQuantileStreamResourceAddSummaries(quantile_stream_resource_handle: resource, "
    "summaries: num_features * float)",
    "stateful; num_features: int >= 0",
    _USES,
    NotDifferentiable(),
)
def add_summaries(c: ShapeContext) -> Shapes:
    """Summaries (entries, 4)"""
    for index in range(1, 1 + c.attrs["num_features"]):
        merge_dims(dims_of(ranked(c, index, 2), 2)[1], 4, "The columns of a summary")
    return []


@define(
    "BoostedTreesQuantileStreamResourceDeserialize(quantile_stream_resource_handle: resource, "
    "bucket_boundaries: num_streams * float)",
    "stateful; num_streams: int >= 1",
    _USES,
    NotDifferentiable(),
)
def deserialize(c: ShapeContext) -> Shapes:
    for index in range(1, 1 + c.attrs["num_streams"]):
        ranked(c, index, 1)
    return []


@define(
    "BoostedTreesQuantileStreamResourceFlush(quantile_stream_resource_handle: resource, num_buckets: int64)",
    "stateful; generate_quantiles: bool = false",
    _USES,
    NotDifferentiable(),
)
def flush(c: ShapeContext) -> Shapes:
    check_scalars(c, 1)
    return []


@define(
    "BoostedTreesQuantileStreamResourceGetBucketBoundaries(quantile_stream_resource_handle: resource) "
    "-> bucket_boundaries: num_features * float",
    "stateful; num_features: int >= 0",
    _USES,
    NotDifferentiable(),
)
def get_boundaries(c: ShapeContext) -> Shapes:
    return [VECTOR] * c.attrs["num_features"]
