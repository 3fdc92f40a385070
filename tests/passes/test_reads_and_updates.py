"""Semantics of a resource variable, whichever steps are joined into one.

A read sees every write that it waits for, and keeps its value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe

SHAPES = ((2,), (), (3, 1), (4,), (1,))
RATE = 0.5
#: In one phase of a step: which variables are read, and which then go down by their gradients.
PHASES = st.lists(
    st.tuples(st.sets(st.integers(0, len(SHAPES) - 1)), st.sets(st.integers(0, len(SHAPES) - 1))),
    min_size=1,
    max_size=3,
)


def built(phases: Any) -> tuple[fe.Graph, list[list[Any]]]:
    """A graph whose phases follow one another by control edges: its reads, phase by phase."""
    graph = fe.Graph()
    variables = [graph.variable(np.full(shape, 8.0, np.float32)) for shape in SHAPES]
    gradients = [graph.placeholder("float32", shape, name=f"g{n}") for n, shape in enumerate(SHAPES)]
    rate = graph.constant(RATE)
    reads: list[list[Any]] = []
    behind: list[Any] = []
    for seen, changed in phases:
        with graph.control_dependencies(behind):
            reads.append([(n, variables[n].read()) for n in sorted(seen)])
        with graph.control_dependencies([*behind, *(read.op for _, read in reads[-1])]):
            behind = [
                graph.ops.ResourceApplyGradientDescent(variables[n].handle, rate, gradients[n])
                for n in sorted(changed)
            ] or behind
    graph.group(*behind, name="train")
    return graph, reads


async def played(phases: Any, steps: list[list[int]], hot: bool) -> list[list[Any]]:
    """Return the reads of each step, held until the last step is over."""
    graph, reads = built(phases)
    fetches = [read for phase in reads for _, read in phase]
    found = []
    async with fe.Session(graph, config=fe.Config(compile_hot_plans=hot)) as session:
        await session.initialize()
        for numbers in steps:
            feeds = {f"g{n}:0": np.full(shape, numbers[n], "f") for n, shape in enumerate(SHAPES)}
            found.append(await session.run(fetches, feeds, targets=["train"]))
    return found


def eager(phases: Any, steps: list[list[int]]) -> list[list[Any]]:
    values = [np.full(shape, 8.0, np.float32) for shape in SHAPES]
    found = []
    for numbers in steps:
        seen = []
        for read, changed in phases:
            seen += [values[n].copy() for n in sorted(read)]
            for n in changed:
                values[n] = values[n] - np.float32(RATE * numbers[n])
        found.append(seen)
    return found


@pytest.mark.parametrize("hot", [False, True])
@settings(max_examples=25, deadline=None)
@given(
    PHASES,
    st.lists(
        st.lists(st.integers(-9, 9), min_size=len(SHAPES), max_size=len(SHAPES)), min_size=1, max_size=8
    ),
)
async def test_reads_see_what_they_wait_for_and_keep_it(
    hot: bool, phases: Any, steps: list[list[int]]
) -> None:
    got = await played(phases, steps, hot)
    for mine, right in zip(got, eager(phases, steps), strict=True):
        for one, wanted in zip(mine, right, strict=True):
            np.testing.assert_array_equal(one, wanted)


async def test_the_steps_of_a_phase_are_one() -> None:
    """The programs above do meet what they are there for."""
    every = set(range(len(SHAPES)))
    graph, _ = built([(every, every), (every, every)])
    async with fe.Session(graph) as session:
        await session.initialize()
        feeds = {f"g{n}:0": np.ones(shape, "f") for n, shape in enumerate(SHAPES)}
        for _ in range(6):
            await session.run([], feeds, targets=["train"])
        source = session.explain([], list(feeds), targets=["train"], source=True)
    assert source.count("_GatheredResourceUpdates") == 1


async def errors_of_reads(hot: bool) -> list[str]:
    """Return the errors of reading a variable that is gone, and one that is back with another dtype."""
    graph = fe.Graph()
    variable = graph.variable(np.ones(3, np.float32), name="v")
    read = fe.identity(variable.read() * 2.0, name="y")
    doubles = graph.ops.VarHandleOp(dtype="float64", shape=[3], shared_name="v", name="other")
    graph.group(graph.ops.DestroyResourceOp(variable.handle), name="gone")
    graph.group(graph.ops.AssignVariableOp(doubles, np.ones(3)), name="back")
    said = []
    async with fe.Session(graph, config=fe.Config(compile_hot_plans=hot)) as session:
        await session.initialize()
        for _ in range(8):
            await session.run(read)
        for change in ("gone", "back"):
            await session.run([], targets=[change])
            with pytest.raises(fe.errors.OpError) as caught:
                await session.run(read)
            said.append(f"{type(caught.value).__name__} {caught.value.node_name}: {caught.value.message}")
    return said


async def test_a_compiled_read_refuses_what_an_interpreted_one_refuses() -> None:
    cold = await errors_of_reads(hot=False)
    assert cold == await errors_of_reads(hot=True)
    assert [each.partition(" ")[0] for each in cold] == ["FailedPreconditionError", "InvalidArgumentError"]
