"""Linear models by stochastic dual coordinate ascent (Shalev-Shwartz and Zhang, 2013).

Every example has a dual variable. In turn each is set to what is best for it while the others stay, and the
weights follow: they are the sum of the examples, by their duals. The order of examples is drawn anew for
each number of examples, but the same at every call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.core.checksums.hashing import fingerprint128
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.common import philox
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.registry import kernel
from flowengine.kernels.training.dual_losses import LOSSES, DualLoss

HOST: Final = "examples one after another, each by the weights that the one before it left"

#: Two values that tables keep for themselves are no fingerprints.
_RESERVED: Final = 2
_WHOLE: Final = 1 << 64


@kernel("SdcaFprint", fresh=True, device="CPU")
def sdca_fprint(ids: Any) -> Any:
    """FarmHash's fingerprints of 128 bits, (N,) -> (N, 2) int64."""
    if getattr(ids, "ndim", 0) != 1:
        raise InvalidArgumentError(f"Input must be a vector, got shape {brackets(getattr(ids, 'shape', ()))}")
    found = [fingerprint128(each) for each in ids.tolist()]
    low = [a if a >= _RESERVED else a + _WHOLE - _RESERVED for a, _ in found]
    pairs = np.array([low, [b for _, b in found]], np.uint64).reshape(2, -1)
    return np.ascontiguousarray(pairs.T).view(np.int64)


def shrunk(weights: Any, shrinkage: Any) -> Any:
    """Nearer to zero by so much, and zero where it is nearer already."""
    return np.sign(weights) * np.maximum(np.abs(weights) - shrinkage, 0.0)


@dataclass(frozen=True)
class _Feature:
    """A group of features: of each example some indices into its weights, with values.

    starts     where the features of each example begin, and at last where those of the last one end
    """

    starts: Array
    places: Array
    values: Array
    weights: Array
    deltas: Array

    def of(self, example: int) -> slice:
        return slice(self.starts[example], self.starts[example + 1])


def _sparse(
    number: int,
    examples: Array,
    features: Array,
    values: Array | None,
    indices: Array,
    weights: Array,
    count: int,
) -> _Feature:
    """A group of sparse features; features of an example stand together, examples in order."""
    if examples.size != features.size or (values is not None and values.size != features.size):
        raise InvalidArgumentError(
            f"Found mismatched example_indices and feature_indices in group {number}: "
            f"{brackets(examples.shape)} vs {brackets(features.shape)}"
        )
    if indices.size != weights.size:
        raise InvalidArgumentError(
            f"sparse_indices and sparse_weights of group {number} must have the same size: "
            f"{indices.size} and {weights.size}"
        )
    starts = np.searchsorted(examples, np.arange(count + 1))
    order = np.argsort(indices, kind="stable")
    at = np.searchsorted(indices[order], features)
    known = at < indices.size
    known[known] = indices[order][at[known]] == features[known]
    if not known.all():
        raise InvalidArgumentError(f"Found sparse feature indices out of valid range: {features[~known][0]}")
    pairs = np.stack([examples, features])
    if np.unique(pairs, axis=1).shape[1] != features.size:
        raise InvalidArgumentError("Duplicate index in sparse vector.")
    given = np.ones(features.size) if values is None else values.astype(np.float64)
    return _Feature(starts, order[at] if features.size else at, given, weights, np.zeros_like(weights))


