"""Variables by reference and by handle, as kernels: what each raises, and what each leaves behind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flowengine.core import dtypes
from flowengine.core.errors import (
    AlreadyExistsError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
)
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.graph import Node
from flowengine.kernels.context import KernelContext
from flowengine.kernels.state import variables as resource_variables
from flowengine.kernels.state import variables as state
from flowengine.resources.container import ResourceManager, StepContainer
from flowengine.resources.variable import Variable


@pytest.fixture
def ctx() -> KernelContext:
    return KernelContext(resources=ResourceManager(), step_container=StepContainer())


def _declare(ctx: KernelContext, name: str, **changes: Any) -> Variable:
    attrs: dict[str, Any] = {
        "dtype": dtypes.float32,
        "shape": TensorShape([2]),
        "container": b"",
        "shared_name": b"",
    }
    attrs.update(changes)
    return state.variable(ctx=ctx, node=Node(name, "VariableV2"), **attrs)


def _handle(ctx: KernelContext, shared_name: bytes = b"v", **changes: Any) -> Variable:
    attrs: dict[str, Any] = {"dtype": dtypes.float32, "shape": TensorShape([2]), "container": b""}
    attrs.update(changes)
    return resource_variables.var_handle_op(ctx=ctx, shared_name=shared_name, **attrs)


def _floats(*values: float) -> Any:
    return np.array(values, dtype=np.float32)


def test_names_of_variables(ctx: KernelContext) -> None:
    assert _declare(ctx, "a") is _declare(ctx, "a")
    assert _declare(ctx, "a") is not _declare(ctx, "b")
    assert _declare(ctx, "a") is _declare(ctx, "b", shared_name=b"a")
    assert _declare(ctx, "a") is not _declare(ctx, "a", container=b"other")
    with pytest.raises(InvalidArgumentError, match="has type float32, but this node declares int32"):
        _declare(ctx, "a", dtype=dtypes.int32)


def test_reference_updates(ctx: KernelContext) -> None:
    variable = _declare(ctx, "v")
    assert not state.is_variable_initialized(variable)
    with pytest.raises(FailedPreconditionError, match="uninitialized value v"):
        state.assign_add(np, variable, _floats(1, 2))
    assert state.assign(variable, _floats(1, 2), validate_shape=True) is variable
    assert state.assign_add(np, variable, _floats(1, 1)) is variable
    assert state.assign_sub(np, variable, _floats(0, 3)).read().tolist() == [2, 0]
    assert state.is_variable_initialized(variable)
    with pytest.raises(InvalidArgumentError, match=r"same size.*\[2\].*\[\]"):
        state.assign_add(np, variable, np.float32(1))


def test_adding_a_variable_to_itself(ctx: KernelContext) -> None:
    variable = _declare(ctx, "v")
    variable.assign(_floats(1, 2))
    state.assign_add(np, variable, variable.read())
    assert variable.read().tolist() == [2, 4]


def test_count_up_to(ctx: KernelContext) -> None:
    counter = _declare(ctx, "c", dtype=dtypes.int32, shape=TensorShape([]))
    counter.assign(np.int32(1))
    assert state.count_up_to(counter, limit=3) == 1
    assert state.count_up_to(counter, limit=3) == 2
    with pytest.raises(OutOfRangeError, match="Reached limit of 3"):
        state.count_up_to(counter, limit=3)
    assert counter.read() == 3
    assert type(counter.read()) is np.int32


def test_temporary_variables(ctx: KernelContext) -> None:
    def make(node: str, var_name: bytes = b"t") -> Variable:
        return state.temporary_variable(
            np,
            ctx=ctx,
            node=Node(node, "TemporaryVariable"),
            dtype=dtypes.float32,
            shape=TensorShape([2]),
            var_name=var_name,
        )

    first = make("n")
    again = make("n")
    assert again is not first, "another iteration has another variable"
    with pytest.raises(AlreadyExistsError, match="made by node 'n'"):
        make("other")
    again.assign(_floats(1, 2))
    value = state.destroy_temporary_variable(again, ctx=ctx, var_name=b"t")
    assert value.tolist() == [1, 2]
    assert state.destroy_temporary_variable(first, ctx=ctx, var_name=b"t").tolist() == [0, 0]
    make("other")
    lasting = _declare(ctx, "v")
    lasting.assign(_floats(1, 2))
    with pytest.raises(NotFoundError, match="temporary variable t"):
        state.destroy_temporary_variable(lasting, ctx=ctx, var_name=b"t")
    ctx.step_container.clear()


async def test_handles_before_the_first_assignment(ctx: KernelContext) -> None:
    variable = _handle(ctx)
    assert not resource_variables.var_is_initialized_op(variable)
    with pytest.raises(FailedPreconditionError, match="Error while reading resource variable v"):
        resource_variables.read_variable_op(variable, dtype=dtypes.float32)
    with pytest.raises(NotFoundError, match="localhost/v/Variable does not exist"):
        resource_variables.assign_add_variable_op(np, variable, _floats(1, 2), dtype=dtypes.float32)
    with pytest.raises(NotFoundError):
        resource_variables.variable_shape(variable, out_type=dtypes.int32)
    with pytest.raises(NotFoundError):
        await resource_variables.destroy_resource_op(variable, ctx=ctx, ignore_lookup_error=False)
    await resource_variables.destroy_resource_op(variable, ctx=ctx, ignore_lookup_error=True)


def test_handle_updates(ctx: KernelContext) -> None:
    variable = _handle(ctx)
    assert _handle(ctx) is variable
    resource_variables.assign_variable_op(variable, _floats(1, 2), dtype=dtypes.float32)
    resource_variables.assign_add_variable_op(np, variable, _floats(1, 1), dtype=dtypes.float32)
    resource_variables.assign_sub_variable_op(np, variable, _floats(2, 2), dtype=dtypes.float32)
    assert resource_variables.read_variable_op(variable, dtype=dtypes.float32).tolist() == [0, 1]
    with pytest.raises(InvalidArgumentError, match="shapes must be equal"):
        resource_variables.assign_add_variable_op(np, variable, _floats(1, 2, 3), dtype=dtypes.float32)
    shape = resource_variables.variable_shape(variable, out_type=dtypes.int64)
    assert (shape.tolist(), shape.dtype) == ([2], np.int64)
    resource_variables.assign_variable_op(variable, _floats(1, 2, 3), dtype=dtypes.float32)
    assert variable.value_shape == (3,)


async def test_handles_of_another_type(ctx: KernelContext) -> None:
    variable = _handle(ctx)
    variable.assign(_floats(1, 2))
    with pytest.raises(
        InvalidArgumentError, match=r"read variable with wrong dtype. Expected int32 got float32"
    ):
        resource_variables.read_variable_op(variable, dtype=dtypes.int32)
    with pytest.raises(InvalidArgumentError, match="assign variable with wrong dtype"):
        resource_variables.assign_variable_op(variable, np.zeros(2, np.int32), dtype=dtypes.int32)
    await resource_variables.destroy_resource_op(variable, ctx=ctx, ignore_lookup_error=False)
    resource_variables.assign_variable_op(variable, np.zeros(2, np.int32), dtype=dtypes.int32)
    assert variable.dtype is dtypes.int32
    with pytest.raises(InvalidArgumentError, match="handle of a variable is wanted, not a list"):
        resource_variables.read_variable_op([], dtype=dtypes.int32)  # type: ignore[arg-type]


def test_resource_count_up_to(ctx: KernelContext) -> None:
    counter = Variable("c", dtypes.int64, UNKNOWN_SHAPE)
    counter.assign(np.int64(0))
    assert resource_variables.resource_count_up_to(counter, limit=1) == 0
    with pytest.raises(OutOfRangeError):
        resource_variables.resource_count_up_to(counter, limit=1)
