"""Boosted trees: the bucket of each value of a feature, and sums of gradients by node and bucket."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.registry import kernel

HOST: Final = "what TensorFlow has for CPUs alone: bins of a few numbers each"


@kernel("BoostedTreesBucketize", fresh=True)
def bucketize(float_values: tuple[Array, ...], bucket_boundaries: tuple[Array, ...]) -> Any:
    """The first bucket of each feature whose boundary is not below a value, or the last one."""
    found = []
    for values, boundaries in zip(float_values, bucket_boundaries, strict=True):
        for name, vector in (("float_values", values), ("bucket_boundaries", boundaries)):
            if vector.ndim != 1:
                raise InvalidArgumentError(
                    f"{name} must be vectors, but one has shape {brackets(vector.shape)}"
                )
        # A search goes on to the right of what is below a value; NaN has nothing below it.
        places = np.where(np.isnan(values), 0, np.searchsorted(boundaries, values))
        found.append(np.clip(places, 0, max(boundaries.size - 1, 0)).astype(np.int32))
    return found[0] if len(found) == 1 else tuple(found) or None


def _check_examples(node_ids: Array, gradients: Array, hessians: Array, splits: int) -> None:
    if node_ids.ndim != 1 or gradients.ndim != 2 or hessians.ndim != 2:
        raise InvalidArgumentError(
            f"node_ids must be a vector, gradients and hessians matrices, not {brackets(node_ids.shape)}, "
            f"{brackets(gradients.shape)} and {brackets(hessians.shape)}"
        )
    if not len(node_ids) == len(gradients) == len(hessians):
        raise InvalidArgumentError(
            f"there are {len(node_ids)} node ids for {len(gradients)} gradients and {len(hessians)} hessians"
        )
    outside = (node_ids < 0) | (node_ids >= splits)
    if outside.any():
        raise InvalidArgumentError(f"node id {int(node_ids[outside][0])} is not in [0, {splits})")


def _check_buckets(feature: Array, examples: int, least: int, buckets: int) -> None:
    if len(feature) != examples:
        raise InvalidArgumentError(f"there are {len(feature)} rows of a feature for {examples} examples")
    outside = (feature < least) | (feature >= buckets)
    if outside.any():
        raise InvalidArgumentError(f"bucket {int(feature[outside][0])} is not in [{least}, {buckets})")


@kernel("BoostedTreesMakeStatsSummary", fresh=True)
def make_stats_summary(
    node_ids: Array,
    gradients: Array,
    hessians: Array,
    bucketized_features_list: tuple[Array, ...],
    *,
    max_splits: int,
    num_buckets: int,
) -> Array:
    """Sums of gradients and Hessians (features, nodes, buckets, 2)."""
    _check_examples(node_ids, gradients, hessians, max_splits)
    if gradients.shape[1] != 1 or hessians.shape[1] != 1:
        raise InvalidArgumentError(
            f"gradients and hessians must have one column, not {gradients.shape[1]} and {hessians.shape[1]}"
        )
    out = np.zeros((len(bucketized_features_list), max_splits, num_buckets, 2), np.float32)
    both = np.concatenate([gradients, hessians], axis=1)
    for sums, feature in zip(out, bucketized_features_list, strict=True):
        _check_buckets(feature, len(node_ids), 0, num_buckets)
        np.add.at(sums, (node_ids, feature), both)
    return out


@kernel("BoostedTreesAggregateStats", fresh=True)
def aggregate_stats(
    node_ids: Array,
    gradients: Array,
    hessians: Array,
    feature: Array,
    *,
    max_splits: int,
    num_buckets: int,
) -> Array:
    """Sums of gradients and Hessians (nodes, dimensions of the feature, buckets + 1, numbers of both).

    Bucket -1 is that of examples without the feature, whose sums come last.
    """
    _check_examples(node_ids, gradients, hessians, max_splits)
    if feature.ndim != 2:
        raise InvalidArgumentError(f"feature must be a matrix, not {brackets(feature.shape)}")
    _check_buckets(feature, len(node_ids), -1, num_buckets)
    both = np.concatenate([gradients, hessians], axis=1)
    out = np.zeros((max_splits, feature.shape[1], num_buckets + 1, both.shape[1]), np.float32)
    columns = np.arange(feature.shape[1])
    np.add.at(out, (node_ids[:, None], columns[None], feature), both[:, None])
    return out
