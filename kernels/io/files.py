"""Whole files, regions of memory, rows picked by files of names, and printing."""

from __future__ import annotations

import logging
import os
import sys
import time
from typing import Any, Final, TextIO

import numpy as np
import trio

from flowengine.checkpoint import open_checkpoint
from flowengine.core import dtypes
from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError, UnimplementedError
from flowengine.core.files.access import Files
from flowengine.core.shapes import TensorShape
from flowengine.ir.graph import Node
from flowengine.kernels.array.identity import summarize_value
from flowengine.kernels.common.file_access import (
    path_of,
    read_lines,
    require_reading,
    require_writing,
    translated,
)
from flowengine.kernels.context import KernelContext
from flowengine.kernels.io.checkpoint import on_thread, single_path
from flowengine.kernels.registry import kernel
from flowengine.kernels.strings.text import strings_like

# Whole files in and out, and the names that match a pattern, as far as the configuration allows it.
#
# All work happens on threads. A file is written under another name and renamed when it is complete.

#: Bytes of a file that are read at a time.
_PIECE: Final = 16 << 20


def _scalar(value: Value, what: str) -> bytes:
    array = to_array(value)
    if array.ndim:
        raise InvalidArgumentError(f"{what} tensor must be scalar, but had shape: {list(array.shape)}")
    text: bytes = array.item()
    return text


@kernel("ReadFile", heavy=False)
async def read_file(filename: Value, *, ctx: KernelContext) -> bytes:
    """The contents of a file (string, rank 0).

    Raises NotFoundError, PermissionDeniedError (also by configuration), or FailedPreconditionError for a
    directory.
    """
    path = path_of(_scalar(filename, "Input filename"))
    require_reading(ctx, path)

    is_over = False
    memory, files = ctx.memory, ctx.files

    def read() -> bytes:
        # In pieces, because a device or a pipe may have no end, and the read must stop with the step.
        parts: list[bytes] = []
        size = 0
        with files.open(path) as file:
            while not is_over and (part := file.read(_PIECE)):
                size += len(part)
                if memory is not None:
                    memory.check(2 * size)  # the pieces, and what they are joined to
                parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    try:
        return await trio.to_thread.run_sync(read, abandon_on_cancel=True)
    except OSError as error:
        raise translated(error, path) from error
    finally:
        is_over = True


@kernel("WriteFile", heavy=False)
async def write_file(filename: Value, contents: Value, *, ctx: KernelContext) -> None:
    """Write a file, making the folders that it needs; PermissionDeniedError where that is not allowed."""
    path = path_of(_scalar(filename, "Input filename"))
    data = _scalar(contents, "Contents")
    require_writing(ctx, path)
    try:
        await trio.to_thread.run_sync(ctx.files.write_whole, path, data)
    except OSError as error:
        raise translated(error, path) from error


@kernel("MatchingFiles", heavy=False)
async def matching_files(pattern: Value, *, ctx: KernelContext) -> Any:
    """The files that match any of the patterns, sorted (string [n]); `*` and `?` stop at a slash."""
    texts = to_array(pattern).reshape(-1).tolist()
    paths = [path_of(text, "pattern") for text in texts]
    for path in paths:
        require_reading(ctx, path)

    try:
        found = await trio.to_thread.run_sync(matching, paths, ctx.files, abandon_on_cancel=True)
    except OSError as error:
        raise translated(error, paths[0]) from error
    return strings_like(found, (len(found),))


def matching(patterns: list[str], files: Files) -> list[bytes]:
    """The files that match any of the patterns, sorted. May block."""
    return sorted({os.fsencode(found) for pattern in patterns for found in files.matching(pattern)})


# Tensors that lie in files as they lie in memory: mapped, not read, so that processes share them.


