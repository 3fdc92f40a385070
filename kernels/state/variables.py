"""Variables by reference: `Variable`, `Assign`, counters, and variables of one step.

The output of a variable node, and of what updates it, is the `Variable` itself; the runtime reads it
where a value is wanted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Value, is_numpy
from flowengine.core.dtypes import DType
from flowengine.core.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
)
from flowengine.core.shapes import TensorShape
from flowengine.ir.graph import Node
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel
from flowengine.resources.device_variable import DeviceVariable
from flowengine.resources.names import resource_name
from flowengine.resources.variable import Variable


def new_variable(
    ctx: KernelContext, name: str, dtype: DType, shape: TensorShape, container: str = ""
) -> Variable:
    """A variable without a value, in the memory of the device whose step this is."""
    if ctx.hardware is None:
        return Variable(name, dtype, shape, container=container)
    return DeviceVariable(name, dtype, shape, xp=ctx.hardware.xp, container=container)


@kernel("Variable", "VariableV2", device=None, heavy=False)
def variable(
    *,
    ctx: KernelContext,
    node: Node,
    dtype: DType,
    shape: TensorShape,
    container: bytes,
    shared_name: bytes,
) -> Variable:
    """The variable of this container and name, made uninitialized where there is none."""
    where, name = resource_name(container, shared_name, node.name)
    found = ctx.resources.lookup_or_create(
        where, name, Variable, lambda: new_variable(ctx, name, dtype, shape, where)
    )
    if found.dtype is not dtype.base:
        raise InvalidArgumentError(
            f"variable '{name}' in container {where} has type {found.dtype}, but this node declares {dtype}"
        )
    return found


@kernel("Assign", device=None)
def assign(ref: Variable, value: Value, *, validate_shape: bool) -> Variable:
    """Set the variable to `value`, of the same shape unless `validate_shape` is false."""
    ref.assign(value, validate_shape=validate_shape)
    return ref


@kernel("AssignAdd")
def assign_add(xp: Any, ref: Variable, value: Value) -> Variable:
    """Add `value`, of the variable's shape, in place."""
    _update(ref, value, xp.add)
    return ref


@kernel("AssignSub")
def assign_sub(xp: Any, ref: Variable, value: Value) -> Variable:
    """Subtract `value`, of the variable's shape, in place."""
    _update(ref, value, xp.subtract)
    return ref


def _update(ref: Variable, value: Value, ufunc: Any) -> None:
    target = ref.mutable()
    if target.shape != value.shape:
        raise InvalidArgumentError(
            f"Parameters and update must be the same size: variable '{ref.name}' has shape "
            f"{list(target.shape)}, the update {list(value.shape)}"
        )
    ufunc(target, value, target)


@kernel("IsVariableInitialized", device=None, heavy=False, host=("is_initialized",))
def is_variable_initialized(ref: Variable) -> Any:
    """Whether the variable holds a value (bool, rank 0)."""
    return np.bool_(ref.is_initialized)


@kernel("CountUpTo", device="CPU", heavy=False)
def count_up_to(ref: Variable, *, limit: int) -> Any:
    """The counter (int32/64, rank 0) before it is increased by one; OutOfRangeError at `limit`."""
    return advance_counter(ref, limit)


def advance_counter(counter: Variable, limit: int) -> Any:
    """Increase a counter below `limit` and return what it was."""
    before = counter.read()
    if getattr(before, "ndim", 0):
        raise InvalidArgumentError(f"input is not a scalar: shape {list(before.shape)}")
    if before >= limit:
        raise OutOfRangeError(f"Reached limit of {limit}")
    counter.mutable()[...] = before + 1
    return before


class _TemporaryVariable(Variable):
    """A variable of one step and the node that made it."""

    __slots__ = ("made_by",)

    made_by: str


class _TemporaryDeviceVariable(DeviceVariable):
    """The same in a device's memory."""

    __slots__ = ("made_by",)

    made_by: str


def _temporary_key(var_name: bytes, node_name: str) -> str:
    return f"temporary variable {var_name.decode('utf-8', 'replace') or node_name}"


@kernel("TemporaryVariable", heavy=False)
def temporary_variable(
    xp: Any, *, ctx: KernelContext, node: Node, dtype: DType, shape: TensorShape, var_name: bytes
) -> Variable:
    """A fresh variable of zeros that lives until `DestroyTemporaryVariable` or the end of the step.

    Raises AlreadyExistsError where another node has made one of this name and it is alive; the same
    node may run again, in another iteration of a loop, and gets another variable.
    """
    dims = shape.as_tuple()
    if dims is None:
        raise InvalidArgumentError(f"a temporary variable needs a complete shape, not {shape}")
    key = _temporary_key(var_name, node.name)
    other = ctx.step_container.find(key)
    if other is not None and other.made_by != node.name:
        raise AlreadyExistsError(f"the step has a {key} already, made by node '{other.made_by}'")
    made: _TemporaryVariable | _TemporaryDeviceVariable
    if is_numpy(xp):
        made = _TemporaryVariable(key, dtype, shape)
    else:
        made = _TemporaryDeviceVariable(key, dtype, shape, xp=xp)
    made.made_by = node.name
    made.adopt(_zeros(xp, dims, dtype))
    ctx.step_container.put(key, made)
    return made


def _zeros(xp: Any, dims: tuple[int, ...], dtype: DType) -> Any:
    if dtype.as_numpy_dtype.hasobject:
        return xp.full(dims, b"", dtype=object)
    return xp.zeros(dims, dtype=dtype.as_numpy_dtype)


@kernel("DestroyTemporaryVariable", device=None, heavy=False)
def destroy_temporary_variable(ref: Variable, *, ctx: KernelContext, var_name: bytes) -> Value:
    """The variable's last value; the variable is gone. NotFoundError if no node has made it."""
    value = ref.read()
    key = _temporary_key(var_name, "")
    if not isinstance(ref, _TemporaryVariable | _TemporaryDeviceVariable) or ref.name != key:
        raise NotFoundError(f"the step has no {key}; the reference given is {ref!r}")
    if ctx.step_container.find(key) is ref:
        ctx.step_container.delete(key)
    ref.destroy()
    return value
