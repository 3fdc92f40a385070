"""Boosted trees: the bucket of each value of a feature, and sums of gradients by node and bucket."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.accounting import ask_for
from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.registry import kernel

#: What is held at once for each dimension of an example.
_PLACE_BYTES: Final = 64
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
    out = np.zeros((len(bucketized_features_list), max_splits, num_buckets, 2), np.float64)
    both = np.concatenate([gradients, hessians], axis=1)
    for sums, feature in zip(out, bucketized_features_list, strict=True):
        _check_buckets(feature, len(node_ids), 0, num_buckets)
        np.add.at(sums, (node_ids, feature), both)
    return out.astype(np.float32)


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
    out = np.zeros((max_splits, feature.shape[1], num_buckets + 1, both.shape[1]), np.float64)
    columns = np.arange(feature.shape[1])
    np.add.at(out, (node_ids[:, None], columns[None], feature), both[:, None])
    return out.astype(np.float32)


@kernel("BoostedTreesSparseAggregateStats", fresh=True)
def sparse_aggregate_stats(
    node_ids: Array,
    gradients: Array,
    hessians: Array,
    feature_indices: Array,
    feature_values: Array,
    feature_shape: Array,
    *,
    max_splits: int,
    num_buckets: int,
) -> tuple[Array, Array, Array]:
    """The sums of `BoostedTreesAggregateStats` that an example adds to, of a feature that is sparse.

    feature_indices    (entries, 2): example and dimension, in order of both
    feature_values     (entries,): buckets

    What an example does not have is in the last bucket.
    """
    _check_examples(node_ids, gradients, hessians, max_splits)
    for name, value, rank in (
        ("feature_indices", feature_indices, 2),
        ("feature_values", feature_values, 1),
        ("feature_shape", feature_shape, 1),
    ):
        if value.ndim != rank:
            raise InvalidArgumentError(f"{name} must have rank {rank}, not shape {brackets(value.shape)}")
    if feature_indices.shape[1] != 2 or feature_shape.shape != (2,):
        raise InvalidArgumentError(
            f"feature_indices and feature_shape must be of 2 axes, not {brackets(feature_indices.shape)} and "
            f"{brackets(feature_shape.shape)}"
        )
    if len(feature_values) != len(feature_indices):
        raise InvalidArgumentError(
            f"there are {len(feature_values)} values at {len(feature_indices)} indices"
        )
    examples, width = len(node_ids), int(feature_shape[1])
    _check_buckets(feature_values, len(feature_values), 0, num_buckets + 1)
    if width < 0 or ((feature_indices < 0) | (feature_indices >= (examples, width))).any():
        raise InvalidArgumentError(f"an index of the feature is not in [{examples}, {width}]")
    places = feature_indices[:, 0].astype(np.int64) * width + feature_indices[:, 1]
    if (places[1:] <= places[:-1]).any():
        raise InvalidArgumentError("the indices of the feature are not in order")
    ask_for(_PLACE_BYTES * examples * width)
    buckets = np.full(examples * width, num_buckets, np.int64)
    buckets[places] = feature_values
    both = np.concatenate([gradients, hessians], axis=1)
    # Keys of node, dimension and bucket, in that order; each sum takes its examples in turn.
    columns = np.tile(np.arange(width), examples)
    keys = (np.repeat(node_ids.astype(np.int64), width) * width + columns) * (num_buckets + 1) + buckets
    distinct, slots = np.unique(keys, return_inverse=True)
    sums = np.zeros((len(distinct), both.shape[1]), np.float32)
    np.add.at(sums, slots, np.repeat(both, width, axis=0))
    rest, bucket = np.divmod(distinct, num_buckets + 1)
    node, dimension = np.divmod(rest, max(width, 1))
    count = both.shape[1]
    indices = np.stack([np.repeat(each, count) for each in (node, dimension, bucket)], axis=1)
    numbers = np.tile(np.arange(count), len(distinct))[:, None]
    shape = np.array([max_splits, width, num_buckets + 1, count], np.int32)
    return np.concatenate([indices, numbers], axis=1).astype(np.int32), sums.reshape(-1), shape
