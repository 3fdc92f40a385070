"""Linear models by stochastic dual coordinate ascent."""

from __future__ import annotations

from typing import Final

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import ranked

#: Losses, features and strengths.
MODEL: Final = (
    "loss_type: {'logistic_loss', 'squared_loss', 'hinge_loss', 'smooth_hinge_loss', 'poisson_loss'}; "
    "num_sparse_features, num_sparse_features_with_values, num_dense_features: int >= 0; l1, l2: float; "
    "num_loss_partitions, num_inner_iterations: int >= 1"
)


@define("SdcaFprint(input: string) -> output: int64", NotDifferentiable())
def fingerprints(c: ShapeContext) -> Shapes:
    return [TensorShape([ranked(c, 0, 1)[0], 2])]


@define(
    "SdcaOptimizer(sparse_example_indices, sparse_feature_indices: num_sparse_features * int64, "
    "sparse_feature_values: num_sparse_features_with_values * float, "
    "dense_features: num_dense_features * float, example_weights, example_labels: float, "
    "sparse_indices: num_sparse_features * int64, sparse_weights: num_sparse_features * float, "
    "dense_weights: num_dense_features * float, example_state_data: float) "
    "-> out_example_state_data: float, out_delta_sparse_weights: num_sparse_features * float, "
    "out_delta_dense_weights: num_dense_features * float",
    MODEL,
    "adaptative: bool = false",
    NotDifferentiable(),
)
@define(
    "SdcaOptimizerV2(sparse_example_indices, sparse_feature_indices: num_sparse_features * int64, "
    "sparse_feature_values: num_sparse_features_with_values * float, "
    "dense_features: num_dense_features * float, example_weights, example_labels: float, "
    "sparse_indices: num_sparse_features * int64, sparse_weights: num_sparse_features * float, "
    "dense_weights: num_dense_features * float, example_state_data: float) "
    "-> out_example_state_data: float, out_delta_sparse_weights: num_sparse_features * float, "
    "out_delta_dense_weights: num_dense_features * float",
    MODEL,
    "adaptive: bool = false",
    NotDifferentiable(),
)
def optimizer(c: ShapeContext) -> Shapes:
    """The state of the examples, and deltas shaped like the weights."""
    groups, dense = c.attrs["num_sparse_features"], c.attrs["num_dense_features"]
    weights = [c.input(c.num_inputs - 1 - dense - groups + i) for i in range(groups + dense)]
    return [TensorShape([None, 4]), *weights]


define(
    "SdcaShrinkL1(weights: num_features * Ref(float))",
    "num_features: int >= 0; l1, l2: float",
    NotDifferentiable(),
)