@kernel("ImmutableConst", heavy=False)
def immutable_const(
    *, dtype: DType, shape: TensorShape, memory_region_name: bytes, ctx: KernelContext
) -> Array:
    """The elements of a file, in the order of this machine's memory; nobody can write to them.

    Raises NotFoundError, PermissionDeniedError (also by configuration), and InvalidArgumentError where the
    file has fewer bytes than the tensor.
    """
    path = path_of(memory_region_name, "memory_region_name")
    require_reading(ctx, path)
    element = dtype.as_numpy_dtype
    if element.hasobject:
        raise UnimplementedError(f"a memory region holds numbers, not elements of type {dtype}")
    dims = shape.dims
    if dims is None or None in dims:
        raise InvalidArgumentError(f"the shape of a memory region must be known, but is {shape}")
    sizes: tuple[Any, ...] = tuple(dims)
    count = int(np.prod(sizes, dtype=np.int64))
    if not count:
        return np.zeros(sizes, element)
    try:
        with ctx.files.open(path) as file:
            octets = np.memmap(file, np.uint8, "r")
    except (OSError, ValueError) as error:
        if isinstance(error, OSError):
            raise translated(error, path) from error
        raise InvalidArgumentError(f"memory region {path!r} is empty") from error
    wanted = count * element.itemsize
    if octets.size < wanted:
        raise InvalidArgumentError(
            f"memory region {path!r} has {octets.size} bytes, but {dtype} of shape {shape} takes {wanted}"
        )
    region: Array = np.asarray(octets[:wanted].view(element).reshape(sizes))
    return region


# Starting from another model's checkpoint: the new places of its vocabulary, its matrix in that order.


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


# Print, PrintV2 and Timestamp: output for a person who watches a graph run.

_LEVELS: Final = {"log(info)": logging.INFO, "log(warning)": logging.WARNING, "log(error)": logging.ERROR}
_FILE: Final = "file://"


class PrintCount:
    """How often one Print node has printed in the life of its task's resources."""

    __slots__ = ("printed",)

    def __init__(self) -> None:
        self.printed = 0


def _text(data: Value) -> str:
    if isinstance(data, np.ndarray):
        data = data[()]
    if not isinstance(data, bytes):
        raise InvalidArgumentError("the text to print must be a single string")
    return data.decode("utf-8", "backslashreplace")


@kernel("Print", heavy=False)
def print_(
    x: Value,
    data: tuple[Value, ...],
    *,
    message: bytes,
    first_n: int,
    summarize: int,
    node: Node,
    ctx: KernelContext,
) -> Value:
    """x; on the way, one line on stderr: the message and the first elements of each datum.

    first_n     from this many lines on nothing is printed; -1: always
    summarize   elements shown of each datum; -1: all
    """
    if first_n >= 0:
        count = ctx.resources.lookup_or_create("", f"print count of {node.name}", PrintCount, PrintCount)
        if count.printed >= first_n:
            return x
        count.printed += 1
    line = _text(message) + "".join(f"[{summarize_value(d, summarize)}]" for d in data)
    sys.stderr.write(line + "\n")
    return x


@kernel("PrintV2", heavy=False)
def print_v2(text: Value, *, output_stream: bytes, end: bytes, ctx: KernelContext) -> None:
    """Write the text and `end` to stdout, stderr, a log level (`log(info)`) or the end of `file://path`.

    Raises InvalidArgumentError for another stream, PermissionDeniedError where files may not be written.
    """
    stream = _text(output_stream)
    line = _text(text) + _text(end)
    # Looked up now: a program may have replaced them since the import.
    streams: dict[str, TextIO] = {"stderr": sys.stderr, "stdout": sys.stdout}
    if stream in streams:
        streams[stream].write(line)
        streams[stream].flush()
    elif stream in _LEVELS:
        logging.getLogger("flowengine").log(_LEVELS[stream], "%s", line.rstrip("\n"))
    elif stream.startswith(_FILE):
        path = os.fsdecode(output_stream[len(_FILE) :])
        try:
            with ctx.files.append(path) as file:
                file.write(line.encode("utf-8", "surrogateescape"))
        except OSError as error:
            raise translated(error, path) from error
    else:
        raise InvalidArgumentError(
            f"Unknown output stream {stream!r}: give stdout, stderr, {', '.join(_LEVELS)} or file://path"
        )


@kernel("Timestamp", heavy=False)
def timestamp() -> np.float64:
    """Seconds since 1970."""
    return np.float64(time.time())
