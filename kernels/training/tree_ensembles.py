"""Boosted trees as nodes. The handle that flows is the ensemble."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.common.array_args import brackets, scalar, shape_of
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel
from flowengine.kernels.training.tree_splits import weights_and_gains
from flowengine.resources.forests.ensemble import DEFAULT_LEFT, KINDS, BoostedEnsemble, SplitCandidate
from flowengine.resources.forests.paths import Features
from flowengine.resources.names import resource_name

HOST: Final = "trees are objects in host memory, and what TensorFlow has for CPUs alone"

#: Gains that differ by less are equal: then the first feature wins.
_LEAST_DIFFERENCE: Final = np.float32(1e-15)


@kernel("BoostedTreesEnsembleResourceHandleOp", heavy=False)
def ensemble_handle(
    *, ctx: KernelContext, node: Node, container: bytes, shared_name: bytes
) -> BoostedEnsemble:
    """The ensemble of this container and name, which need not exist yet."""
    where, name = resource_name(container, shared_name, node.name)
    return ctx.resources.lookup_or_create(
        where, name, BoostedEnsemble, lambda: BoostedEnsemble(name, container=where)
    )


def _checked(handle: Any) -> BoostedEnsemble:
    if isinstance(handle, BoostedEnsemble):
        return handle
    raise InvalidArgumentError(f"the handle of an ensemble of trees is wanted, not a {type(handle).__name__}")


def text_of(value: Any, what: str) -> bytes:
    """A string that is alone; InvalidArgumentError for a tensor of several."""
    if shape_of(value) != ():
        raise InvalidArgumentError(f"{what} must be a scalar, not of shape {brackets(shape_of(value))}")
    text: bytes = value.item() if isinstance(value, np.ndarray) else value
    return text


@kernel("IsBoostedTreesEnsembleInitialized", heavy=False)
def is_initialized(tree_ensemble_handle: Any) -> Any:
    """Whether the ensemble was created (bool, rank 0)."""
    return np.bool_(_checked(tree_ensemble_handle).exists)


@kernel("BoostedTreesCreateEnsemble")
def create_ensemble(tree_ensemble_handle: Any, stamp_token: Any, tree_ensemble_serialized: Any) -> None:
    """Make the ensemble of bytes, where there is none yet."""
    serialized = text_of(tree_ensemble_serialized, "tree_ensemble_serialized")
    _checked(tree_ensemble_handle).create(scalar(stamp_token, "stamp_token"), serialized)


@kernel("BoostedTreesDeserializeEnsemble")
def deserialize_ensemble(tree_ensemble_handle: Any, stamp_token: Any, tree_ensemble_serialized: Any) -> None:
    """Make the ensemble anew, of bytes."""
    serialized = text_of(tree_ensemble_serialized, "tree_ensemble_serialized")
    _checked(tree_ensemble_handle).restore(scalar(stamp_token, "stamp_token"), serialized)


@kernel("BoostedTreesSerializeEnsemble")
def serialize_ensemble(tree_ensemble_handle: Any) -> tuple[Any, bytes]:
    """The stamp and the bytes of the ensemble."""
    stamp, serialized = _checked(tree_ensemble_handle).serialized()
    return np.int64(stamp), serialized


@kernel("BoostedTreesGetEnsembleStates", heavy=False)
def ensemble_states(tree_ensemble_handle: Any) -> tuple[Any, ...]:
    """The stamp, how many trees, finalised trees and tried layers there are, the last layer's range."""
    stamp, trees, finalised, layers, last = _checked(tree_ensemble_handle).states()
    return np.int64(stamp), np.int32(trees), np.int32(finalised), np.int32(layers), np.array(last, np.int32)


@kernel("BoostedTreesCenterBias")
def center_bias(
    tree_ensemble_handle: Any, mean_gradients: Array, mean_hessians: Array, l1: Any, l2: Any
) -> Any:
    """Move the bias by what is best for means of gradients and Hessians; whether to go on (bool, rank 0)."""
    for name, value in (("l1", l1), ("l2", l2)):
        if shape_of(value) != ():
            raise InvalidArgumentError(f"{name} must be a scalar, not of shape {brackets(shape_of(value))}")
    if mean_gradients.ndim != 2 or mean_gradients.size != 1 or mean_hessians.size != 1:
        raise InvalidArgumentError(
            "one mean of gradients and one of Hessians are wanted, not "
            f"{brackets(mean_gradients.shape)} and {brackets(mean_hessians.shape)}"
        )
    weights, _ = weights_and_gains(
        mean_gradients.reshape(1, 1), mean_hessians.reshape(1, 1), np.float32(l1), np.float32(l2)
    )
    return np.bool_(_checked(tree_ensemble_handle).center_bias(weights[0, 0]))


