"""Datasets, made of files, tensors and other datasets."""

from __future__ import annotations

from typing import Final

from flowengine.ir.trait_checks.outward import ReadsFiles, WritesFiles
from flowengine.ir.traits import LaterAttrs, Newer, NotDifferentiable, Uses
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars

#: The tensors of an element.
ELEMENTS: Final = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1"
#: Names for profiles, as TensorFlow 2 writes them.
_METADATA: Final = ("metadata: string = ''", Newer(("metadata",)))

define(
    "BatchDataset(input_dataset: variant, batch_size: int64) -> handle: variant",
    ELEMENTS,
    *_METADATA,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "BatchDatasetV2(input_dataset: variant, batch_size: int64, drop_remainder: bool) -> handle: variant",
    "parallel_copy: bool = false",
    ELEMENTS,
    *_METADATA,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "CacheDataset(input_dataset: variant, filename: string) -> handle: variant",
    ELEMENTS,
    *_METADATA,
    ReadsFiles(is_optional=True),
    WritesFiles(is_optional=True),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "CacheDatasetV2(input_dataset: variant, filename: string, cache: resource) -> handle: variant",
    "stateful",
    ELEMENTS,
    *_METADATA,
    Uses("cache"),
    ReadsFiles(is_optional=True),
    WritesFiles(is_optional=True),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ConcatenateDataset(input_dataset, another_dataset: variant) -> handle: variant",
    ELEMENTS,
    *_METADATA,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "FilterByLastComponentDataset(input_dataset: variant) -> output: variant",
    ELEMENTS,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "FilterDataset(input_dataset: variant, other_arguments: Targuments) -> handle: variant",
    "predicate: func; Targuments: list(type) >= 0",
    ELEMENTS,
    *_METADATA,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "FixedLengthRecordDataset(filenames: string, header_bytes, record_bytes, footer_bytes, "
    "buffer_size: int64) -> handle: variant",
    "stateful",
    *_METADATA,
    ReadsFiles(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "FixedLengthRecordDatasetV2(filenames: string, header_bytes, record_bytes, footer_bytes, "
    "buffer_size: int64, compression_type: string) -> handle: variant",
    "stateful",
    *_METADATA,
    ReadsFiles(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "FlatMapDataset(input_dataset: variant, other_arguments: Targuments) -> handle: variant",
    "f: func; Targuments: list(type) >= 0",
    ELEMENTS,
    *_METADATA,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "GeneratorDataset(init_func_other_args: Tinit_func_args, next_func_other_args: Tnext_func_args, "
    "finalize_func_other_args: Tfinalize_func_args) -> handle: variant",
    "stateful; init_func, next_func, finalize_func: func",
    "Tinit_func_args, Tnext_func_args, Tfinalize_func_args: list(type) >= 0",
    ELEMENTS,
    *_METADATA,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "InterleaveDataset(input_dataset: variant, other_arguments: Targuments, cycle_length, "
    "block_length: int64) -> handle: variant",
    "f: func; Targuments: list(type) >= 0",
    ELEMENTS,
    *_METADATA,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "MapDataset(input_dataset: variant, other_arguments: Targuments) -> handle: variant",
    "f: func; Targuments: list(type) >= 0",
    ELEMENTS,
    "use_inter_op_parallelism: bool = true; preserve_cardinality: bool = false",
    "force_synchronous: bool = false",
    "metadata: string = ''",
    Newer(("force_synchronous", "metadata")),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ModelDataset(input_dataset: variant) -> handle: variant",
    "algorithm, cpu_budget: int = 0",
    ELEMENTS,
    "ram_budget: int = 0",
    Newer(("ram_budget",)),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "OptimizeDataset(input_dataset: variant, optimizations: string) -> handle: variant",
    ELEMENTS,
    "optimization_configs: list(string) = []",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "PaddedBatchDataset(input_dataset: variant, batch_size: int64, padded_shapes: N * int64, "
    "padding_values: Toutput_types) -> handle: variant",
    "Toutput_types: list(type) >= 1; output_shapes: list(shape) >= 1; N: int >= 1",
    *_METADATA,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "PaddedBatchDatasetV2(input_dataset: variant, batch_size: int64, padded_shapes: N * int64, "
    "padding_values: Toutput_types, drop_remainder: bool) -> handle: variant",
    "parallel_copy: bool = false; Toutput_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    "N: int >= 1",
    *_METADATA,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ParallelInterleaveDatasetV2(input_dataset: variant, other_arguments: Targuments, cycle_length, "
    "block_length, num_parallel_calls: int64) -> handle: variant",
    "f: func; Targuments: list(type) >= 0",
    ELEMENTS,
    "sloppy: bool = false",
    *_METADATA,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ParallelMapDataset(input_dataset: variant, other_arguments: Targuments, num_parallel_calls: int32) "
    "-> handle: variant",
    "f: func; Targuments: list(type) >= 0",
    ELEMENTS,
    "use_inter_op_parallelism: bool = true; sloppy, preserve_cardinality: bool = false",
    *_METADATA,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "PrefetchDataset(input_dataset: variant, buffer_size: int64) -> handle: variant",
    ELEMENTS,
    "slack_period: int = 0; legacy_autotune: bool = true",
    "buffer_size_min: int = 0",
    "metadata: string = ''",
    Newer(("buffer_size_min", "metadata")),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "RangeDataset(start, stop, step: int64) -> handle: variant",
    "stateful",
    ELEMENTS,
    "metadata: string = ''",
    "replicate_on_split: bool = false",
    Newer(("metadata", "replicate_on_split")),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "RepeatDataset(input_dataset: variant, count: int64) -> handle: variant",
    ELEMENTS,
    *_METADATA,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ShardDataset(input_dataset: variant, num_shards, index: int64) -> handle: variant",
    "require_non_empty: bool = false",
    ELEMENTS,
    *_METADATA,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ShuffleAndRepeatDataset(input_dataset: variant, buffer_size, seed, seed2, count: int64) "
    "-> handle: variant",
    ELEMENTS,
    *_METADATA,
    # TensorFlow 1 does not know it. Without it epochs are drawn as TensorFlow 1 draws them.
    LaterAttrs((("reshuffle_each_iteration", (False, True)),)),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ShuffleDataset(input_dataset: variant, buffer_size, seed, seed2: int64) -> handle: variant",
    "reshuffle_each_iteration: bool = true",
    ELEMENTS,
    *_METADATA,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ShuffleDatasetV2(input_dataset: variant, buffer_size: int64, seed_generator: resource) "
    "-> handle: variant",
    "stateful",
    ELEMENTS,
    *_METADATA,
    Uses("seed_generator"),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "SkipDataset(input_dataset: variant, count: int64) -> handle: variant",
    ELEMENTS,
    *_METADATA,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "SparseTensorSliceDataset(indices: int64, values: Tvalues, dense_shape: int64) -> handle: variant",
    "stateful; Tvalues: type",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "TFRecordDataset, "
    "TextLineDataset(filenames, compression_type: string, buffer_size: int64) -> handle: variant",
    "stateful",
    *_METADATA,
    ReadsFiles(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "TakeDataset(input_dataset: variant, count: int64) -> handle: variant",
    ELEMENTS,
    *_METADATA,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "TensorDataset(components: Toutput_types) -> handle: variant",
    "stateful; Toutput_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    *_METADATA,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "TensorSliceDataset(components: Toutput_types) -> handle: variant",
    "stateful; Toutput_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    "metadata: string = ''",
    "is_files: bool = false",
    "replicate_on_split: bool = false",
    Newer(("metadata", "is_files", "replicate_on_split")),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "UnbatchDataset(input_dataset: variant) -> handle: variant",
    ELEMENTS,
    *_METADATA,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "UnwrapDatasetVariant(input_handle: variant) -> output_handle: variant",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "WindowDataset(input_dataset: variant, size, shift, stride: int64, drop_remainder: bool) "
    "-> handle: variant",
    ELEMENTS,
    *_METADATA,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "WrapDatasetVariant(input_handle: variant) -> output_handle: variant", NotDifferentiable(), shape=scalars
)
define(
    "ZipDataset(input_datasets: N * variant) -> handle: variant",
    ELEMENTS,
    "N: int >= 1",
    *_METADATA,
    NotDifferentiable(),
    shape=scalars,
)
