"""Datasets that say how TensorFlow is to compute another, or check what it is made of."""

from __future__ import annotations

from flowengine.ir.traits import Newer, NotDifferentiable, Uses
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars

define(
    "AssertCardinalityDataset(input_dataset: variant, cardinality: int64) -> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "AssertNextDataset, ExperimentalAssertNextDataset(input_dataset: variant, "
    "transformations: string) -> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "AssertPrevDataset(input_dataset: variant, transformations: string) -> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "AutoShardDataset(input_dataset: variant, num_workers, index: int64) -> handle: variant",
    "auto_shard_policy: int = 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; "
    "num_replicas: int = 0",
    Newer(("auto_shard_policy", "num_replicas")),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ExperimentalAutoShardDataset(input_dataset: variant, num_workers, index: int64) -> handle: variant",
    "auto_shard_policy: int = 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    Newer(("auto_shard_policy",)),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "BytesProducedStatsDataset, ExperimentalBytesProducedStatsDataset(input_dataset: variant, "
    "tag: string) -> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "FinalizeDataset(input_dataset: variant) -> handle: variant",
    "has_captured_ref: bool = false; output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "LatencyStatsDataset, ExperimentalLatencyStatsDataset(input_dataset: variant, tag: string) "
    "-> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "MaxIntraOpParallelismDataset, ExperimentalMaxIntraOpParallelismDataset(input_dataset: variant, "
    "max_intra_op_parallelism: int64) -> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "NonSerializableDataset, ExperimentalNonSerializableDataset(input_dataset: variant) -> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "OptimizeDatasetV2(input_dataset: variant, optimizations_enabled, optimizations_disabled, "
    "optimizations_default: string) -> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; optimization_configs: list(string) = []",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "OptionsDataset(input_dataset: variant) -> handle: variant",
    "serialized_options: string; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; "
    "metadata: string = ''",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "PrivateThreadPoolDataset, ExperimentalPrivateThreadPoolDataset(input_dataset: variant, "
    "num_threads: int64) -> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "RewriteDataset(input_dataset: variant, rewrite_name: string) -> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "SetStatsAggregatorDataset, ExperimentalSetStatsAggregatorDataset(input_dataset: variant, "
    "stats_aggregator: resource, tag, counter_prefix: string) -> handle: variant",
    "stateful; output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    Uses("stats_aggregator"),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ThreadPoolDataset, ExperimentalThreadPoolDataset(input_dataset: variant, thread_pool: resource) "
    "-> handle: variant",
    "stateful; output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    Uses("thread_pool"),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ExperimentalThreadPoolHandle() -> handle: resource",
    "stateful; num_threads: int; max_intra_op_parallelism: int = 1; display_name: string; container, "
    "shared_name: string = ''",
    NotDifferentiable(),
    shape=scalars,
)
