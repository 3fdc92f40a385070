"""Datasets whose elements are made several at a time."""

from __future__ import annotations

from flowengine.ir.traits import Newer, NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars

define(
    "MapAndBatchDataset(input_dataset: variant, other_arguments: Targuments, batch_size, "
    "num_parallel_calls: int64, drop_remainder: bool) -> handle: variant",
    "f: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) "
    ">= 1; preserve_cardinality: bool = false; metadata: string = ''",
    Newer(("metadata",)),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ExperimentalMapAndBatchDataset(input_dataset: variant, other_arguments: Targuments, batch_size, "
    "num_parallel_calls: int64, drop_remainder: bool) -> handle: variant",
    "f: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) "
    ">= 1; preserve_cardinality: bool = false",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ExperimentalMapDataset(input_dataset: variant, other_arguments: Targuments) -> handle: variant",
    "f: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) "
    ">= 1; use_inter_op_parallelism: bool = true; preserve_cardinality, force_synchronous: bool = false",
    Newer(("force_synchronous",)),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ParallelBatchDataset(input_dataset: variant, batch_size, num_parallel_calls: int64, "
    "drop_remainder: bool) -> handle: variant",
    "parallel_copy: bool = false; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; "
    "deterministic: string = 'default'; metadata: string = ''",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ParallelFilterDataset(input_dataset: variant, other_arguments: Targuments, "
    "num_parallel_calls: int64) -> handle: variant",
    "predicate: func; deterministic: string = 'default'; Targuments: list(type) >= 0; "
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ''",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ParallelInterleaveDataset(input_dataset: variant, other_arguments: Targuments, cycle_length, "
    "block_length: int64, sloppy: bool, buffer_output_elements, prefetch_input_elements: int64) "
    "-> handle: variant",
    "f: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) "
    ">= 1; metadata: string = ''",
    Newer(("metadata",)),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ExperimentalParallelInterleaveDataset(input_dataset: variant, other_arguments: Targuments, "
    "cycle_length, block_length: int64, sloppy: bool, buffer_output_elements, "
    "prefetch_input_elements: int64) -> handle: variant",
    "f: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ParallelInterleaveDatasetV3(input_dataset: variant, other_arguments: Targuments, cycle_length, "
    "block_length, num_parallel_calls: int64) -> handle: variant",
    "f: func; deterministic: string = 'default'; Targuments: list(type) >= 0; output_types: list(type) "
    ">= 1; output_shapes: list(shape) >= 1; metadata: string = ''",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ParallelInterleaveDatasetV4(input_dataset: variant, other_arguments: Targuments, cycle_length, "
    "block_length, buffer_output_elements, prefetch_input_elements, num_parallel_calls: int64) "
    "-> handle: variant",
    "f: func; deterministic: string = 'default'; Targuments: list(type) >= 0; output_types: list(type) "
    ">= 1; output_shapes: list(shape) >= 1; metadata: string = ''",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "LegacyParallelInterleaveDatasetV2(input_dataset: variant, other_arguments: Targuments, "
    "cycle_length, block_length, buffer_output_elements, prefetch_input_elements: int64) "
    "-> handle: variant",
    "f: func; deterministic: string = 'default'; Targuments: list(type) >= 0; output_types: list(type) "
    ">= 1; output_shapes: list(shape) >= 1; metadata: string = ''",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ParallelMapDatasetV2(input_dataset: variant, other_arguments: Targuments, "
    "num_parallel_calls: int64) -> handle: variant",
    "f: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) "
    ">= 1; use_inter_op_parallelism: bool = true; deterministic: string = 'default'; "
    "preserve_cardinality, use_unbounded_threadpool: bool = false; metadata: string = ''",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ParseExampleDataset(input_dataset: variant, num_parallel_calls: int64, dense_defaults: Tdense) "
    "-> handle: variant",
    "sparse_keys, dense_keys: list(string) >= 0; sparse_types, Tdense: list({float, int64, string}) >= 0; "
    "dense_shapes: list(shape) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; "
    "sloppy: bool = false; ragged_keys: list(string) >= 0 = []; "
    "ragged_value_types: list({float, int64, string}) >= 0 = []; "
    "ragged_split_types: list({int32, int64}) >= 0 = []",
    Newer(("ragged_keys", "ragged_value_types", "ragged_split_types")),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ExperimentalParseExampleDataset(input_dataset: variant, num_parallel_calls: int64, "
    "dense_defaults: Tdense) -> handle: variant",
    "sparse_keys, dense_keys: list(string) >= 0; sparse_types, Tdense: list({float, int64, string}) >= 0; "
    "dense_shapes: list(shape) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; "
    "sloppy: bool = false",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ParseExampleDatasetV2(input_dataset: variant, num_parallel_calls: int64, "
    "dense_defaults: Tdense) -> handle: variant",
    "sparse_keys, dense_keys: list(string) >= 0; sparse_types, Tdense: list({float, int64, string}) >= 0; "
    "dense_shapes: list(shape) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; "
    "deterministic: string = 'default'; ragged_keys: list(string) >= 0 = []; "
    "ragged_value_types: list({float, int64, string}) >= 0 = []; "
    "ragged_split_types: list({int32, int64}) >= 0 = []",
    NotDifferentiable(),
    shape=scalars,
)
