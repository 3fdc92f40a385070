"""Accumulators of gradients as nodes, by reference and by resource handle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from flowengine.core.arrays import Value, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.ir.graph import Node
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel
from flowengine.resources.accumulator import Accumulator, SparseAccumulator
from flowengine.resources.names import resource_name

Either = TypeVar("Either", Accumulator, SparseAccumulator)


def _shared(ctx: KernelContext, node: Node, kind: type[Either], make: Callable[..., Either]) -> Either:
    attrs = node.attrs
    where, name = resource_name(attrs["container"], attrs["shared_name"], node.name)
    dtype: DType = attrs["dtype"]
    shape: TensorShape = attrs["shape"]
    average = attrs.get("reduction_type", b"MEAN") != b"SUM"
    found = ctx.resources.find(where, name, kind)
    if found is None:
        return ctx.resources.lookup_or_create(
            where, name, kind, lambda: make(name, dtype, shape, average=average, container=where)
        )
    if found.dtype is not dtype.base or found.shape != shape:
        raise InvalidArgumentError(
            f"Shared conditional accumulator '{name}' has {found.dtype}{found.shape} "
            f"but {dtype}{shape} was requested"
        )
    return found


@kernel("ConditionalAccumulator", "ResourceConditionalAccumulator", heavy=False)
def conditional_accumulator(*, ctx: KernelContext, node: Node) -> Accumulator:
    """An accumulator of tensors."""
    return _shared(ctx, node, Accumulator, Accumulator)


@kernel("SparseConditionalAccumulator", heavy=False)
def sparse_conditional_accumulator(*, ctx: KernelContext, node: Node) -> SparseAccumulator:
    """An accumulator of slices."""
    return _shared(ctx, node, SparseAccumulator, SparseAccumulator)


def _checked(handle: Any, kind: type[Either], dtype: DType | None = None) -> Either:
    if not isinstance(handle, kind):
        raise InvalidArgumentError(f"the handle of a {kind.kind} is wanted, not a {type(handle).__name__}")
    if dtype is not None and dtype.base is not handle.dtype:
        raise InvalidArgumentError(
            f"{kind.kind} '{handle.name}' holds {handle.dtype}, but this node works on {dtype}"
        )
    return handle


def _any(handle: Any) -> Accumulator | SparseAccumulator:
    if isinstance(handle, SparseAccumulator):
        return handle
    return _checked(handle, Accumulator)


def _scalar(value: Any, what: str) -> int:
    if getattr(value, "ndim", 0):
        raise InvalidArgumentError(f"Argument {what} must be scalar but had shape {list(value.shape)}")
    return int(value)


@kernel("AccumulatorNumAccumulated", "ResourceAccumulatorNumAccumulated", heavy=False)
def accumulator_num_accumulated(handle: Any) -> Any:
    """How many gradients came since the last take (int32, rank 0)."""
    return np.int32(_any(handle).count)


@kernel("AccumulatorSetGlobalStep", "ResourceAccumulatorSetGlobalStep", heavy=False)
def accumulator_set_global_step(handle: Any, new_global_step: Any) -> None:
    """Move to another step (int64, rank 0)."""
    _any(handle).set_global_step(_scalar(new_global_step, "new_global_step"))


@kernel("AccumulatorApplyGradient", "ResourceAccumulatorApplyGradient")
def accumulator_apply_gradient(handle: Any, local_step: Any, gradient: Value, *, dtype: DType) -> None:
    """Add a gradient computed for `local_step` (int64, rank 0), unless it is late."""
    _checked(handle, Accumulator, dtype).apply(_scalar(local_step, "local_step"), gradient)


def _take_nowait(handle: Any, num_required: Any, *, dtype: DType) -> Any:
    return _checked(handle, Accumulator, dtype).take_nowait(_scalar(num_required, "num_required"))


@kernel("AccumulatorTakeGradient", "ResourceAccumulatorTakeGradient", heavy=False, nowait=_take_nowait)
async def accumulator_take_gradient(handle: Any, num_required: Any, *, dtype: DType) -> Value:
    """The average of at least `num_required` gradients (int32, rank 0), waiting for them."""
    return await _checked(handle, Accumulator, dtype).take(_scalar(num_required, "num_required"))


@kernel("SparseAccumulatorApplyGradient")
def sparse_accumulator_apply_gradient(
    handle: Any,
    local_step: Any,
    gradient_indices: Any,
    gradient_values: Any,
    gradient_shape: Any,
    *,
    dtype: DType,
    has_known_shape: bool,
) -> None:
    """Add slices (n, ...) at indices (int64, (n,)) of a tensor of `gradient_shape`, unless they are late."""
    shape = None
    if has_known_shape:
        vector = to_array(gradient_shape)
        if vector.ndim != 1:
            raise InvalidArgumentError(
                f"Input shape should be vector but received shape: {list(vector.shape)}"
            )
        shape = vector.tolist()
    _checked(handle, SparseAccumulator, dtype).apply(
        _scalar(local_step, "local_step"), to_array(gradient_indices), to_array(gradient_values), shape
    )


def _take_sparse_nowait(handle: Any, num_required: Any, *, dtype: DType) -> Any:
    return _checked(handle, SparseAccumulator, dtype).take_nowait(_scalar(num_required, "num_required"))


@kernel("SparseAccumulatorTakeGradient", heavy=False, nowait=_take_sparse_nowait)
async def sparse_accumulator_take_gradient(handle: Any, num_required: Any, *, dtype: DType) -> Any:
    """(indices, values, shape) of the average of at least `num_required` gradients, waiting for them."""
    return await _checked(handle, SparseAccumulator, dtype).take(_scalar(num_required, "num_required"))
