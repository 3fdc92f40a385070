"""Containers: sharing by container, kind and name; ownership by one trio run; the step's own container."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import trio

from flowengine.core import dtypes
from flowengine.core.errors import (
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
)
from flowengine.core.shapes import TensorShape
from flowengine.resources.container import ResourceManager, StepContainer
from flowengine.resources.names import resource_name
from flowengine.resources.stack import Stack
from flowengine.resources.variable import Variable


def _variable(name: str = "v") -> Variable:
    return Variable(name, dtypes.float32, TensorShape([2]))


def test_same_container_kind_and_name_is_one_resource() -> None:
    manager = ResourceManager()
    first = manager.lookup_or_create("c", "v", Variable, _variable)
    assert manager.lookup_or_create("c", "v", Variable, _variable) is first
    assert manager.lookup_or_create("d", "v", Variable, _variable) is not first
    assert manager.lookup_or_create("c", "w", Variable, _variable) is not first
    assert manager.statistics().resources == {"c": 2, "d": 1}


def test_kinds_share_names() -> None:
    manager = ResourceManager()
    manager.lookup_or_create("", "x", Variable, _variable)
    stack = manager.lookup_or_create("", "x", Stack, lambda: Stack(dtypes.float32))
    assert isinstance(stack, Stack)
    with pytest.raises(NotFoundError, match=r"localhost/x/dict.*this name: a Stack, Variable"):
        manager.lookup("", "x", dict)


def test_lookup_of_nothing_names_it() -> None:
    manager = ResourceManager()
    with pytest.raises(NotFoundError, match="Container c does not exist"):
        manager.lookup("c", "v", Variable)
    manager.lookup_or_create("c", "w", Variable, _variable)
    with pytest.raises(NotFoundError, match="Resource c/v/Variable does not exist"):
        manager.lookup("c", "v", Variable)


def test_a_factory_that_makes_something_else_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="'v' is a Variable, not a Stack"):
        ResourceManager().lookup_or_create("", "v", Stack, _variable)  # type: ignore[arg-type]


def test_clear_destroys_one_container_only() -> None:
    manager = ResourceManager()
    kept = manager.lookup_or_create("kept", "v", Variable, _variable)
    gone = manager.lookup_or_create("gone", "v", Variable, _variable)
    for variable in (kept, gone):
        variable.assign([1.0, 2.0])
    manager.clear("gone")
    assert kept.is_initialized
    assert not gone.is_initialized
    assert manager.find("gone", "v", Variable) is None
    manager.clear("never there")


def test_reset_without_names_clears_all_and_the_manager_is_used_on() -> None:
    manager = ResourceManager()
    variables = [manager.lookup_or_create(name, "v", Variable, _variable) for name in ("a", "b", "c")]
    for variable in variables:
        variable.assign([1.0, 2.0])
    manager.reset(["a", "never there"])
    assert [variable.is_initialized for variable in variables] == [False, True, True]
    manager.reset([])
    assert not any(variable.is_initialized for variable in variables)
    assert manager.statistics().resources == {}
    assert manager.lookup_or_create("b", "v", Variable, _variable) is not variables[1]


async def test_delete_and_remove() -> None:
    manager = ResourceManager()
    variable = manager.lookup_or_create("", "v", Variable, _variable)
    manager.delete("", "v", Variable)
    with pytest.raises(NotFoundError):
        manager.delete("", "v", Variable)
    assert not await manager.remove(variable)
    manager.put("", "v", Variable, variable)
    assert await manager.remove(variable)


async def test_belongs_to_the_run_that_first_used_it() -> None:
    manager = ResourceManager()
    manager.bind_to_current_run()
    manager.bind_to_current_run()
    errors: list[BaseException] = []

    def elsewhere() -> None:
        async def main() -> None:
            manager.bind_to_current_run()

        for attempt in (manager.bind_to_current_run, lambda: trio.run(main)):
            try:
                attempt()
            except FailedPreconditionError as error:
                errors.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    await trio.to_thread.run_sync(thread.join)
    assert len(errors) == 2
    assert all("fe.blocking.Session" in str(error) for error in errors)


async def test_closed_manager_cannot_be_bound() -> None:
    manager = ResourceManager()
    manager.close()
    with pytest.raises(FailedPreconditionError, match="closed"):
        manager.bind_to_current_run()


def test_a_closed_manager_makes_nothing() -> None:
    """A step that the close overtook would wait for what nobody ends any more."""
    manager = ResourceManager()
    manager.lookup_or_create("", "v", Variable, lambda: Variable("v", dtypes.float32, TensorShape([])))
    manager.close()
    with pytest.raises(CancelledError, match="closed"):
        manager.lookup_or_create("", "v", Variable, lambda: Variable("v", dtypes.float32, TensorShape([])))
    assert not manager.held(Variable)


def test_step_container_gives_every_execution_its_own() -> None:
    step = StepContainer()
    first = step.create("s", Stack(dtypes.float32))
    second = step.create("s", Stack(dtypes.float32))
    assert first.name != second.name
    assert step.lookup(first.name) is first
    assert len(step) == 2
    first.push(1.0)
    step.clear()
    step.clear()
    assert len(first) == 0
    with pytest.raises(NotFoundError):
        step.lookup(first.name)


@pytest.mark.parametrize(("container", "name"), [(b"a b", b""), (b"_c", b""), (b"", b"_hidden")])
def test_illegal_names(container: bytes, name: bytes) -> None:
    with pytest.raises(InvalidArgumentError):
        resource_name(container, name, "node")


def test_no_container_is_the_default_one_whoever_asks() -> None:
    manager = ResourceManager()
    variable = manager.put("", "v", Variable, _variable())
    assert manager.find("", "v", Variable) is variable
    assert manager.find("localhost", "v", Variable) is variable
    assert manager.lookup_or_create("localhost", "v", Variable, _variable) is variable
    assert manager.statistics().resources == {"localhost": 1}


def test_a_value_is_read_as_what_it_is() -> None:
    variable = _variable()
    with pytest.raises(FailedPreconditionError):
        variable.value_of(dtypes.float32)
    variable.assign(np.zeros(2, np.float32))
    assert variable.value_of(dtypes.float32).tolist() == [0, 0]
    with pytest.raises(InvalidArgumentError, match="Expected int32 got float32"):
        variable.value_of(dtypes.int32)
