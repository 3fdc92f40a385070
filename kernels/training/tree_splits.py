"""Boosted trees: the best split of each node, by what second-order boosting gains (Chen and Guestrin, 2016,
section 2.2).

With sums G of gradients and H of Hessians a leaf's best weight is `-G / (H + l2)`, its gain `G^2 / (H + l2)`;
`l1` draws G towards 0 first. A split gains what its sides gain more than their node.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets, scalar, shape_of
from flowengine.kernels.registry import kernel
from flowengine.resources.forests.ensemble import DEFAULT_LEFT, DEFAULT_RIGHT, EQUAL_DEFAULT_RIGHT

HOST: Final = "what TensorFlow has for CPUs alone: sums of a few buckets, and one best of them a node"

#: A Hessian that is not over this is taken for 0.
_LEAST_HESSIAN: Final = np.float32(1e-15)
#: What a gain must be over the best one, to be better.
_LEAST_DIFFERENCE: Final = np.float32(1e-15)
_LOWEST: Final = np.finfo(np.float32).min


@dataclass(frozen=True, slots=True)
class _Penalties:
    """How splits are held back: all float32."""

    l1: np.float32
    l2: np.float32
    complexity: np.float32
    least_weight: np.float32

    @classmethod
    def of(cls, l1: Any, l2: Any, tree_complexity: Any, min_node_weight: Any) -> _Penalties:
        named = {"l1": l1, "l2": l2, "tree_complexity": tree_complexity, "min_node_weight": min_node_weight}
        for name, value in named.items():
            if shape_of(value) != ():
                raise InvalidArgumentError(
                    f"{name} must be a scalar, not of shape {brackets(shape_of(value))}"
                )
        return cls(*(np.float32(value) for value in named.values()))


def weights_and_gains(
    gradients: Array, hessians: Array, l1: np.float32, l2: np.float32
) -> tuple[Array, Array]:
    """The best weights of leaves (leaves, logits), and their gains (leaves,), float32.

    gradients    (leaves, logits)
    hessians     (leaves, logits) for the diagonal, (leaves, logits * logits) for all of the matrix
    """
    logits = gradients.shape[1]
    if logits > 1:
        return _several_logits(gradients, hessians, l2)
    gradient, hessian = gradients[:, 0], hessians[:, 0]
    drawn = gradient
    flat = np.zeros(len(gradient), bool)
    if l1 > 0:
        drawn = gradient - np.copysign(l1, gradient)
        flat = ~((gradient > l1) | (gradient < -l1))
    divisor = hessian + l2
    flat = flat | (divisor <= _LEAST_HESSIAN)
    zero = np.float32(0)
    with np.errstate(all="ignore"):
        weights = np.where(flat, zero, -drawn / divisor)
        gains = np.where(flat, zero, -drawn * weights)
    return weights[:, None], gains


def _several_logits(gradients: Array, hessians: Array, l2: np.float32) -> tuple[Array, Array]:
    leaves, logits = gradients.shape
    singular = np.zeros(leaves, np.bool_)
    with np.errstate(all="ignore"):
        if hessians.shape[1] == logits:
            diagonal = hessians + l2
            weights = -(np.float32(1) / diagonal) * gradients
            singular[:] = (diagonal == 0).any(axis=1)
            matrices = np.zeros((leaves, logits, logits), np.float32)
            matrices[:, np.arange(logits), np.arange(logits)] = diagonal
        else:
            matrices = hessians.reshape(leaves, logits, logits).transpose(0, 2, 1)
            matrices = matrices + l2 * np.eye(logits, dtype=np.float32)
            finite = np.isfinite(matrices).all(axis=(1, 2))
            singular[~finite] = True
            singular[finite] = np.linalg.matrix_rank(matrices[finite]) < logits
            weights = np.zeros_like(gradients)
            weights[~singular] = -np.linalg.solve(matrices[~singular], gradients[~singular][..., None])[
                ..., 0
            ]
        for leaf in np.flatnonzero(singular):
            weights[leaf] = -_basic_solution(matrices[leaf], gradients[leaf])
        gains: Array = (-gradients * weights).sum(axis=1)
    return weights, gains


def _basic_solution(matrix: Array, right: Array) -> Array:
    """A solution with zeros where columns depend on others; NaN where a number is none."""
    import scipy.linalg

    if not np.isfinite(matrix).all():
        return np.full_like(right, np.nan)
    q, r, order = scipy.linalg.qr(matrix, pivoting=True)
    pivots = np.abs(np.diag(r))
    rank = int((pivots > pivots.max() * np.finfo(np.float32).eps * len(right)).sum())
    found = np.zeros_like(right)
    if rank:
        found[order[:rank]] = scipy.linalg.solve_triangular(r[:rank, :rank], (q.T @ right)[:rank])
    return found


def _best_of(gains: Array) -> int:
    """The place of the best gain, the first among equals; -1 where none is a number over the lowest."""
    with np.errstate(all="ignore"):
        known = np.where(np.isnan(gains), -np.inf, gains)
        before = np.concatenate([[_LOWEST], np.maximum.accumulate(known)[:-1]]) if len(known) else known
        best, best_gain = -1, np.float32(_LOWEST)
        # Only a gain over all before it can be better than the best so far by the least difference.
        for place in np.flatnonzero(known > before).tolist():
            if known[place] - best_gain >= _LEAST_DIFFERENCE:
                best, best_gain = place, known[place]
    return best


@dataclass(slots=True)
class _SplitTable:
    """The splits that were found, one a node."""

    node_ids: list[int] = field(default_factory=list)
    gains: list[np.float32] = field(default_factory=list)
    dimensions: list[int] = field(default_factory=list)
    thresholds: list[int] = field(default_factory=list)
    left: list[Array] = field(default_factory=list)
    right: list[Array] = field(default_factory=list)
    kinds: list[bytes] = field(default_factory=list)

    def outputs(self, logits: int) -> tuple[Array, ...]:
        kinds = np.empty(len(self.kinds), object)
        kinds[:] = self.kinds
        return (
            np.array(self.node_ids, np.int32),
            np.array(self.gains, np.float32),
            np.array(self.dimensions, np.int32),
            np.array(self.thresholds, np.int32),
            np.array(self.left, np.float32).reshape(-1, logits),
            np.array(self.right, np.float32).reshape(-1, logits),
            kinds,
        )


@dataclass(frozen=True, slots=True)
class _Sides:
    """Ways to split a node: what the left side of each holds, in the order in which they are tried."""

    gradients: Array
    hessians: Array
    dimensions: Array
    buckets: Array
    kinds: list[bytes]


def _choose(
    found: _SplitTable,
    node: int,
    gradient: Array,
    hessian: Array,
    parent_gain: np.float32,
    sides: _Sides,
    p: _Penalties,
) -> None:
    """Add the best of the ways to split a node, whose own sums are given, if one gains a number."""
    left, left_gains = weights_and_gains(sides.gradients, sides.hessians, p.l1, p.l2)
    right, right_gains = weights_and_gains(gradient - sides.gradients, hessian - sides.hessians, p.l1, p.l2)
    with np.errstate(all="ignore"):
        gains = left_gains + right_gains
        best = _best_of(gains)
        if best < 0:
            return
        found.gains.append(gains[best] - parent_gain - p.complexity)
    found.node_ids.append(node)
    found.dimensions.append(int(sides.dimensions[best]))
    found.thresholds.append(int(sides.buckets[best]))
    found.left.append(left[best])
    found.right.append(right[best])
    found.kinds.append(sides.kinds[best])


def _nodes(node_id_range: Array, nodes: int) -> range:
    """The nodes of a range that lies within so many."""
    if shape_of(node_id_range) != (2,):
        raise InvalidArgumentError(
            f"node_id_range must be of shape [2], not {brackets(shape_of(node_id_range))}"
        )
    first, last = (scalar(each, "node_id_range") for each in node_id_range)
    if first < last and not 0 <= first < last <= nodes:
        raise InvalidArgumentError(
            f"node_id_range [{first}, {last}) is not within the {nodes} nodes of the sums"
        )
    return range(first, last)


@kernel("BoostedTreesCalculateBestFeatureSplit", fresh=True)
def best_feature_split(
    node_id_range: Array,
    stats_summary: Array,
    l1: Any,
    l2: Any,
    tree_complexity: Any,
    min_node_weight: Any,
    *,
    logits_dimension: int,
    split_type: bytes,
) -> tuple[Array, ...]:
    """The best split of each node by one feature, by its sums (nodes, dimensions, buckets + 1, numbers)."""
    if stats_summary.ndim != 4:
        raise InvalidArgumentError(
            f"stats_summary must have rank 4, not shape {brackets(stats_summary.shape)}"
        )
    penalties = _Penalties.of(l1, l2, tree_complexity, min_node_weight)
    nodes, width, buckets, numbers = stats_summary.shape
    logits = logits_dimension
    if numbers - logits not in (logits, logits * logits):
        raise InvalidArgumentError(
            f"of {numbers} sums {logits} are gradients: {logits} or {logits * logits} Hessians must be left"
        )
    buckets -= 1
    found = _SplitTable()
    if not width or buckets < 0:
        return found.outputs(logits)
    for node in _nodes(node_id_range, nodes):
        sums = stats_summary[node]
        total = np.add.reduce(sums[0], axis=0, dtype=np.float32)
        gradient, hessian = total[:logits], total[logits:]
        if np.linalg.norm(hessian) < penalties.least_weight:
            continue
        _, parent_gain = weights_and_gains(gradient[None], hessian[None], penalties.l1, penalties.l2)
        if split_type == b"equality":
            sides = _equal_sides(sums, logits)
        else:
            sides = _ordered_sides(sums, logits)
            # Each dimension has its own sum, which differs from the others by rounding.
            own = np.cumsum(sums, axis=1, dtype=np.float32)[:, -1]
            own = np.repeat(own, 2 * buckets, axis=0)
            gradient, hessian = own[:, :logits], own[:, logits:]
        _choose(found, node, gradient, hessian, parent_gain[0], sides, penalties)
    return found.outputs(logits)


def _ordered_sides(sums: Array, logits: int) -> _Sides:
    """The buckets up to each one go left; the examples without the feature go left, then right."""
    width, buckets = sums.shape[0], sums.shape[1] - 1
    upto = np.cumsum(sums[:, :buckets], axis=1, dtype=np.float32)
    both = np.stack([upto + sums[:, buckets:], upto], axis=2).reshape(width * buckets * 2, -1)
    return _Sides(
        both[:, :logits],
        both[:, logits:],
        np.repeat(np.arange(width), buckets * 2),
        np.tile(np.repeat(np.arange(buckets), 2), width),
        [DEFAULT_LEFT, DEFAULT_RIGHT] * (width * buckets),
    )


def _equal_sides(sums: Array, logits: int) -> _Sides:
    """One bucket goes left."""
    width, buckets = sums.shape[0], sums.shape[1] - 1
    each = sums[:, :buckets].reshape(width * buckets, -1)
    return _Sides(
        each[:, :logits],
        each[:, logits:],
        np.repeat(np.arange(width), buckets),
        np.tile(np.arange(buckets), width),
        [EQUAL_DEFAULT_RIGHT] * (width * buckets),
    )


@kernel("BoostedTreesSparseCalculateBestFeatureSplit", fresh=True)
def sparse_best_feature_split(
    node_id_range: Array,
    stats_summary_indices: Array,
    stats_summary_values: Array,
    stats_summary_shape: Array,
    l1: Any,
    l2: Any,
    tree_complexity: Any,
    min_node_weight: Any,
) -> tuple[Array, ...]:
    """The best split of each node by one feature, by those of its sums that are there.

    stats_summary_indices    (entries, 4): node, dimension, bucket and number, nodes in order
    """
    penalties = _Penalties.of(l1, l2, tree_complexity, min_node_weight)
    indices, values = stats_summary_indices, stats_summary_values
    if indices.ndim != 2 or indices.shape[1] != 4 or values.shape != indices.shape[:1]:
        raise InvalidArgumentError(
            f"indices [n,4] and values [n] are wanted, not {brackets(indices.shape)} and "
            f"{brackets(values.shape)}"
        )
    if stats_summary_shape.shape != (4,):
        raise InvalidArgumentError(
            f"stats_summary_shape must be of shape [4], not {brackets(stats_summary_shape.shape)}"
        )
    last_bucket, numbers = int(stats_summary_shape[2]) - 1, int(stats_summary_shape[3])
    if numbers < 2:
        raise InvalidArgumentError(f"sums of a gradient and a Hessian are wanted, not {numbers} numbers")
    astray = (indices < 0).any(axis=1) | (indices[:, 2] > last_bucket) | (indices[:, 3] >= numbers)
    if astray.any():
        raise InvalidArgumentError(
            f"{indices[astray][0].tolist()} is no index of sums of {last_bucket + 1} buckets and "
            f"{numbers} numbers"
        )
    nodes = _nodes(node_id_range, np.iinfo(np.int32).max)
    outside = (indices[:, 0] < nodes.start) | (indices[:, 0] >= nodes.stop)
    if outside.any():
        raise InvalidArgumentError(
            f"node {int(indices[outside][0, 0])} is not in [{nodes.start}, {nodes.stop})"
        )
    found = _SplitTable()
    for rows in np.split(np.arange(len(indices)), np.flatnonzero(np.diff(indices[:, 0])) + 1):
        if rows.size:
            _sparse_node(found, indices[rows], values[rows], last_bucket, penalties)
    return found.outputs(1)


def _sparse_node(found: _SplitTable, indices: Array, values: Array, last_bucket: int, p: _Penalties) -> None:
    places, slots = np.unique(indices[:, 1:3], axis=0, return_inverse=True)
    sums = np.zeros((len(places), 2), np.float32)
    # The last value that stands for a place counts.
    for number in (0, 1):
        chosen = indices[:, 3] == number
        sums[slots.reshape(-1)[chosen], number] = values[chosen]
    sides, kinds, dimensions, buckets, total = [], [], [], [], None
    for rows in np.split(np.arange(len(places)), np.flatnonzero(np.diff(places[:, 0])) + 1):
        here = sums[rows]
        if total is None:
            total = np.cumsum(here, axis=0, dtype=np.float32)[-1]
            if total[1] < p.least_weight:
                return
        missing = here[places[rows, 1] == last_bucket].sum(axis=0, dtype=np.float32)
        present = places[rows, 1] < last_bucket
        upto = np.cumsum(here[present], axis=0, dtype=np.float32)
        sides.append(np.stack([upto, upto + missing], axis=1).reshape(-1, 2))
        kinds += [DEFAULT_RIGHT, DEFAULT_LEFT] * len(upto)
        dimensions.append(np.repeat(places[rows, 0][present], 2))
        buckets.append(np.repeat(places[rows, 1][present], 2))
    if total is None:
        return
    left = np.concatenate(sides)
    _, parent_gain = weights_and_gains(total[None, :1], total[None, 1:], p.l1, p.l2)
    ways = _Sides(left[:, :1], left[:, 1:], np.concatenate(dimensions), np.concatenate(buckets), kinds)
    _choose(found, int(indices[0, 0]), total[None, :1], total[None, 1:], parent_gain[0], ways, p)


@kernel("BoostedTreesCalculateBestGainsPerFeature", fresh=True)
def best_gains_per_feature(
    node_id_range: Array,
    stats_summary_list: tuple[Array, ...],
    l1: Any,
    l2: Any,
    tree_complexity: Any,
    min_node_weight: Any,
) -> tuple[Array, ...]:
    """The best split of each node by each feature, by its sums (nodes, buckets, 2): a list of each output."""
    if np.size(min_node_weight) == 1:
        min_node_weight = np.reshape(min_node_weight, ())
    penalties = _Penalties.of(l1, l2, tree_complexity, min_node_weight)
    every = []
    for sums in stats_summary_list:
        if sums.ndim != 3 or sums.shape[2] != 2:
            raise InvalidArgumentError(f"sums (nodes, buckets, 2) are wanted, not {brackets(sums.shape)}")
        if sums.shape[1] != stats_summary_list[0].shape[1]:
            raise InvalidArgumentError("the features have different numbers of buckets")
        found = _SplitTable()
        for node in _nodes(node_id_range, sums.shape[0]):
            upto = np.cumsum(sums[node], axis=0, dtype=np.float32)
            total = upto[-1:] if len(upto) else np.zeros((1, 2), np.float32)
            if total[0, 1] < penalties.least_weight:
                continue
            _, parent_gain = weights_and_gains(total[:, :1], total[:, 1:], penalties.l1, penalties.l2)
            ways = _Sides(
                upto[:, :1],
                upto[:, 1:],
                np.zeros(len(upto), np.int64),
                np.arange(len(upto)),
                [DEFAULT_LEFT] * len(upto),
            )
            _choose(found, node, total[:, :1], total[:, 1:], parent_gain[0], ways, penalties)
        node_ids, gains, _, thresholds, left, right, _ = found.outputs(1)
        every.append((node_ids, gains, thresholds, left, right))
    return tuple(each for lists in zip(*every, strict=True) for each in lists)