@kernel("BoostedTreesUpdateEnsemble")
def update_ensemble(
    tree_ensemble_handle: Any,
    feature_ids: Array,
    node_ids: tuple[Array, ...],
    gains: tuple[Array, ...],
    thresholds: tuple[Array, ...],
    left_node_contribs: tuple[Array, ...],
    right_node_contribs: tuple[Array, ...],
    max_depth: Any,
    learning_rate: Any,
    *,
    pruning_mode: int,
) -> None:
    """Grow a layer by the best of the candidates that each feature has for a node."""
    if shape_of(feature_ids) != (len(node_ids),):
        raise InvalidArgumentError(
            f"feature_ids of {len(node_ids)} features are of shape {brackets(shape_of(feature_ids))}"
        )
    lists = zip(
        (np.broadcast_to(each, nodes.shape) for each, nodes in zip(feature_ids, node_ids, strict=True)),
        node_ids,
        gains,
        thresholds,
        (np.zeros(nodes.shape, np.int32) for nodes in node_ids),
        left_node_contribs,
        right_node_contribs,
        (None for _ in node_ids),
        strict=True,
    )
    _grow(tree_ensemble_handle, lists, max_depth, learning_rate, pruning_mode, 1)


@kernel("BoostedTreesUpdateEnsembleV2")
def update_ensemble_v2(
    tree_ensemble_handle: Any,
    feature_ids: tuple[Array, ...],
    dimension_ids: tuple[Array, ...],
    node_ids: tuple[Array, ...],
    gains: tuple[Array, ...],
    thresholds: tuple[Array, ...],
    left_node_contribs: tuple[Array, ...],
    right_node_contribs: tuple[Array, ...],
    split_types: tuple[Array, ...],
    max_depth: Any,
    learning_rate: Any,
    pruning_mode: Any,
    *,
    logits_dimension: int,
) -> None:
    """As the first form, with the dimension and the kind of each candidate.

    TensorFlow 1 has one vector with the id of each feature; TensorFlow 2 one vector a group of features, with
    the id of each candidate. The lengths distinguish them.
    """
    lists = zip(
        _ids_of_candidates(feature_ids, node_ids),
        node_ids,
        gains,
        thresholds,
        dimension_ids,
        left_node_contribs,
        right_node_contribs,
        split_types,
        strict=True,
    )
    pruning = scalar(pruning_mode, "pruning_mode")
    _grow(tree_ensemble_handle, lists, max_depth, learning_rate, pruning, logits_dimension)


def _ids_of_candidates(feature_ids: tuple[Array, ...], node_ids: tuple[Array, ...]) -> Sequence[Array]:
    if len(feature_ids) == len(node_ids) and all(
        ids.shape == nodes.shape for ids, nodes in zip(feature_ids, node_ids, strict=True)
    ):
        return feature_ids
    if len(feature_ids) == 1 and feature_ids[0].shape == (len(node_ids),):
        return [
            np.broadcast_to(each, nodes.shape) for each, nodes in zip(feature_ids[0], node_ids, strict=True)
        ]
    raise InvalidArgumentError(
        f"{len(node_ids)} lists of candidates do not go with feature_ids of shapes "
        f"{', '.join(brackets(each.shape) for each in feature_ids)}"
    )


def _grow(
    handle: Any,
    lists: Iterator[tuple[Any, ...]],
    max_depth: Any,
    learning_rate: Any,
    pruning: int,
    logits: int,
) -> None:
    if shape_of(learning_rate) != ():
        raise InvalidArgumentError(
            f"learning_rate must be a scalar, not of shape {brackets(shape_of(learning_rate))}"
        )
    if logits < 1:
        raise InvalidArgumentError(f"logits_dimension must be at least 1, but is {logits}")
    ensemble = _checked(handle)
    rate = np.float32(learning_rate)
    best: dict[int, SplitCandidate] = {}
    for each in lists:
        for node, candidate in _candidates(each, rate, logits):
            _keep_better(best, node, candidate)
    ensemble.grow(best, max_depth=scalar(max_depth, "max_depth"), pruning=pruning, logits=logits)


