"""Boosted trees: ensembles that grow, and what they predict."""

from __future__ import annotations

from typing import Final

from flowengine.core.shapes import Dimension, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable, Uses
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    check_scalars,
    dims_of,
    fixed,
    merge_dims,
    ranked,
    ranked_at_least,
    ranked_at_most,
    scalars,
    vector,
)

#: The handle is of an ensemble.
_USES: Final = Uses("tree_ensemble_handle")

define(
    "BoostedTreesEnsembleResourceHandleOp() -> resource: resource",
    "stateful; container, shared_name: string = ''",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "IsBoostedTreesEnsembleInitialized(tree_ensemble_handle: resource) -> is_initialized: bool",
    "stateful",
    _USES,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "BoostedTreesSerializeEnsemble(tree_ensemble_handle: resource) "
    "-> stamp_token: int64, tree_ensemble_serialized: string",
    "stateful",
    _USES,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "BoostedTreesGetEnsembleStates(tree_ensemble_handle: resource) -> stamp_token: int64, num_trees, "
    "num_finalized_trees, num_attempted_layers, last_layer_nodes_range: int32",
    "stateful",
    _USES,
    NotDifferentiable(),
    shape=fixed((), (), (), (), (2,)),
)


@define(
    "BoostedTreesCreateEnsemble(tree_ensemble_handle: resource, stamp_token: int64, "
    "tree_ensemble_serialized: string)",
    "stateful",
    _USES,
    NotDifferentiable(),
)
@define(
    "BoostedTreesDeserializeEnsemble(tree_ensemble_handle: resource, stamp_token: int64, "
    "tree_ensemble_serialized: string)",
    "stateful",
    _USES,
    NotDifferentiable(),
)
def serialized(c: ShapeContext) -> Shapes:
    check_scalars(c, 1, 2)
    return []


@define(
    "BoostedTreesCenterBias(tree_ensemble_handle: resource, mean_gradients, mean_hessians, l1, l2: float) "
    "-> continue_centering: bool",
    "stateful",
    _USES,
    NotDifferentiable(),
)
def center_bias(c: ShapeContext) -> Shapes:
    """Means (1, logits) of gradients and Hessians"""
    ranked(c, 1, 2)
    ranked(c, 2, 2)
    check_scalars(c, 3, 4)
    return [TensorShape([])]


def _check_candidates(c: ShapeContext, first: int, lists: str, count: int) -> None:
    """Lists of inputs from a place on, one of each for each feature: v for vectors, m for matrices."""
    for place, kind in enumerate(lists):
        for index in range(first + place * count, first + (place + 1) * count):
            ranked(c, index, 1 if kind == "v" else 2)


@define(
    "BoostedTreesUpdateEnsemble(tree_ensemble_handle: resource, feature_ids: int32, "
    "node_ids: num_features * int32, gains: num_features * float, thresholds: num_features * int32, "
    "left_node_contribs, right_node_contribs: num_features * float, max_depth: int32, learning_rate: float)",
    "stateful; pruning_mode, num_features: int >= 0",
    _USES,
    NotDifferentiable(),
)
def update_ensemble(c: ShapeContext) -> Shapes:
    """The candidates of each feature: vectors, and contributions (candidates, 1)"""
    count = c.attrs["num_features"]
    merge_dims(dims_of(ranked(c, 1, 1), 1)[0], count, "Features")
    _check_candidates(c, 2, "vvvmm", count)
    check_scalars(c, 2 + 5 * count, 3 + 5 * count)
    return []


@define(
    "BoostedTreesUpdateEnsembleV2(tree_ensemble_handle: resource, feature_ids: num_groups * int32, "
    "dimension_ids, node_ids: num_features * int32, gains: num_features * float, "
    "thresholds: num_features * int32, left_node_contribs, right_node_contribs: num_features * float, "
    "split_types: num_features * string, max_depth: int32, learning_rate: float, pruning_mode: int32)",
    "stateful; num_features: int >= 0; logits_dimension: int = 1; num_groups: int >= 1 = 1",
    _USES,
    NotDifferentiable(),
)
def update_ensemble_v2(c: ShapeContext) -> Shapes:
    """As of the first form, with the dimension and the kind of each candidate"""
    groups, count = c.attrs["num_groups"], c.attrs["num_features"]
    for index in range(1, 1 + groups):
        ranked(c, index, 1)
    _check_candidates(c, 1 + groups, "vvvvmmv", count)
    end = 1 + groups + 7 * count
    check_scalars(c, end, end + 1, end + 2)
    return []


def _examples(c: ShapeContext, first: int, known: Dimension = None) -> Dimension:
    """How many examples the features are of that begin at an input."""
    for index in range(first, first + c.attrs["num_bucketized_features"]):
        shape = ranked_at_most(c, index, 2)
        ranked_at_least(c, index, 1)
        dims = shape.as_list() if shape.rank is not None else [None]
        known = merge_dims(known, dims[0], "Examples")
    return known


@define(
    "BoostedTreesPredict(tree_ensemble_handle: resource, "
    "bucketized_features: num_bucketized_features * int32) -> logits: float",
    "stateful; num_bucketized_features: int >= 1; logits_dimension: int",
    _USES,
    NotDifferentiable(),
)
def predict(c: ShapeContext) -> Shapes:
    """Features (examples,) or (examples, dimensions) -> (examples, logits)"""
    return [TensorShape([_examples(c, 1), c.attrs["logits_dimension"]])]


@define(
    "BoostedTreesExampleDebugOutputs(tree_ensemble_handle: resource, "
    "bucketized_features: num_bucketized_features * int32) -> examples_debug_outputs_serialized: string",
    "stateful; num_bucketized_features: int >= 1; logits_dimension: int",
    _USES,
    NotDifferentiable(),
)
def example_debug_outputs(c: ShapeContext) -> Shapes:
    """Features (examples,) or (examples, dimensions) -> (examples,)"""
    return [vector(_examples(c, 1))]


@define(
    "BoostedTreesTrainingPredict(tree_ensemble_handle: resource, cached_tree_ids, cached_node_ids: int32, "
    "bucketized_features: num_bucketized_features * int32) "
    "-> partial_logits: float, tree_ids, node_ids: int32",
    "stateful; num_bucketized_features: int >= 1; logits_dimension: int",
    _USES,
    NotDifferentiable(),
)
def training_predict(c: ShapeContext) -> Shapes:
    """As `BoostedTreesPredict`, of examples that were somewhere before: (examples,)"""
    known = merge_dims(dims_of(ranked(c, 1, 1), 1)[0], dims_of(ranked(c, 2, 1), 1)[0], "Examples")
    known = _examples(c, 3, known)
    return [TensorShape([known, c.attrs["logits_dimension"]]), vector(known), vector(known)]
