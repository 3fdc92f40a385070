"""Linear models by stochastic dual coordinate ascent."""

from __future__ import annotations

from flowengine.ops.registry import define

define("SdcaFprint(input: string) -> output: int64")
define(
    "SdcaOptimizerV2(sparse_example_indices, sparse_feature_indices: num_sparse_features * int64, "
    "sparse_feature_values: num_sparse_features_with_values * float, "
    "dense_features: num_dense_features * float, example_weights, example_labels: float, "
    "sparse_indices: num_sparse_features * int64, sparse_weights: num_sparse_features * float, "
    "dense_weights: num_dense_features * float, example_state_data: float) "
    "-> out_example_state_data: float, out_delta_sparse_weights: num_sparse_features * float, "
    "out_delta_dense_weights: num_dense_features * float",
    "loss_type: {'logistic_loss', 'squared_loss', 'hinge_loss', 'smooth_hinge_loss', 'poisson_loss'}",
    "adaptive: bool = false",
    "num_sparse_features, num_sparse_features_with_values, num_dense_features: int >= 0; l1, l2: float",
    "num_loss_partitions, num_inner_iterations: int >= 1",
)