class _LinearModel:
    """All groups of features, and the weights with what was added to them."""

    def __init__(self, inputs: Sequence[Any], attrs: Any) -> None:
        examples, features, values, dense, weights, labels, indices, sparse_w, dense_w = inputs
        self.count = weights.size
        if labels.size != self.count:
            raise InvalidArgumentError(f"Expected {self.count} example labels but got {labels.size}")
        self.sparse = [
            _sparse(i, *parts, self.count)
            for i, parts in enumerate(
                zip(
                    examples,
                    features,
                    [*values, *[None] * (len(features) - len(values))],
                    indices,
                    sparse_w,
                    strict=True,
                )
            )
        ]
        self.dense = list(zip(dense, dense_w, map(np.zeros_like, dense_w), strict=True))
        for i, (rows, given, _) in enumerate(self.dense):
            if rows.ndim != 2 or rows.shape[0] != self.count:
                raise InvalidArgumentError(
                    f"Dense features at index {i} must be rank 2 with {self.count} rows but have shape "
                    f"{brackets(rows.shape)}"
                )
            if rows.shape[1] > given.size:
                raise InvalidArgumentError(
                    f"More dense features than we have parameters for: {rows.shape[1]}"
                )
        self._partitions = attrs["num_loss_partitions"]
        self._l2 = attrs["l2"]
        self._shrinkage = attrs["l1"] / attrs["l2"] if attrs["l2"] else 0.0

    def squared_norms(self) -> Any:
        total = np.zeros(self.count)
        for group in self.sparse:
            sums = np.concatenate([[0.0], np.cumsum(np.square(group.values))])
            total += sums[group.starts[1:]] - sums[group.starts[:-1]]
        for rows, _, _ in self.dense:
            total += np.square(rows.astype(np.float64)).sum(1)
        return total

    def products(self, example: int) -> tuple[float, float]:
        """The example times the weights: as they are now, and as they were given."""
        now = before = 0.0
        for group in self.sparse:
            of = group.of(example)
            places, values = group.places[of], group.values[of]
            given = group.weights[places].astype(np.float64)
            before += float(values @ shrunk(given, self._shrinkage))
            moved = given + group.deltas[places].astype(np.float64) * self._partitions
            now += float(values @ shrunk(moved, self._shrinkage))
        for rows, weights, deltas in self.dense:
            row = rows[example]
            before += float(row @ shrunk(weights.reshape(-1)[: row.size], self._shrinkage))
            moved = (weights + deltas * np.float32(self._partitions)).reshape(-1)
            now += float(row @ shrunk(moved[: row.size], self._shrinkage))
        return now, before

    def add(self, example: int, factor: float) -> None:
        """The example times a factor to the weights."""
        for group in self.sparse:
            of = group.of(example)
            group.deltas[group.places[of]] += (group.values[of] * factor).astype(np.float32)
        for rows, _, deltas in self.dense:
            row = rows[example]
            deltas.reshape(-1)[: row.size] += row * np.float32(factor)

    def step(
        self, example: int, loss: DualLoss, state: Array, label: float, weight: float, norm: float
    ) -> None:
        """One dual variable to what is best for it, and the weights with it."""
        now, before = self.products(example)
        dual = float(state[example, 0])
        curvature = self._partitions * norm / self._l2 * weight
        best = loss.updated(label, dual, now, curvature)
        self.add(example, (best - dual) * weight / self._l2)
        state[example] = (best, loss.primal(before, label, weight), loss.dual(dual, label, weight), weight)


def _order(count: int) -> list[int]:
    """Examples in an order that is as good as random, and always the same."""
    chances = philox.uniform(np, count, 0, count, dtypes.float32)
    order: list[int] = np.argsort(chances, kind="stable").tolist()
    return order


def _likely_first(
    model: _LinearModel, loss: DualLoss, state: Array, labels: Array, weights: Array, l2: float
) -> list[int]:
    """Examples that are far from what is best for them, before the others."""
    norms = model.squared_norms()
    far = [
        weights[i]
        * np.sqrt(norms[i] + l2 * loss.smoothness)
        * abs(state[i, 0] + loss.slope(model.products(i)[0], labels[i]))
        for i in range(model.count)
    ]
    order: list[int] = np.argsort(-np.array(far), kind="stable").tolist()
    return order


@kernel("SdcaOptimizer", "SdcaOptimizerV2", fresh=True, device="CPU")
def sdca_optimizer(*inputs: Any, node: Node) -> Any:
    """One pass over the examples: their new state (N, 4), and what is to be added to the weights.

    inputs   for each group of sparse features its examples, its features and its values; dense features,
             weights and labels of examples; for each group its indices and weights; dense weights; the state
    """
    attrs = node.attrs
    if attrs["num_sparse_features"] + attrs["num_dense_features"] <= 0:
        raise InvalidArgumentError("Requires at least one feature to train.")
    if attrs["l2"] <= 0:
        raise InvalidArgumentError(f"l2 must be positive, but is {attrs['l2']}")
    model = _LinearModel(inputs[:9], attrs)
    weights, labels, state = inputs[4].reshape(-1), inputs[5].reshape(-1), inputs[9]
    if state.shape != (model.count, 4):
        raise InvalidArgumentError(
            f"Expected shape {brackets((model.count, 4))} for example_state_data, got {brackets(state.shape)}"
        )
    loss = LOSSES[attrs["loss_type"]]
    converted = [loss.label(float(label)) for label in labels]
    state, norms = state.copy(), model.squared_norms()
    adaptive = attrs.get("adaptive", attrs.get("adaptative"))
    if adaptive:
        order = _likely_first(model, loss, state, np.array(converted), weights, attrs["l2"])
    else:
        order = _order(model.count)
    for example in order:
        model.step(example, loss, state, converted[example], float(weights[example]), float(norms[example]))
    return state, *(group.deltas for group in model.sparse), *(deltas for _, _, deltas in model.dense)


@kernel("SdcaShrinkL1", device="CPU")
def sdca_shrink_l1(*weights: Any, node: Node) -> None:
    """All weights nearer to zero by l1 / l2, in place; those that are nearer already become zero."""
    shrinkage = np.float32(node.attrs["l1"]) / np.float32(node.attrs["l2"])
    for variable in weights[0] if weights else ():
        target = variable.mutable()
        target[...] = shrunk(target, shrinkage)
