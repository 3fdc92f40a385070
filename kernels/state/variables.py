"""Variables, by reference and by resource handle."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Value, is_numpy
from flowengine.core.dtypes import DType
from flowengine.core.errors import (
    AlreadyExistsError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
)
from flowengine.core.shapes import TensorShape
from flowengine.ir.graph import Node
from flowengine.kernels.common.host_vectors import vector
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel
from flowengine.resources.container import DEFAULT_CONTAINER
from flowengine.resources.device_variable import DeviceVariable
from flowengine.resources.names import resource_name
from flowengine.resources.variable import Variable, without_value

# Variables by reference: `Variable`, `Assign`, counters, and variables of one step.
#
# The output of a variable node, and of what updates it, is the `Variable` itself; the runtime reads it
# where a value is wanted.


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


# Variables by resource handle. The handle that flows along the graph's edges is the `Variable`.
#
# A variable exists, to TensorFlow, from its first assignment on: until then, and after it was destroyed,
# whatever needs it fails with NotFoundError, except that reading it is FailedPreconditionError.


@kernel("VarHandleOp", device=None, heavy=False)
def var_handle_op(
    *, ctx: KernelContext, dtype: DType, shape: TensorShape, container: bytes, shared_name: bytes
) -> Variable:
    """The variable of this container and shared name. Handles with the same (even empty) name share it."""
    where, name = resource_name(container, shared_name, "")
    return ctx.resources.lookup_or_create(
        where, name, Variable, lambda: new_variable(ctx, name, dtype, shape, where)
    )


@kernel("ReadVariableOp", device=None, heavy=False)
def read_variable_op(resource: Variable, *, dtype: DType) -> Value:
    """The variable's value, shared with it until one of both is dropped."""
    try:
        if resource.dtype is dtype:
            return resource.read()
    except (AttributeError, FailedPreconditionError):
        pass
    return as_variable(resource).value_of(dtype)


def as_variable(resource: object) -> Variable:
    """The handle, checked to be one of a variable; InvalidArgumentError otherwise."""
    if isinstance(resource, Variable):
        return resource
    raise InvalidArgumentError(f"the handle of a variable is wanted, not a {type(resource).__name__}")


def existing(resource: object) -> Variable:
    """The variable behind a handle; NotFoundError before its first assignment."""
    variable = as_variable(resource)
    if not variable.is_initialized:
        raise NotFoundError(
            f"{without_value(variable.name)}. Resource {variable.container}/{variable.name}/Variable does "
            "not exist: the variable was not initialized"
        )
    return variable


@kernel("DisableCopyOnRead", device=None, heavy=False)
def disable_copy_on_read(resource: Variable) -> None:
    """Nothing to do: a read is lent, and copied only when a write would change it."""
    as_variable(resource)


@kernel("AssignVariableOp", device=None)
def assign_variable_op(
    resource: Variable, value: Value, *, dtype: DType, validate_shape: bool = False
) -> None:
    """Set the variable to `value`, of the type that it has, and with `validate_shape` the shape."""
    variable = as_variable(resource)
    if variable.dtype is not dtype:
        if variable.is_initialized:
            raise InvalidArgumentError(
                f"Trying to assign variable with wrong dtype. Expected {variable.dtype} got {dtype} "
                f"(variable '{variable.name}')"
            )
        variable.dtype = dtype
    variable.assign(value, validate_shape=validate_shape and variable.is_initialized)


@kernel("AssignAddVariableOp")
def assign_add_variable_op(xp: Any, resource: Variable, value: Value, *, dtype: DType) -> None:
    """Add `value`, of the variable's shape, in place."""
    _update_existing(resource, value, dtype, xp.add)


@kernel("AssignSubVariableOp")
def assign_sub_variable_op(xp: Any, resource: Variable, value: Value, *, dtype: DType) -> None:
    """Subtract `value`, of the variable's shape, in place."""
    _update_existing(resource, value, dtype, xp.subtract)


def _update_existing(resource: Variable, value: Value, dtype: DType, ufunc: Any) -> None:
    variable = existing(resource)
    check_dtype(variable, dtype)
    target = variable.mutable()
    if target.shape != value.shape:
        raise InvalidArgumentError(
            f"Cannot update variable with shape {list(target.shape)} using a Tensor with shape "
            f"{list(value.shape)}, shapes must be equal."
        )
    ufunc(target, value, target)


def check_dtype(variable: Variable, dtype: DType) -> None:
    """InvalidArgumentError where the variable's elements are of another type than the node's."""
    if variable.dtype is not dtype.base:
        raise InvalidArgumentError(
            f"variable '{variable.name}' holds {variable.dtype}, but this node works on {dtype}"
        )


@kernel("VarIsInitializedOp", device=None, heavy=False, host=("is_initialized",))
def var_is_initialized_op(resource: Variable) -> Any:
    """Whether the variable holds a value (bool, rank 0)."""
    return np.bool_(as_variable(resource).is_initialized)


@kernel("VariableShape", device=None, heavy=False, host=("output",))
def variable_shape(resource: Variable, *, out_type: DType) -> Any:
    """The shape of the variable's value: a vector of int32 or int64."""
    return vector(existing(resource).value_shape or (), out_type.as_numpy_dtype)


@kernel("ResourceCountUpTo", device="CPU", heavy=False)
def resource_count_up_to(resource: Variable, *, limit: int) -> Any:
    """The counter (int32/64, rank 0) before it is increased by one; OutOfRangeError at `limit`."""
    return advance_counter(existing(resource), limit)


@kernel("DestroyResourceOp", device=None, heavy=False)
async def destroy_resource_op(resource: Any, *, ctx: KernelContext, ignore_lookup_error: bool) -> None:
    """Drop what the handle names; NotFoundError where it is not there, unless that is to be ignored.

    What has no name lives as long as its handle, so of it nothing is dropped. The tasks of an iterator have
    ended when this returns; cancelled, they end all the same. A variable's object stays, so that a later
    assignment through the same handle makes it anew.
    """
    if isinstance(resource, Variable):
        if not ignore_lookup_error:
            existing(resource)
        resource.destroy()
        return
    name = getattr(resource, "name", "")
    if ctx.step_container.find(name) is resource:
        ctx.step_container.delete(name)
        return
    if await ctx.resources.remove(resource) or ignore_lookup_error:
        return
    if ctx.resources.is_shared(resource):
        kind = type(resource).__name__
        where = getattr(resource, "container", "") or DEFAULT_CONTAINER
        raise NotFoundError(
            f"Resource {where}/{name}/{kind} does not exist: it was never created, or was destroyed before"
        )
