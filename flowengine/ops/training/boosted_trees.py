"""Boosted trees: buckets of features, and sums of gradients in them."""

from __future__ import annotations

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, add_dims, dims_of, merge_dims, ranked, vector


@define(
    "BoostedTreesBucketize(float_values, bucket_boundaries: num_features * float) "
    "-> buckets: num_features * int32",
    "num_features: int >= 0",
    NotDifferentiable(),
)
def bucketize(c: ShapeContext) -> Shapes:
    """Vectors of values, of one length, and vectors of boundaries"""
    count = c.attrs["num_features"]
    length = None
    for index in range(count):
        length = merge_dims(length, dims_of(ranked(c, index, 1), 1)[0], "The numbers of values")
        ranked(c, count + index, 1)
    return [TensorShape([length])] * count


def _check_examples(c: ShapeContext) -> None:
    """Node ids, gradients and Hessians are of the same examples."""
    length = merge_dims(dims_of(ranked(c, 0, 1), 1)[0], dims_of(ranked(c, 1, 2), 2)[0], "Examples")
    merge_dims(length, dims_of(ranked(c, 2, 2), 2)[0], "Examples")


@define(
    "BoostedTreesMakeStatsSummary(node_ids: int32, gradients, hessians: float, "
    "bucketized_features_list: num_features * int32) -> stats_summary: float",
    "max_splits, num_buckets, num_features: int >= 1",
    NotDifferentiable(),
)
def make_stats_summary(c: ShapeContext) -> Shapes:
    _check_examples(c)
    for index in range(c.attrs["num_features"]):
        ranked(c, 3 + index, 1)
    sizes = [c.attrs[name] for name in ("num_features", "max_splits", "num_buckets")]
    return [TensorShape([*sizes, 2])]


@define(
    "BoostedTreesAggregateStats(node_ids: int32, gradients, hessians: float, feature: int32) "
    "-> stats_summary: float",
    "max_splits, num_buckets: int >= 1",
    NotDifferentiable(),
)
def aggregate_stats(c: ShapeContext) -> Shapes:
    """The bucket behind the others is of examples that lack the feature."""
    _check_examples(c)
    width = dims_of(ranked(c, 3, 2), 2)[1]
    stats = add_dims(dims_of(c.input(1), 2)[1], dims_of(c.input(2), 2)[1])
    return [TensorShape([c.attrs["max_splits"], width, c.attrs["num_buckets"] + 1, stats])]


@define(
    "BoostedTreesSparseAggregateStats(node_ids: int32, gradients, hessians: float, "
    "feature_indices, feature_values, feature_shape: int32) "
    "-> stats_summary_indices: int32, stats_summary_values: float, stats_summary_shape: int32",
    "max_splits, num_buckets: int >= 1",
    NotDifferentiable(),
)
def sparse_aggregate_stats(c: ShapeContext) -> Shapes:
    """A sparse feature (examples, dimensions) -> sparse sums (nodes, dimensions, buckets + 1, numbers)."""
    _check_examples(c)
    entries = dims_of(ranked(c, 3, 2), 2)
    merge_dims(entries[1], 2, "The indices")
    merge_dims(entries[0], dims_of(ranked(c, 4, 1), 1)[0], "Entries")
    merge_dims(dims_of(ranked(c, 5, 1), 1)[0], 2, "The shape")
    return [TensorShape([None, 4]), VECTOR, vector(4)]
