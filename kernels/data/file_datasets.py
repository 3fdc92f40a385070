"""Datasets of files in further formats, as nodes. What they do stands in `resources/data/`."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Value, to_array
from flowengine.core.checksums.hashing import fingerprint64
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.common.file_access import path_of, require_reading, require_writing, translated
from flowengine.kernels.context import KernelContext
from flowengine.kernels.data.dataset_graphs import graph_of
from flowengine.kernels.data.datasets import origin_of, register_datasets
from flowengine.kernels.io.decoding import check_csv, check_increasing, csv_defaults, csv_fields, csv_value
from flowengine.kernels.io.files import matching
from flowengine.kernels.registry import kernel
from flowengine.resources.data.csv_files import CSVDataset
from flowengine.resources.data.dataset import Iteration, Origin, checked_dataset, text
from flowengine.resources.data.files import lmdb_dataset, tf_record_dataset
from flowengine.resources.data.matching import MatchingFilesDataset
from flowengine.resources.data.saved.loading import LoadedDataset, ShardFolderDataset
from flowengine.resources.data.saved.saving import SavedDataset, save_all
from flowengine.resources.data.saved.snapshots import (
    FirstSnapshotDataset,
    SnapshotDataset,
    chunk_dataset,
    nested_dataset,
)
from flowengine.resources.data.sql import sql_dataset
from flowengine.resources.data.writing import write_tf_records
from flowengine.resources.elements import Element
from flowengine.resources.records import checked_compression


def csv_dataset(
    origin: Origin,
    filenames: Value,
    compression_type: Value,
    buffer_size: Value,
    header: Value,
    field_delim: Value,
    use_quote_delim: Value,
    na_value: Value,
    select_cols: Value,
    record_defaults: tuple[Value, ...],
    exclude_cols: Value | None = None,
) -> CSVDataset:
    """The rows of CSV files, as `DecodeCSV` reads records; an empty line is a row of one empty field."""
    types = origin.attrs["output_types"]
    delimiter, missing = text(field_delim, "field_delim"), text(na_value, "na_value")
    selected: list[int] = to_array(select_cols).reshape(-1).tolist()
    excluded: list[int] = [] if exclude_cols is None else to_array(exclude_cols).reshape(-1).tolist()
    if selected and excluded:
        raise InvalidArgumentError("Either select_cols or exclude_cols should be empty")
    check_csv(delimiter, selected, len(types))
    check_increasing(excluded, "exclude_cols")
    left_out = frozenset(excluded)
    defaults = csv_defaults(record_defaults)
    has_quotes = bool(use_quote_delim)

    def read(row: bytes, number: int) -> Element:
        fields = csv_fields(row, delimiter, has_quotes, number) or [b""]
        if selected:
            fields = [fields[c] for c in selected if c < len(fields)]
        elif left_out:
            fields = [field for c, field in enumerate(fields) if c not in left_out]
        if len(fields) != len(types):
            raise InvalidArgumentError(
                f"Expect {len(types)} fields but have {len(fields)} in record {number}"
            )
        values = []
        for index, (field, dtype, default) in enumerate(zip(fields, types, defaults, strict=True)):
            value = csv_value(field, dtype, missing, default, index, number)
            with np.errstate(over="ignore"):  # what is too large for the type is infinite
                values.append(value if dtype is dtypes.string else dtype.as_numpy_dtype.type(value))
        return tuple(values)

    return CSVDataset(
        origin,
        filenames,
        compression_type,
        buffer_size,
        has_header=bool(header),
        delimiter=delimiter,
        has_quotes=has_quotes,
        read=read,
    )


def _number_of(input_dataset: Any) -> str:
    """The number of our own graph of a dataset."""
    return str(fingerprint64(graph_of(checked_dataset(input_dataset))))


def first_snapshot_dataset(origin: Origin, input_dataset: Any, path: Any) -> FirstSnapshotDataset:
    """A dataset that is kept in a folder under the number that our own graph of it has."""
    return FirstSnapshotDataset(origin, input_dataset, path, _number_of(input_dataset))


def snapshot_dataset(
    origin: Origin,
    input_dataset: Any,
    path: Any,
    reader_func_other_args: tuple[Any, ...],
    shard_func_other_args: tuple[Any, ...],
) -> SnapshotDataset:
    """A dataset that is kept in a folder under `hash`, or under the number that our own graph of it has."""
    given = origin.attrs["hash_valid"]
    number = str(int(origin.attrs["hash"]) % 2**64) if given else _number_of(input_dataset)
    return SnapshotDataset(origin, input_dataset, path, reader_func_other_args, shard_func_other_args, number)


register_datasets(
    {
        "CSVDataset CSVDatasetV2 ExperimentalCSVDataset": csv_dataset,
        "ExperimentalLMDBDataset LMDBDataset": lmdb_dataset,
        "LoadDataset": LoadedDataset,
        "SaveDatasetV2": SavedDataset,
        "SnapshotChunkDataset": chunk_dataset,
        "SnapshotDataset": first_snapshot_dataset,
        "SnapshotDatasetV2": snapshot_dataset,
        "SnapshotNestedDatasetReader": nested_dataset,
        "ExperimentalSqlDataset SqlDataset": sql_dataset,
        "TFRecordDatasetV2": tf_record_dataset,
    }
)


@kernel("ExperimentalMatchingFilesDataset", "MatchingFilesDataset", heavy=False)
def matching_files_dataset(patterns: Any, *, ctx: KernelContext, node: Node) -> MatchingFilesDataset:
    """A dataset (variant, rank 0) of the files that match patterns.

    Its elements raise PermissionDeniedError where the configuration forbids to read what a pattern names.
    """

    def matches(pattern: bytes) -> list[bytes]:
        path = path_of(pattern, "pattern")
        require_reading(ctx, path)
        try:
            found = matching([path], ctx.files)
            return [each for each in found if not ctx.files.is_folder(os.fsdecode(each))]
        except OSError as error:
            raise translated(error, path) from error

    return MatchingFilesDataset(origin_of(ctx, node, (patterns,)), patterns, matches)


@kernel("SnapshotDatasetReader", heavy=False)
def snapshot_dataset_reader(
    shard_dir: Any, start_index: Any, *, ctx: KernelContext, node: Node
) -> ShardFolderDataset:
    """A dataset (variant, rank 0) of the elements in the files of a folder, from one on.

    Raises PermissionDeniedError where the configuration forbids to read the folder.
    """
    require_reading(ctx, path_of(text(shard_dir, "shard_dir")))
    return ShardFolderDataset(origin_of(ctx, node, (shard_dir, start_index)), shard_dir, start_index)


@kernel("DatasetToTFRecord", "ExperimentalDatasetToTFRecord", heavy=False)
async def dataset_to_tf_record(
    input_dataset: Any, filename: Any, compression_type: Any, *, ctx: KernelContext
) -> None:
    """Write the elements of a dataset (string, rank 0) as the records of a file. See `write_tf_records`.

    Raises PermissionDeniedError where writing is forbidden, and an error of the dataset as it comes.
    """
    found = checked_dataset(input_dataset)
    path = path_of(text(filename, "filename"))
    compression = checked_compression(text(compression_type, "compression_type"))
    require_writing(ctx, path)
    iteration = Iteration(ctx.resources.services)
    try:
        await write_tf_records(found, iteration, path, compression, ctx.files)
    except OSError as error:
        raise translated(error, path) from error
    finally:
        iteration.tasks.cancel()


@kernel("SaveDataset", heavy=False)
async def save_dataset(
    input_dataset: Any, path: Any, shard_func_other_args: tuple[Any, ...], *, ctx: KernelContext, node: Node
) -> None:
    """Save the elements of a dataset in a folder (string, rank 0), as TensorFlow loads them.

    Raises PermissionDeniedError where writing is forbidden, and an error of the dataset as it comes; nothing
    of the run is left then, and what was saved before stays.
    """
    made = SavedDataset(origin_of(ctx, node, (input_dataset,)), input_dataset, path, shard_func_other_args)
    iteration = Iteration(ctx.resources.services)
    try:
        await save_all(made, iteration)
    except OSError as error:
        raise translated(error, made.path) from error
    finally:
        iteration.tasks.cancel()