def _candidates(
    lists: tuple[Any, ...], rate: np.float32, logits: int
) -> Iterator[tuple[int, SplitCandidate]]:
    """The candidates of a feature with their nodes.

    lists    ids, nodes, gains, thresholds, dimensions, both sides' contributions, and kinds or None
    """
    ids, nodes, gains, thresholds, dimensions, left, right, kinds = lists
    vectors = [nodes, gains, thresholds, dimensions] + ([] if kinds is None else [kinds])
    if nodes.ndim != 1 or any(each.shape != nodes.shape for each in vectors):
        raise InvalidArgumentError(
            "the candidates of a feature are vectors of one length, not of shapes "
            + ", ".join(brackets(each.shape) for each in vectors)
        )
    for side in (left, right):
        if side.ndim != 2 or len(side) != len(nodes) or side.shape[1] < logits:
            raise InvalidArgumentError(
                f"contributions must be of shape [{len(nodes)},{logits}], not {brackets(side.shape)}"
            )
    left, right = rate * left[:, :logits], rate * right[:, :logits]
    named = [DEFAULT_LEFT] * len(nodes) if kinds is None else kinds.tolist()
    for row, (node, kind) in enumerate(zip(nodes.tolist(), named, strict=True)):
        if kind not in KINDS:
            raise InvalidArgumentError(f"{kind!r} is no kind of split: {sorted(KINDS)} are")
        yield (
            node,
            SplitCandidate(
                int(ids[row]),
                int(dimensions[row]),
                int(thresholds[row]),
                gains[row],
                list(left[row]),
                list(right[row]),
                kind,
            ),
        )


def _keep_better(best: dict[int, SplitCandidate], node: int, candidate: SplitCandidate) -> None:
    held = best.get(node)
    if held is None:
        best[node] = candidate
        return
    with np.errstate(all="ignore"):
        difference = candidate.gain - held.gain
    if abs(difference) < _LEAST_DIFFERENCE:
        if candidate.feature_id < held.feature_id:
            best[node] = candidate
    elif difference >= _LEAST_DIFFERENCE:
        best[node] = candidate


def _features(columns: Sequence[Array], logits: int) -> Features:
    if logits < 1:
        raise InvalidArgumentError(f"logits_dimension must be at least 1, but is {logits}")
    for column in columns:
        if column.ndim not in (1, 2):
            raise InvalidArgumentError(
                f"bucketized_features must be vectors or matrices, not of shape {brackets(column.shape)}"
            )
    return Features.of_columns(columns)


@kernel("BoostedTreesPredict", fresh=True)
def predict(
    tree_ensemble_handle: Any, bucketized_features: tuple[Array, ...], *, logits_dimension: int
) -> Array:
    """Predict each example with all trees: (examples, logits)."""
    ensemble = _checked(tree_ensemble_handle)
    return ensemble.predict(_features(bucketized_features, logits_dimension), logits_dimension)


@kernel("BoostedTreesTrainingPredict", fresh=True)
def training_predict(
    tree_ensemble_handle: Any,
    cached_tree_ids: Array,
    cached_node_ids: Array,
    bucketized_features: tuple[Array, ...],
    *,
    logits_dimension: int,
) -> tuple[Array, Array, Array]:
    """Compute changes of predictions since examples were at nodes of trees, and their current leaves."""
    features = _features(bucketized_features, logits_dimension)
    for name, value in (("cached_tree_ids", cached_tree_ids), ("cached_node_ids", cached_node_ids)):
        if value.shape != (features.examples,):
            raise InvalidArgumentError(
                f"{name} must be of shape [{features.examples}], not {brackets(value.shape)}"
            )
    ensemble = _checked(tree_ensemble_handle)
    return ensemble.predict_further(cached_tree_ids, cached_node_ids, features, logits_dimension)


@kernel("BoostedTreesExampleDebugOutputs")
def example_debug_outputs(
    tree_ensemble_handle: Any, bucketized_features: tuple[Array, ...], *, logits_dimension: int
) -> Array:
    """The way of each example through the trees, as the bytes of a `DebugOutput`: (examples,)."""
    if logits_dimension != 1:
        raise InvalidArgumentError("Currently only one dimensional outputs are supported.")
    found = _checked(tree_ensemble_handle).debug_outputs(_features(bucketized_features, 1))
    texts = np.empty(len(found), object)
    texts[:] = found
    return texts
