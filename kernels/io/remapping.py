"""Starting from another model's checkpoint: where its words have gone, its matrix in the new order."""

from __future__ import annotations

from typing import Any

import numpy as np
import trio

from flowengine.checkpoint import open_checkpoint
from flowengine.core import dtypes
from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError, UnimplementedError
from flowengine.kernels.common.file_access import path_of, read_lines, require_reading
from flowengine.kernels.context import KernelContext
from flowengine.kernels.io.checkpoint import on_thread, single_path
from flowengine.kernels.registry import kernel


@kernel("GenerateVocabRemapping")
async def generate_vocab_remapping(
    new_vocab_file: Value,
    old_vocab_file: Value,
    *,
    ctx: KernelContext,
    new_vocab_offset: int,
    num_new_vocab: int,
    old_vocab_size: int,
) -> tuple[Any, Any]:
    """The line in the old file of each chosen line of the new one: int64 [num_new_vocab], -1 where none is.

    And how many were found, int32 []. Raises InvalidArgumentError where a file has too few lines and
    FailedPreconditionError for a line that is twice in the old one.
    """
    new_path, old_path = path_of(new_vocab_file, "new_vocab_file"), path_of(old_vocab_file, "old_vocab_file")
    old_lines = await read_lines(ctx, old_path)
    if old_vocab_size != -1:
        if len(old_lines) < old_vocab_size:
            raise InvalidArgumentError(
                f"{old_path} has {len(old_lines)} lines, fewer than old_vocab_size {old_vocab_size}"
            )
        old_lines = old_lines[:old_vocab_size]
    places: dict[bytes, int] = {}
    for number, line in enumerate(old_lines):
        if places.setdefault(line, number) != number:
            raise FailedPreconditionError(f"{old_path}: {line!r} is in lines {places[line]} and {number}")
    new_lines = await read_lines(ctx, new_path)
    end = new_vocab_offset + num_new_vocab
    if len(new_lines) < end:
        raise InvalidArgumentError(
            f"{new_path} has {len(new_lines)} lines, fewer than new_vocab_offset {new_vocab_offset} + "
            f"num_new_vocab {num_new_vocab}"
        )
    remapping = np.array([places.get(line, -1) for line in new_lines[new_vocab_offset:end]], dtype=np.int64)
    return remapping, np.int32(np.count_nonzero(remapping >= 0))


def _check_remapping(remapping: Array, what: str, size: int) -> None:
    if remapping.ndim != 1 or len(remapping) != size:
        raise InvalidArgumentError(f"Size of {what} is {list(remapping.shape)} instead of [{size}]")
    used = remapping[remapping >= 0]
    if len(np.unique(used)) != len(used):
        raise UnimplementedError(f"{what} uses an old id more than once: {remapping.tolist()}")


@kernel("LoadAndRemapMatrix")
async def load_and_remap_matrix(
    ckpt_path: Value,
    old_tensor_name: Value,
    row_remapping: Value,
    col_remapping: Value,
    initializing_values: Value,
    *,
    ctx: KernelContext,
    num_rows: int,
    num_cols: int,
) -> Array:
    """float32 [num_rows, num_cols]: an old matrix's rows and columns in a new order.

    An index of -1 takes the next of `initializing_values`, which must be as many as are needed. Raises
    InvalidArgumentError for sizes that do not fit and UnimplementedError for an index given twice.
    """
    path = single_path(ckpt_path, "ckpt_path")
    name_array = to_array(old_tensor_name)
    if name_array.size != 1:
        raise InvalidArgumentError(f"old_tensor_name should be one string, got {name_array.size}")
    name: bytes = name_array.reshape(-1)[0]
    rows, columns = to_array(row_remapping), to_array(col_remapping)
    _check_remapping(rows, "row_remapping", num_rows)
    if columns.size:
        _check_remapping(columns, "col_remapping", num_cols)
    require_reading(ctx, path)

    def work() -> Array:
        with open_checkpoint(path, check=trio.from_thread.check_cancelled, files=ctx.files) as reader:
            if len(reader.shape(name)) != 2 or reader.dtype(name) is not dtypes.float32:
                raise InvalidArgumentError(
                    f"Old tensor must be a float32 matrix, is {reader.dtype(name)} {list(reader.shape(name))}"
                )
            return reader.read(name)

    old = await on_thread(work, path)
    if not columns.size:
        if old.shape[1] != num_cols:
            raise InvalidArgumentError(
                f"col_remapping is empty, but the old matrix has {old.shape[1]} columns "
                f"and num_cols is {num_cols}"
            )
        columns = np.arange(num_cols)
    for what, ids, limit in (("row", rows, old.shape[0]), ("col", columns, old.shape[1])):
        if ids.max(initial=-1) >= limit:
            raise InvalidArgumentError(
                f"{what}_remapping {int(ids.max())} is not in the old matrix of shape {list(old.shape)}"
            )
    result = np.empty((num_rows, num_cols), np.float32)
    known_rows, known_columns = np.flatnonzero(rows >= 0), np.flatnonzero(columns >= 0)
    result[np.ix_(known_rows, known_columns)] = old[np.ix_(rows[known_rows], columns[known_columns])]
    missing = (rows < 0)[:, None] | (columns < 0)
    values = to_array(initializing_values).reshape(-1)
    needed = int(np.count_nonzero(missing))
    if len(values) != needed:
        raise InvalidArgumentError(
            f"{len(values)} initializing_values are given, but {needed} elements are not in the old matrix"
        )
    result[missing] = values
    return result
