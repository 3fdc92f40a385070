"""Datasets of files in further formats, and datasets kept in files."""

from __future__ import annotations

from flowengine.ir.trait_checks.outward import ReadsFiles, WritesFiles
from flowengine.ir.traits import Newer, NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars

define(
    "CSVDataset, ExperimentalCSVDataset(filenames, compression_type: string, buffer_size: int64, "
    "header: bool, field_delim: string, use_quote_delim: bool, na_value: string, select_cols: int64, "
    "record_defaults: output_types) -> handle: variant",
    "stateful; output_types: list({float, double, int32, int64, string}) >= 1; "
    "output_shapes: list(shape) >= 1",
    ReadsFiles(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "CSVDatasetV2(filenames, compression_type: string, buffer_size: int64, header: bool, "
    "field_delim: string, use_quote_delim: bool, na_value: string, select_cols: int64, "
    "record_defaults: output_types, exclude_cols: int64) -> handle: variant",
    "stateful; output_types: list({float, double, int32, int64, string}) >= 1; "
    "output_shapes: list(shape) >= 1",
    ReadsFiles(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "LMDBDataset, ExperimentalLMDBDataset(filenames: string) -> handle: variant",
    "stateful; output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    ReadsFiles(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "MatchingFilesDataset, ExperimentalMatchingFilesDataset(patterns: string) -> handle: variant",
    "stateful",
    ReadsFiles(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "SqlDataset, ExperimentalSqlDataset(driver_name, data_source_name, query: string) -> handle: variant",
    "stateful; output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    ReadsFiles(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "TFRecordDatasetV2(filenames, compression_type: string, buffer_size, byte_offsets: int64) "
    "-> handle: variant",
    "stateful; metadata: string = ''",
    ReadsFiles(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "SnapshotDataset(input_dataset: variant, path: string) -> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; compression, reader_path_prefix, "
    "writer_path_prefix: string = ''; shard_size_bytes: int = 10737418240; "
    "pending_snapshot_expiry_seconds: int = 86400; num_reader_threads, reader_buffer_size, "
    "num_writer_threads, writer_buffer_size: int = 1; shuffle_on_read: bool = false; seed, "
    "seed2: int = 0; mode: string = 'auto'; snapshot_name: string = ''",
    Newer(("shuffle_on_read", "seed", "seed2", "mode", "snapshot_name")),
    ReadsFiles(),
    WritesFiles(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "SnapshotDatasetV2(input_dataset: variant, path: string, "
    "reader_func_other_args: Treader_func_args, shard_func_other_args: Tshard_func_args) "
    "-> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; compression, reader_prefix, "
    "writer_prefix: string = ''; hash_valid: bool = false; hash: int = 0; reader_func, "
    "shard_func: func; Treader_func_args, Tshard_func_args: list(type) >= 0; metadata: string = ''",
    ReadsFiles(),
    WritesFiles(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "SaveDataset(input_dataset: variant, path: string, shard_func_other_args: Tshard_func_args)",
    "stateful; compression: string = ''; shard_func: func; use_shard_func: bool = true; "
    "Tshard_func_args: list(type) >= 0",
    WritesFiles(),
    NotDifferentiable(),
)
define(
    "SaveDatasetV2(input_dataset: variant, path: string, shard_func_other_args: Tshard_func_args) "
    "-> handle: variant",
    "stateful; compression: string = ''; shard_func: func; use_shard_func: bool = true; "
    "Tshard_func_args: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    WritesFiles(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "LoadDataset(path: string, reader_func_other_args: Treader_func_args) -> handle: variant",
    "stateful; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; "
    "compression: string = ''; reader_func: func; Treader_func_args: list(type) >= 0",
    ReadsFiles(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "SnapshotDatasetReader(shard_dir: string, start_index: int64) -> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; compression: string = ''; version: int",
    ReadsFiles(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "SnapshotNestedDatasetReader(inputs: N * variant) -> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; N: int >= 1",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "SnapshotChunkDataset(chunk_file: string) -> handle: variant",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; compression: string = ''",
    ReadsFiles(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ListSnapshotChunksDataset(snapshot_path: string) -> handle: variant",
    "stateful; output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    ReadsFiles(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "DatasetToTFRecord, ExperimentalDatasetToTFRecord(input_dataset: variant, filename, "
    "compression_type: string)",
    "stateful",
    WritesFiles(),
    NotDifferentiable(),
)
