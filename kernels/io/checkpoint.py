"""Checkpoints, written and read, in both formats."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import trio

from flowengine.checkpoint import (
    BundleReader,
    BundleWriter,
    FileLayer,
    V1Reader,
    V1Writer,
    merge_bundles,
    open_checkpoint,
    read_many,
)
from flowengine.checkpoint.reader import shown
from flowengine.checkpoint.slices import Slice, parse_shape_and_slice
from flowengine.core.arrays import Value, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.files.access import Files
from flowengine.kernels.common.file_access import path_of, require_reading, require_writing, translated
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel

# Saving and restoring checkpoints of format V2.
#
# The work is done on a worker thread, so that other steps go on meanwhile; a step that is cancelled stops
# it
# between pieces of a tensor, and a save leaves nothing behind then.

Result = TypeVar("Result")


def single_path(value: Value, what: str) -> str:
    """The path in a tensor of one string; InvalidArgumentError for any other."""
    array = to_array(value)
    if array.size != 1:
        raise InvalidArgumentError(f"Input {what} should have a single element, got {array.size} instead.")
    return path_of(value, what)


def string_list(value: Value, what: str, count: int) -> list[bytes]:
    """The elements of a vector of `count` strings; InvalidArgumentError for any other."""
    array = to_array(value)
    if array.ndim != 1 or array.size != count:
        raise InvalidArgumentError(
            f"Input {what} should be an 1-D tensor with {count} elements, "
            f"got shape {list(array.shape)} instead."
        )
    return list(array)


async def on_thread(work: Callable[[], Result], path: str) -> Result:
    """Run the work on a thread and wait for it, also where cancelled; errors of the system become ours."""
    try:
        return await trio.to_thread.run_sync(work)
    except OSError as error:
        raise translated(error, os.fsdecode(error.filename) if error.filename else path) from error


@kernel("SaveV2")
async def save_v2(
    prefix: Value,
    tensor_names: Value,
    shape_and_slices: Value,
    tensors: tuple[Value, ...],
    *,
    ctx: KernelContext,
    dtypes: tuple[DType, ...],
) -> None:
    """Save tensors, or slices of larger ones, under a prefix.

    Raises InvalidArgumentError for a name given twice and for a slice that its tensor does not fit.
    """
    path = single_path(prefix, "prefix")
    names = string_list(tensor_names, "tensor_names", len(tensors))
    specs = string_list(shape_and_slices, "shape_and_slices", len(tensors))
    require_writing(ctx, path)

    def work() -> None:
        check = trio.from_thread.check_cancelled
        with BundleWriter(path, sync=ctx.sync_checkpoints, check=check, files=FileLayer(ctx.files)) as writer:
            for name, spec, tensor, dtype in zip(names, specs, tensors, dtypes, strict=True):
                if spec:
                    shape, part, _ = parse_shape_and_slice(os.fsdecode(spec))
                    writer.add_slice(name, shape, part, tensor, dtype)
                else:
                    writer.add(name, tensor, dtype)

    await on_thread(work, path)


@kernel("RestoreV2")
async def restore_v2(
    prefix: Value,
    tensor_names: Value,
    shape_and_slices: Value,
    *,
    ctx: KernelContext,
    dtypes: tuple[DType, ...],
) -> Any:
    """Tensors, or slices of them, from the checkpoint under a prefix.

    Raises NotFoundError for a missing checkpoint or name, InvalidArgumentError for another type or shape,
    DataLossError for damage.
    """
    path = single_path(prefix, "prefix")
    names = string_list(tensor_names, "tensor_names", len(dtypes))
    specs = [os.fsdecode(s) for s in string_list(shape_and_slices, "shape_and_slices", len(dtypes))]
    require_reading(ctx, path)
    values = await on_thread(lambda: _restore(path, names, specs, dtypes, ctx.files), path)
    return values[0] if len(values) == 1 else tuple(values)


def _restore(
    path: str, names: list[bytes], specs: list[str], types: tuple[DType, ...], files: Files
) -> list[Value]:
    with open_checkpoint(path, check=trio.from_thread.check_cancelled, files=files) as reader:
        wrong = [
            f"tensor_name = {shown(name)}; expected dtype {dtype} does not equal "
            f"original dtype {reader.dtype(name)}"
            for name, dtype in zip(names, types, strict=True)
            if reader.dtype(name) is not dtype
        ]
        if wrong:
            raise InvalidArgumentError("\n".join(wrong))
        parts = [requested(reader, name, spec) for name, spec in zip(names, specs, strict=True)]
        requests = list(zip(names, parts, strict=True))
        return read_many(reader, requests, check=trio.from_thread.check_cancelled)


def requested(reader: BundleReader | V1Reader, name: bytes, spec: str) -> Slice | None:
    """The slice that a specification says, None for the whole.

    Raises InvalidArgumentError where the specification is for a tensor of another shape.
    """
    if not spec:
        return None
    shape, part, _ = parse_shape_and_slice(spec)
    if reader.shape(name) != shape:
        raise InvalidArgumentError(
            f"tensor_name = {shown(name)}; shape in shape_and_slice spec {list(shape)} does not match "
            f"the shape stored in checkpoint: {list(reader.shape(name))}"
        )
    return part


@kernel("MergeV2Checkpoints")
async def merge_v2_checkpoints(
    checkpoint_prefixes: Value,
    destination_prefix: Value,
    *,
    ctx: KernelContext,
    delete_old_dirs: bool,
    allow_missing_files: bool,
) -> None:
    """Make one checkpoint of several; what is left of their folders is removed if asked for and empty.

    Raises InvalidArgumentError for a tensor that is in two of them and NotFoundError for a missing one;
    with `allow_missing_files` InvalidArgumentError where all are missing.
    """
    prefixes = [os.fsdecode(prefix) for prefix in to_array(checkpoint_prefixes).reshape(-1)]
    destination = single_path(destination_prefix, "destination_prefix")
    require_writing(ctx, destination)

    def work() -> None:
        files = FileLayer(ctx.files)
        merge_bundles(
            prefixes, destination, sync=ctx.sync_checkpoints, files=files, missing=allow_missing_files
        )
        if delete_old_dirs:
            kept = os.path.dirname(destination)
            for folder in sorted({os.path.dirname(prefix) for prefix in prefixes} - {kept, ""}):
                try:
                    ctx.files.remove_folder(folder)
                except OSError:
                    continue  # not empty, or removed already: the merged checkpoint is complete

    await on_thread(work, destination)


def _number(value: Value, what: str) -> int:
    array = to_array(value)
    if array.ndim:
        raise InvalidArgumentError(f"{what} must be a scalar, got shape {list(array.shape)}")
    return int(array)


def _base(value: Value) -> bytes:
    array = to_array(value)
    if array.ndim:
        raise InvalidArgumentError(f"basename must be a scalar, got shape {list(array.shape)}")
    base = array[()]
    assert isinstance(base, bytes)
    return base


@kernel("ShardedFilename", heavy=False)
def sharded_filename(basename: Value, shard: Value, num_shards: Value) -> bytes:
    """The name of one of several files: `base-00001-of-00004`."""
    return _base(basename) + b"-%05d-of-%05d" % (_number(shard, "shard"), _number(num_shards, "num_shards"))


@kernel("ShardedFilespec", heavy=False)
def sharded_filespec(basename: Value, num_shards: Value) -> bytes:
    """The pattern that all of several files match: `base-?????-of-00004`."""
    return _base(basename) + b"-?????-of-%05d" % _number(num_shards, "num_shards")


# Saving and restoring checkpoints of format V1, one tensor at a time when restoring.


async def _save(
    ctx: KernelContext,
    path: str,
    names: list[bytes],
    specs: list[bytes],
    data: tuple[Value, ...],
    types: tuple[DType, ...],
) -> None:
    require_writing(ctx, path)

    def work() -> None:
        check = trio.from_thread.check_cancelled
        with V1Writer(path, sync=ctx.sync_checkpoints, check=check, files=FileLayer(ctx.files)) as writer:
            for name, spec, value, dtype in zip(names, specs, data, types, strict=True):
                if spec:
                    shape, part, _ = parse_shape_and_slice(os.fsdecode(spec))
                    writer.add_slice(name, shape, part, value, dtype)
                else:
                    writer.add(name, value, dtype)

    await on_thread(work, path)


@kernel("Save")
async def save(
    filename: Value, tensor_names: Value, data: tuple[Value, ...], *, ctx: KernelContext, T: tuple[DType, ...]
) -> None:
    """Save tensors in one file; InvalidArgumentError for a name given twice."""
    path = single_path(filename, "filename")
    names = string_list(tensor_names, "tensor_names", len(data))
    await _save(ctx, path, names, [b""] * len(data), data, T)


@kernel("SaveSlices")
async def save_slices(
    filename: Value,
    tensor_names: Value,
    shapes_and_slices: Value,
    data: tuple[Value, ...],
    *,
    ctx: KernelContext,
    T: tuple[DType, ...],
) -> None:
    """Save tensors or slices of larger ones; InvalidArgumentError where a slice does not fit."""
    path = single_path(filename, "filename")
    names = string_list(tensor_names, "tensor_names", len(data))
    specs = string_list(shapes_and_slices, "shapes_and_slices", len(data))
    await _save(ctx, path, names, specs, data, T)


async def _restore_v1(
    ctx: KernelContext, file_pattern: Value, tensor_name: Value, spec: str, dtype: DType
) -> Value:
    pattern = single_path(file_pattern, "file_pattern")
    array = to_array(tensor_name)
    if array.size != 1:
        raise InvalidArgumentError(
            f"Input tensor_name should have a single element, got {array.size} instead."
        )
    name: bytes = array.reshape(-1)[0]
    require_reading(ctx, pattern)

    def work() -> Value:
        with V1Reader(pattern, check=trio.from_thread.check_cancelled, files=ctx.files) as reader:
            return read_v1(reader, name, spec, dtype)

    return await on_thread(work, pattern)


def read_v1(reader: V1Reader, name: bytes, spec: str, dtype: DType) -> Value:
    """One tensor, or the slice that the specification says.

    Raises NotFoundError for a name that is not there, InvalidArgumentError for another type or shape.
    """
    if reader.dtype(name) is not dtype:
        raise InvalidArgumentError(
            f"Expected to restore a tensor of type {dtype}, got a tensor of type {reader.dtype(name)} "
            f"instead: tensor_name = {shown(name)}"
        )
    return reader.read(name, requested(reader, name, spec))


@kernel("Restore")
async def restore(file_pattern: Value, tensor_name: Value, *, ctx: KernelContext, dt: DType) -> Value:
    """A tensor from the files that match a pattern.

    Raises NotFoundError for a missing file or name, InvalidArgumentError for another type, DataLossError
    for damage.
    """
    return await _restore_v1(ctx, file_pattern, tensor_name, "", dt)


@kernel("RestoreSlice")
async def restore_slice(
    file_pattern: Value, tensor_name: Value, shape_and_slice: Value, *, ctx: KernelContext, dt: DType
) -> Value:
    """A slice of a tensor; raises as Restore does, and InvalidArgumentError for another shape."""
    spec = single_path(shape_and_slice, "shape_and_slice")
    return await _restore_v1(ctx, file_pattern, tensor_name, spec, dt)
