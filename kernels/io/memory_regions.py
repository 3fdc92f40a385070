"""Tensors that lie in files as they lie in memory: mapped, not read, so that processes share them."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, UnimplementedError
from flowengine.core.shapes import TensorShape
from flowengine.kernels.common.file_access import path_of, require_reading, translated
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel


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
