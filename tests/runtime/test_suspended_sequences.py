"""A sequence of layers gives the thread away when an offloaded run would end; the next one resumes it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.kernels.numpy import sequences
from flowengine.kernels.numpy.sequences import Progress
from flowengine.resources.variable import Variable
from flowengine.runtime import blocks, offload, offloaded_runs
from tests.runtime.test_offloaded_runs import EYE, Gate, Products, chain, force

#: Runs after which the products of a chain are one sequence.
HOT: int = 40


@pytest.fixture(autouse=True)
def _asked_after_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    force(monkeypatch)
    monkeypatch.setattr(blocks, "LOOK_SECONDS", -1.0)
    monkeypatch.setattr(offloaded_runs, "_SHARE_SECONDS", -1.0)
    monkeypatch.setattr(offload, "LOOK_SECONDS", -1.0)
    # However quick these products are.
    monkeypatch.setattr(blocks, "HEAVY_MICROSECONDS", -1.0)
    monkeypatch.setattr(blocks, "ALONE_MICROSECONDS", -1.0)


@pytest.fixture
def suspended(monkeypatch: pytest.MonkeyPatch) -> list[Progress]:
    """Every time that a sequence was suspended."""
    found: list[Progress] = []
    go_on = sequences.Sequence.go_on

    def told(self: sequences.Sequence, progress: Progress, turn: Any) -> Any:
        made = go_on(self, progress, turn)
        if isinstance(made, Progress):
            found.append(made)
        return made

    monkeypatch.setattr(sequences.Sequence, "go_on", told)
    return found


@asynccontextmanager
async def hot(graph: fe.Graph, y: Any, feeds: dict[Any, Any]) -> AsyncIterator[tuple[fe.Session, Products]]:
    """A session in which what makes `y` has become a sequence."""
    products = Products()
    async with fe.Session(graph, kernels=products.kernels) as session:
        for _ in range(HOT):
            await session.run(y, feeds)
        products.ran.clear()
        yield session, products


async def test_steps_take_turns(suspended: list[Progress]) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [8, 8], name="x")
    y = chain(graph, x, x, 5)
    results: dict[str, Any] = {}
    async with hot(graph, y, {x: EYE}) as (session, products), trio.open_nursery() as nursery:

        async def run(name: str, factor: int) -> None:
            results[name] = await session.run(y, {x: factor * EYE})

        gate = products.gates[1] = Gate()
        nursery.start_soon(run, "first", 2)
        await gate.reached.wait()
        nursery.start_soon(run, "second", 3)
        await trio.testing.wait_all_tasks_blocked()
        gate.let.set()
    assert suspended
    assert len(products.ran) == 10
    np.testing.assert_array_equal(results["first"], 64 * EYE)
    np.testing.assert_array_equal(results["second"], 729 * EYE)


async def test_a_cancelled_step_ends_after_the_layer_that_runs(suspended: list[Progress]) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [8, 8], name="x")
    y = chain(graph, x, x, 5)
    async with hot(graph, y, {x: EYE}) as (session, products):
        gate = products.gates[1] = Gate()
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lambda: session.run(y, {x: EYE}))
                await gate.reached.wait()
                scope.cancel()
        gate.let.set()
        products.gates.clear()
        np.testing.assert_array_equal(await session.run(y, {x: 2 * EYE}), 64 * EYE)
        assert len(products.ran) == 2 + 5
    assert len(suspended) == 1


async def test_a_session_that_is_closed_waits_for_no_sequence(suspended: list[Progress]) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [8, 8], name="x")
    y = chain(graph, x, x, 5)
    async with hot(graph, y, {x: EYE}) as (session, products), trio.open_nursery() as nursery:
        gate = products.gates[1] = Gate()

        async def run() -> None:
            with pytest.raises(fe.errors.CancelledError):
                await session.run(y, {x: EYE})

        nursery.start_soon(run)
        await gate.reached.wait()
        nursery.start_soon(session.close)
        await trio.testing.wait_all_tasks_blocked()
        gate.let.set()
    products.gates.clear()
    async with fe.Session(graph, kernels=products.kernels) as another:  # on the same thread
        np.testing.assert_array_equal(await another.run(y, {x: 2 * EYE}), 64 * EYE)
    assert len(products.ran) == 2 + 5
    assert len(suspended) == 1


async def test_who_waits_for_a_variable_waits_for_no_sequence(suspended: list[Progress]) -> None:
    """The step that will write it has it again behind that, and goes on where it was."""
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [8, 8], name="x")
    v = ops.VariableV2(shape=[8, 8], dtype="float32", name="v")
    assign = ops.Assign(v, x, name="assign")
    y = chain(graph, x, x, 5)
    add = ops.AssignAdd(v, y, name="add")
    products = Products()
    seen: list[tuple[int, Any]] = []
    async with fe.Session(graph, kernels=products.kernels) as session, trio.open_nursery() as nursery:
        await session.run([], {x: EYE}, targets=[assign.op])
        for _ in range(HOT):
            await session.run([], {x: EYE}, targets=[add.op])
        await session.run([], {x: EYE}, targets=[assign.op])
        products.ran.clear()
        gate = products.gates[1] = Gate()

        async def read() -> None:
            seen.append((len(products.ran), await session.run(v)))

        nursery.start_soon(lambda: session.run([], {x: 2 * EYE}, targets=[add.op]))
        await gate.reached.wait()
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        assert not seen
        gate.let.set()
    assert suspended
    np.testing.assert_array_equal(seen[0][1], EYE)
    assert len(products.ran) == 5
    assert all(each.writer is None for each in session.resources.held(Variable))
