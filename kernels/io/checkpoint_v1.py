"""Saving and restoring checkpoints of format V1, one tensor at a time when restoring."""

from __future__ import annotations

import os

import trio

from flowengine.checkpoint import FileLayer, V1Reader, V1Writer
from flowengine.checkpoint.reader import shown
from flowengine.checkpoint.slices import parse_shape_and_slice
from flowengine.core.arrays import Value, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.file_access import require_reading, require_writing
from flowengine.kernels.context import KernelContext
from flowengine.kernels.io.checkpoint import on_thread, requested, single_path, string_list
from flowengine.kernels.registry import kernel


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


async def _restore(
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
    return await _restore(ctx, file_pattern, tensor_name, "", dt)


@kernel("RestoreSlice")
async def restore_slice(
    file_pattern: Value, tensor_name: Value, shape_and_slice: Value, *, ctx: KernelContext, dt: DType
) -> Value:
    """A slice of a tensor; raises as Restore does, and InvalidArgumentError for another shape."""
    spec = single_path(shape_and_slice, "shape_and_slice")
    return await _restore(ctx, file_pattern, tensor_name, spec, dt)
