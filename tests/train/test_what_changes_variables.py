"""Step boundaries: which ops they have to wait for, and what is called there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trio
import trio.testing

from flowengine.graphs.graph import Graph
from flowengine.train.boundary import at_boundary, changes_variables


def changed_by(op: str) -> bool:
    """Whether a step of a graph with this op, and what it needs, may change a variable."""
    g = Graph()
    ops = g.ops
    handle = ops.VarHandleOp(dtype="int64", shape=[3])
    table = ops.MutableHashTableV2(key_dtype="int64", value_dtype="int64")
    queue = ops.FIFOQueueV2(component_types=["float32"])
    made: dict[str, Callable[[], object]] = {
        "AssignAddVariableOp": lambda: ops.AssignAddVariableOp(handle, g.constant([1, 2, 3], "int64")),
        "RngSkip": lambda: ops.RngSkip(handle, g.constant(1, "int64"), g.constant(1, "int64")),
        "StatefulUniform": lambda: ops.StatefulUniform(handle, g.constant(1, "int64"), [2]),
        "DestroyResourceOp": lambda: ops.DestroyResourceOp(handle),
        "ReadVariableOp": lambda: ops.ReadVariableOp(handle, dtype="int64"),
        "ResourceGather": lambda: ops.ResourceGather(handle, [0], dtype="int64"),
        "VariableShape": lambda: ops.VariableShape(handle),
        "ScatterNd": lambda: ops.ScatterNd([[0]], [1.0], [3]),
        "LookupTableInsertV2": lambda: ops.LookupTableInsertV2(
            table, g.constant([1], "int64"), g.constant([1], "int64")
        ),
        "QueueEnqueueV2": lambda: ops.QueueEnqueueV2(queue, [g.constant(1.0)]),
        "Identity": lambda: ops.Identity(handle),
    }
    made[op]()
    assert any(node.op == op for node in g)
    return changes_variables(g)


@pytest.mark.parametrize("op", ["AssignAddVariableOp", "RngSkip", "StatefulUniform", "DestroyResourceOp"])
def test_writes(op: str) -> None:
    assert changed_by(op)


@pytest.mark.parametrize(
    "op",
    [
        *("ReadVariableOp", "ResourceGather", "VariableShape", "ScatterNd", "LookupTableInsertV2"),
        *("QueueEnqueueV2", "Identity"),
    ],
)
def test_leaves_variables_alone(op: str) -> None:
    assert not changed_by(op)


def test_a_variable_of_strings_is_a_variable() -> None:
    g = Graph()
    g.ops.Assign(g.ops.VariableV2(shape=[], dtype="string"), g.constant(b"a"))
    assert changes_variables(g)


class Steps:
    """A session of which a test says when its steps end, and whether another is under way then."""

    def __init__(self) -> None:
        self.are_under_way = True
        self.ended: list[Callable[[], None]] = []

    def at_step_boundary(self, counts: Callable[[Any], bool]) -> bool:
        return not self.are_under_way

    @contextmanager
    def when_steps_end(self, call: Callable[[], None]) -> Iterator[None]:
        self.ended.append(call)
        try:
            yield
        finally:
            self.ended.remove(call)

    def end(self, *, another: bool) -> None:
        self.are_under_way = another
        for call in self.ended:
            call()


@pytest.mark.parametrize("fails", [False, True])
async def test_a_function_is_called_at_one_boundary_once(fails: bool) -> None:
    """At the first, also where others follow before whoever waits has its turn."""
    session: Any = Steps()
    taken: list[int] = []
    found: list[Any] = []

    def take() -> int:
        taken.append(len(taken))
        if fails:
            raise ValueError("first" if len(taken) == 1 else "second")
        return len(taken)

    async def wait() -> None:
        try:
            found.append(await at_boundary(session, take))
        except ValueError as error:
            found.append(str(error))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        session.end(another=True)
        assert taken == []
        session.end(another=False)
        assert taken == [0], "not where it happened: the next step may begin before the task has its turn"
        session.end(another=False)
        session.end(another=True)
    assert (taken, found) == ([0], ["first" if fails else 1])
    assert session.ended == []


async def test_whoever_is_cancelled_before_a_boundary_calls_nothing() -> None:
    session: Any = Steps()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(at_boundary, session, pytest.fail)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    session.end(another=False)
    with trio.CancelScope() as scope:
        scope.cancel()
        await at_boundary(session, pytest.fail)
    assert scope.cancelled_caught
