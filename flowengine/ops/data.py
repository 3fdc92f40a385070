"""Datasets: pipelines of elements described in the graph."""

from __future__ import annotations

from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars

define(
    "BatchDataset",
    inputs=["input_dataset: variant", "batch_size: int64"],
    outputs=["handle: variant"],
    attrs=["output_types: list(type) >= 1", "output_shapes: list(shape) >= 1"],
    shape=scalars,
)
define(
    "BatchDatasetV2",
    inputs=["input_dataset: variant", "batch_size: int64", "drop_remainder: bool"],
    outputs=["handle: variant"],
    attrs=["parallel_copy: bool = false", "output_types: list(type) >= 1", "output_shapes: list(shape) >= 1"],
    shape=scalars,
)
define(
    "CacheDataset",
    inputs=["input_dataset: variant", "filename: string"],
    outputs=["handle: variant"],
    attrs=["output_types: list(type) >= 1", "output_shapes: list(shape) >= 1"],
    shape=scalars,
)
define(
    "CacheDatasetV2",
    inputs=["input_dataset: variant", "filename: string", "cache: resource"],
    outputs=["handle: variant"],
    attrs=["output_types: list(type) >= 1", "output_shapes: list(shape) >= 1"],
    is_stateful=True,
    shape=scalars,
)
define(
    "ConcatenateDataset",
    inputs=["input_dataset: variant", "another_dataset: variant"],
    outputs=["handle: variant"],
    attrs=["output_types: list(type) >= 1", "output_shapes: list(shape) >= 1"],
    shape=scalars,
)
define(
    "FilterByLastComponentDataset",
    inputs=["input_dataset: variant"],
    outputs=["output: variant"],
    attrs=["output_types: list(type) >= 1", "output_shapes: list(shape) >= 1"],
    shape=scalars,
)
define(
    "FilterDataset",
    inputs=["input_dataset: variant", "other_arguments: Targuments"],
    outputs=["handle: variant"],
    attrs=[
        "predicate: func",
        "Targuments: list(type) >= 0",
        "output_types: list(type) >= 1",
        "output_shapes: list(shape) >= 1",
    ],
    shape=scalars,
)
define(
    "FixedLengthRecordDataset",
    inputs=[
        "filenames: string",
        "header_bytes: int64",
        "record_bytes: int64",
        "footer_bytes: int64",
        "buffer_size: int64",
    ],
    outputs=["handle: variant"],
    is_stateful=True,
    shape=scalars,
)
define(
    "FixedLengthRecordDatasetV2",
    inputs=[
        "filenames: string",
        "header_bytes: int64",
        "record_bytes: int64",
        "footer_bytes: int64",
        "buffer_size: int64",
        "compression_type: string",
    ],
    outputs=["handle: variant"],
    is_stateful=True,
    shape=scalars,
)
define(
    "FlatMapDataset",
    inputs=["input_dataset: variant", "other_arguments: Targuments"],
    outputs=["handle: variant"],
    attrs=[
        "f: func",
        "Targuments: list(type) >= 0",
        "output_types: list(type) >= 1",
        "output_shapes: list(shape) >= 1",
    ],
    shape=scalars,
)
define(
    "GeneratorDataset",
    inputs=[
        "init_func_other_args: Tinit_func_args",
        "next_func_other_args: Tnext_func_args",
        "finalize_func_other_args: Tfinalize_func_args",
    ],
    outputs=["handle: variant"],
    attrs=[
        "init_func: func",
        "next_func: func",
        "finalize_func: func",
        "Tinit_func_args: list(type) >= 0",
        "Tnext_func_args: list(type) >= 0",
        "Tfinalize_func_args: list(type) >= 0",
        "output_types: list(type) >= 1",
        "output_shapes: list(shape) >= 1",
    ],
    is_stateful=True,
    shape=scalars,
)
define(
    "InterleaveDataset",
    inputs=[
        "input_dataset: variant",
        "other_arguments: Targuments",
        "cycle_length: int64",
        "block_length: int64",
    ],
    outputs=["handle: variant"],
    attrs=[
        "f: func",
        "Targuments: list(type) >= 0",
        "output_types: list(type) >= 1",
        "output_shapes: list(shape) >= 1",
    ],
    shape=scalars,
)
define(
    "MapDataset",
    inputs=["input_dataset: variant", "other_arguments: Targuments"],
    outputs=["handle: variant"],
    attrs=[
        "f: func",
        "Targuments: list(type) >= 0",
        "output_types: list(type) >= 1",
        "output_shapes: list(shape) >= 1",
        "use_inter_op_parallelism: bool = true",
        "preserve_cardinality: bool = false",
    ],
    shape=scalars,
)
define(
    "ModelDataset",
    inputs=["input_dataset: variant"],
    outputs=["handle: variant"],
    attrs=[
        "algorithm: int = 0",
        "cpu_budget: int = 0",
        "output_types: list(type) >= 1",
        "output_shapes: list(shape) >= 1",
    ],
    shape=scalars,
)
define(
    "OptimizeDataset",
    inputs=["input_dataset: variant", "optimizations: string"],
    outputs=["handle: variant"],
    attrs=[
        "output_types: list(type) >= 1",
        "output_shapes: list(shape) >= 1",
        "optimization_configs: list(string) = []",
    ],
    shape=scalars,
)
define(
    "PaddedBatchDataset",
    inputs=[
        "input_dataset: variant",
        "batch_size: int64",
        "padded_shapes: N * int64",
        "padding_values: Toutput_types",
    ],
    outputs=["handle: variant"],
    attrs=["Toutput_types: list(type) >= 1", "output_shapes: list(shape) >= 1", "N: int >= 1"],
    shape=scalars,
)
define(
    "PaddedBatchDatasetV2",
    inputs=[
        "input_dataset: variant",
        "batch_size: int64",
        "padded_shapes: N * int64",
        "padding_values: Toutput_types",
        "drop_remainder: bool",
    ],
    outputs=["handle: variant"],
    attrs=[
        "parallel_copy: bool = false",
        "Toutput_types: list(type) >= 1",
        "output_shapes: list(shape) >= 1",
        "N: int >= 1",
    ],
    shape=scalars,
)
define(
    "ParallelInterleaveDatasetV2",
    inputs=[
        "input_dataset: variant",
        "other_arguments: Targuments",
        "cycle_length: int64",
        "block_length: int64",
        "num_parallel_calls: int64",
    ],
    outputs=["handle: variant"],
    attrs=[
        "f: func",
        "Targuments: list(type) >= 0",
        "output_types: list(type) >= 1",
        "output_shapes: list(shape) >= 1",
        "sloppy: bool = false",
    ],
    shape=scalars,
)
define(
    "ParallelMapDataset",
    inputs=["input_dataset: variant", "other_arguments: Targuments", "num_parallel_calls: int32"],
    outputs=["handle: variant"],
    attrs=[
        "f: func",
        "Targuments: list(type) >= 0",
        "output_types: list(type) >= 1",
        "output_shapes: list(shape) >= 1",
        "use_inter_op_parallelism: bool = true",
        "sloppy: bool = false",
        "preserve_cardinality: bool = false",
    ],
    shape=scalars,
)
define(
    "PrefetchDataset",
    inputs=["input_dataset: variant", "buffer_size: int64"],
    outputs=["handle: variant"],
    attrs=[
        "output_types: list(type) >= 1",
        "output_shapes: list(shape) >= 1",
        "slack_period: int = 0",
        "legacy_autotune: bool = true",
    ],
    shape=scalars,
)
define(
    "RangeDataset",
    inputs=["start: int64", "stop: int64", "step: int64"],
    outputs=["handle: variant"],
    attrs=["output_types: list(type) >= 1", "output_shapes: list(shape) >= 1"],
    is_stateful=True,
    shape=scalars,
)
define(
    "RepeatDataset",
    inputs=["input_dataset: variant", "count: int64"],
    outputs=["handle: variant"],
    attrs=["output_types: list(type) >= 1", "output_shapes: list(shape) >= 1"],
    shape=scalars,
)
define(
    "ShardDataset",
    inputs=["input_dataset: variant", "num_shards: int64", "index: int64"],
    outputs=["handle: variant"],
    attrs=[
        "require_non_empty: bool = false",
        "output_types: list(type) >= 1",
        "output_shapes: list(shape) >= 1",
    ],
    shape=scalars,
)
define(
    "ShuffleAndRepeatDataset",
    inputs=["input_dataset: variant", "buffer_size: int64", "seed: int64", "seed2: int64", "count: int64"],
    outputs=["handle: variant"],
    attrs=["output_types: list(type) >= 1", "output_shapes: list(shape) >= 1"],
    shape=scalars,
)
define(
    "ShuffleDataset",
    inputs=["input_dataset: variant", "buffer_size: int64", "seed: int64", "seed2: int64"],
    outputs=["handle: variant"],
    attrs=[
        "reshuffle_each_iteration: bool = true",
        "output_types: list(type) >= 1",
        "output_shapes: list(shape) >= 1",
    ],
    shape=scalars,
)
define(
    "ShuffleDatasetV2",
    inputs=["input_dataset: variant", "buffer_size: int64", "seed_generator: resource"],
    outputs=["handle: variant"],
    attrs=["output_types: list(type) >= 1", "output_shapes: list(shape) >= 1"],
    is_stateful=True,
    shape=scalars,
)
define(
    "SkipDataset",
    inputs=["input_dataset: variant", "count: int64"],
    outputs=["handle: variant"],
    attrs=["output_types: list(type) >= 1", "output_shapes: list(shape) >= 1"],
    shape=scalars,
)
define(
    "SparseTensorSliceDataset",
    inputs=["indices: int64", "values: Tvalues", "dense_shape: int64"],
    outputs=["handle: variant"],
    attrs=["Tvalues: type"],
    is_stateful=True,
    shape=scalars,
)
define(
    "TFRecordDataset",
    inputs=["filenames: string", "compression_type: string", "buffer_size: int64"],
    outputs=["handle: variant"],
    is_stateful=True,
    shape=scalars,
)
define(
    "TakeDataset",
    inputs=["input_dataset: variant", "count: int64"],
    outputs=["handle: variant"],
    attrs=["output_types: list(type) >= 1", "output_shapes: list(shape) >= 1"],
    shape=scalars,
)
define(
    "TensorDataset",
    inputs=["components: Toutput_types"],
    outputs=["handle: variant"],
    attrs=["Toutput_types: list(type) >= 1", "output_shapes: list(shape) >= 1"],
    is_stateful=True,
    shape=scalars,
)
define(
    "TensorSliceDataset",
    inputs=["components: Toutput_types"],
    outputs=["handle: variant"],
    attrs=["Toutput_types: list(type) >= 1", "output_shapes: list(shape) >= 1"],
    is_stateful=True,
    shape=scalars,
)
define(
    "TextLineDataset",
    inputs=["filenames: string", "compression_type: string", "buffer_size: int64"],
    outputs=["handle: variant"],
    is_stateful=True,
    shape=scalars,
)
define(
    "UnbatchDataset",
    inputs=["input_dataset: variant"],
    outputs=["handle: variant"],
    attrs=["output_types: list(type) >= 1", "output_shapes: list(shape) >= 1"],
    shape=scalars,
)
define(
    "UnwrapDatasetVariant",
    inputs=["input_handle: variant"],
    outputs=["output_handle: variant"],
    shape=scalars,
)
define(
    "WindowDataset",
    inputs=["input_dataset: variant", "size: int64", "shift: int64", "stride: int64", "drop_remainder: bool"],
    outputs=["handle: variant"],
    attrs=["output_types: list(type) >= 1", "output_shapes: list(shape) >= 1"],
    shape=scalars,
)
define(
    "WrapDatasetVariant", inputs=["input_handle: variant"], outputs=["output_handle: variant"], shape=scalars
)
define(
    "ZipDataset",
    inputs=["input_datasets: N * variant"],
    outputs=["handle: variant"],
    attrs=["output_types: list(type) >= 1", "output_shapes: list(shape) >= 1", "N: int >= 1"],
    shape=scalars,
)
