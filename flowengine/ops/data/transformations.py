"""Datasets made of one other or of several, and settings of pipelines."""

from __future__ import annotations

from flowengine.ir.traits import Newer, NotDifferentiable, Uses
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars

# Datasets made of another: grouped, filtered, cut, drawn from, in another order.

define(
    "DenseToSparseBatchDataset, ExperimentalDenseToSparseBatchDataset(input_dataset: variant, "
    "batch_size, row_shape: int64) -> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "GlobalShuffleDataset(input_dataset: variant, seed, seed2: int64, seed_generator: resource) "
    "-> handle: variant",
    "stateful; reshuffle_each_iteration: bool = true; output_types: list(type) >= 1; "
    "output_shapes: list(shape) >= 1; metadata: string = ''",
    Uses("seed_generator"),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "GroupByReducerDataset, ExperimentalGroupByReducerDataset(input_dataset: variant, "
    "key_func_other_arguments: Tkey_func_other_arguments, "
    "init_func_other_arguments: Tinit_func_other_arguments, "
    "reduce_func_other_arguments: Treduce_func_other_arguments, "
    "finalize_func_other_arguments: Tfinalize_func_other_arguments) -> handle: variant",
    "stateful; key_func, init_func, reduce_func, finalize_func: func; Tkey_func_other_arguments, "
    "Tinit_func_other_arguments, Treduce_func_other_arguments, "
    "Tfinalize_func_other_arguments: list(type) >= 0; output_types: list(type) >= 1; "
    "output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "GroupByWindowDataset(input_dataset: variant, "
    "key_func_other_arguments: Tkey_func_other_arguments, "
    "reduce_func_other_arguments: Treduce_func_other_arguments, "
    "window_size_func_other_arguments: Twindow_size_func_other_arguments) -> handle: variant",
    "key_func, reduce_func, window_size_func: func; Tkey_func_other_arguments, "
    "Treduce_func_other_arguments, Twindow_size_func_other_arguments: list(type) >= 0; "
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ''",
    Newer(("metadata",)),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ExperimentalGroupByWindowDataset(input_dataset: variant, "
    "key_func_other_arguments: Tkey_func_other_arguments, "
    "reduce_func_other_arguments: Treduce_func_other_arguments, "
    "window_size_func_other_arguments: Twindow_size_func_other_arguments) -> handle: variant",
    "key_func, reduce_func, window_size_func: func; Tkey_func_other_arguments, "
    "Treduce_func_other_arguments, Twindow_size_func_other_arguments: list(type) >= 0; "
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "IgnoreErrorsDataset, ExperimentalIgnoreErrorsDataset(input_dataset: variant) -> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; log_warning: bool = false",
    Newer(("log_warning",)),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "IndexFlatMapDataset(input_dataset: variant, map_func_other_args: Tmap_func_args, "
    "index_map_func_other_args: Tindex_map_func_args, output_cardinality: int64) -> handle: variant",
    "map_func, index_map_func: func; Tmap_func_args, Tindex_map_func_args: list(type) >= 0; "
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ''",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "RandomDataset(seed, seed2: int64) -> handle: variant",
    "stateful; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ''",
    Newer(("metadata",)),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ExperimentalRandomDataset(seed, seed2: int64) -> handle: variant",
    "stateful; output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "RandomDatasetV2(seed, seed2: int64, seed_generator: resource) -> handle: variant",
    "stateful; rerandomize_each_iteration: bool = false; output_types: list(type) >= 1; "
    "output_shapes: list(shape) >= 1; metadata: string = ''",
    Uses("seed_generator"),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "RebatchDataset, ExperimentalRebatchDataset(input_dataset: variant, num_replicas: int64) "
    "-> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; use_fallback: bool = true",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "RebatchDatasetV2(input_dataset: variant, batch_sizes: int64, drop_remainder: bool) -> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "SamplingDataset(input_dataset: variant, rate: float, seed, seed2: int64) -> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ScanDataset(input_dataset: variant, initial_state: Tstate, other_arguments: Targuments) "
    "-> handle: variant",
    "f: func; Tstate: list(type) >= 1; Targuments: list(type) >= 0; output_types: list(type) >= 1; "
    "output_shapes: list(shape) >= 1; preserve_cardinality: bool = false; "
    "use_default_device: bool = true; metadata: string = ''",
    Newer(("use_default_device", "metadata")),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ExperimentalScanDataset(input_dataset: variant, initial_state: Tstate, "
    "other_arguments: Targuments) -> handle: variant",
    "f: func; Tstate: list(type) >= 1; Targuments: list(type) >= 0; output_types: list(type) >= 1; "
    "output_shapes: list(shape) >= 1; preserve_cardinality: bool = false",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ShuffleAndRepeatDatasetV2(input_dataset: variant, buffer_size, seed, seed2, count: int64, "
    "seed_generator: resource) -> handle: variant",
    "stateful; reshuffle_each_iteration: bool = true; output_types: list(type) >= 1; "
    "output_shapes: list(shape) >= 1; metadata: string = ''",
    Uses("seed_generator"),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ShuffleDatasetV3(input_dataset: variant, buffer_size, seed, seed2: int64, "
    "seed_generator: resource) -> handle: variant",
    "stateful; reshuffle_each_iteration: bool = true; output_types: list(type) >= 1; "
    "output_shapes: list(shape) >= 1; metadata: string = ''",
    Uses("seed_generator"),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "SleepDataset, ExperimentalSleepDataset(input_dataset: variant, sleep_microseconds: int64) "
    "-> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "SlidingWindowDataset(input_dataset: variant, window_size, window_shift, window_stride: int64) "
    "-> handle: variant",
    "drop_remainder: bool = true; output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    Newer(("drop_remainder",)),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ExperimentalSlidingWindowDataset(input_dataset: variant, window_size, window_shift, "
    "window_stride: int64) -> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "TakeWhileDataset(input_dataset: variant, other_arguments: Targuments) -> handle: variant",
    "predicate: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; "
    "output_shapes: list(shape) >= 1; metadata: string = ''",
    Newer(("metadata",)),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ExperimentalTakeWhileDataset(input_dataset: variant, other_arguments: Targuments) -> handle: variant",
    "predicate: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; "
    "output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "UniqueDataset(input_dataset: variant) -> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ''",
    Newer(("metadata",)),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ExperimentalUniqueDataset(input_dataset: variant) -> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ExperimentalUnbatchDataset(input_dataset: variant) -> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=scalars,
)


# Datasets whose elements come from several others, or from one of several.

define(
    "ChooseFastestBranchDataset(input_dataset: variant, ratio_numerator, ratio_denominator: int64, "
    "other_arguments: Targuments) -> handle: variant",
    "Targuments: list(type) >= 0; num_elements_per_branch: int >= 1; branches: list(func) >= 1; "
    "other_arguments_lengths: list(int) >= 1; output_types: list(type) >= 1; "
    "output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ChooseFastestDataset, ExperimentalChooseFastestDataset(input_datasets: N * variant) -> handle: variant",
    "N: int >= 2; num_experiments: int; output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "DirectedInterleaveDataset(selector_input_dataset: variant, data_input_datasets: N * variant) "
    "-> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; N: int >= 1; "
    "stop_on_empty_dataset: bool = false",
    Newer(("stop_on_empty_dataset",)),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ExperimentalDirectedInterleaveDataset(selector_input_dataset: variant, "
    "data_input_datasets: N * variant) -> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; N: int >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ListDataset(tensors: Tinput_types) -> handle: variant",
    "stateful; Tinput_types, output_types: list(type) >= 1; output_shapes: list(shape) >= 1; "
    "metadata: string = ''",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "WeightedFlatMapDataset(input_datasets: N * variant, weights: M * double) -> handle: variant",
    "N, M: int >= 2; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ''",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "WindowOp(inputs: Tinputs) -> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; Tinputs: list(type) >= 1",
    NotDifferentiable(),
    shape=scalars,
)


# Datasets that say how TensorFlow is to compute another, or check what it is made of.

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
