"""Datasets made of another: grouped, filtered, cut, drawn from, in another order."""

from __future__ import annotations

from flowengine.ir.traits import Newer, NotDifferentiable, Uses
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars

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
