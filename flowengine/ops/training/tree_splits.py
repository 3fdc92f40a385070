"""Boosted trees: the best splits of nodes, by sums of gradients and Hessians in buckets."""

from __future__ import annotations

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, check_scalars, dims_of, merge_dims, ranked


def _check_range(c: ShapeContext) -> None:
    merge_dims(dims_of(ranked(c, 0, 1), 1)[0], 2, "The range of nodes")


@define(
    "BoostedTreesCalculateBestGainsPerFeature(node_id_range: int32, "
    "stats_summary_list: num_features * float, l1, l2, tree_complexity, min_node_weight: float) "
    "-> node_ids_list: num_features * int32, gains_list: num_features * float, "
    "thresholds_list: num_features * int32, left_node_contribs_list, right_node_contribs_list: "
    "num_features * float",
    "max_splits, num_features: int >= 1",
    NotDifferentiable(),
)
def best_gains_per_feature(c: ShapeContext) -> Shapes:
    """Sums (nodes, buckets, 2) of each feature -> one split a node and feature"""
    _check_range(c)
    count = c.attrs["num_features"]
    for index in range(1, count + 1):
        merge_dims(dims_of(ranked(c, index, 3), 3)[2], 2, "Sums")
    # TensorFlow takes the least weight of a node as a vector of one number, too.
    check_scalars(c, *range(count + 1, count + 4))
    return [*[VECTOR] * (3 * count), *[TensorShape([None, 1])] * (2 * count)]


@define(
    "BoostedTreesCalculateBestFeatureSplit(node_id_range: int32, stats_summary, l1, l2, tree_complexity, "
    "min_node_weight: float) "
    "-> node_ids: int32, gains: float, feature_dimensions, thresholds: int32, left_node_contribs, "
    "right_node_contribs: float, split_with_default_directions: string",
    "logits_dimension: int >= 1; split_type: {'inequality', 'equality'} = 'inequality'",
    NotDifferentiable(),
)
def best_feature_split(c: ShapeContext) -> Shapes:
    """Sums (nodes, dimensions, buckets + 1, numbers) of a feature -> one split a node"""
    _check_range(c)
    ranked(c, 1, 4)
    check_scalars(c, 2, 3, 4, 5)
    return _splits(c.attrs["logits_dimension"])


@define(
    "BoostedTreesSparseCalculateBestFeatureSplit(node_id_range, stats_summary_indices: int32, "
    "stats_summary_values: float, stats_summary_shape: int32, l1, l2, tree_complexity, "
    "min_node_weight: float) "
    "-> node_ids: int32, gains: float, feature_dimensions, thresholds: int32, left_node_contribs, "
    "right_node_contribs: float, split_with_default_directions: string",
    "logits_dimension: int >= 1; split_type: {'inequality'} = 'inequality'",
    NotDifferentiable(),
)
def sparse_best_feature_split(c: ShapeContext) -> Shapes:
    """As of dense sums, of those that are there."""
    _check_range(c)
    entries = dims_of(ranked(c, 1, 2), 2)
    merge_dims(entries[1], 4, "The indices")
    merge_dims(entries[0], dims_of(ranked(c, 2, 1), 1)[0], "Entries")
    merge_dims(dims_of(ranked(c, 3, 1), 1)[0], 4, "The shape")
    check_scalars(c, 4, 5, 6, 7)
    return _splits(1)


def _splits(logits: int) -> list[TensorShape]:
    sides = TensorShape([None, logits])
    return [VECTOR, VECTOR, VECTOR, VECTOR, sides, sides, VECTOR]
