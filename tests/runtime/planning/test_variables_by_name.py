"""Fetching variables by their names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import NotFoundError


@pytest.mark.parametrize("name", ["v", "v:0", "scope/v:0"])
async def test_the_name_of_a_variable_fetches_its_value(name: str) -> None:
    graph = fe.Graph()
    variable = graph.variable(np.array([1, 2], np.float32), name=name.removesuffix(":0"))
    async with fe.Session(graph) as session:
        await session.initialize()
        for fetch in (name, variable.name, variable):
            np.testing.assert_array_equal(await session.run(fetch), [1, 2])
        found: Any = await session.run({"by name": [variable.name], "tensor": variable.value()})
        np.testing.assert_array_equal(found["by name"][0], found["tensor"])
        await session.run([], targets=[variable.assign_add([1, 1])])
        np.testing.assert_array_equal(await session.make_callable(name)(), [2, 3])
        # The handle itself is what the Tensor asks for.
        assert not isinstance(await session.run(variable.handle), np.ndarray)


async def test_the_name_works_in_a_graph_that_was_read() -> None:
    graph = fe.Graph()
    graph.variable(3.0, name="v")
    read = fe.Graph.from_graph_def(graph.to_graph_def())
    async with fe.Session(read) as session:
        await session.run([], targets=["v/Assign"])
        assert await session.run("v:0") == 3.0


async def test_a_handle_that_nothing_reads_stays_a_handle() -> None:
    graph = fe.Graph()
    graph.ops.VarHandleOp(dtype="float32", shape=[], name="v")
    async with fe.Session(graph) as session:
        assert type(await session.run("v:0")).__name__ == "Variable"
        assert await session.run("v") is None


async def test_the_name_of_a_variable_in_parts_says_what_to_fetch() -> None:
    graph = fe.Graph()
    variable = graph.get_variable("v", [4], initializer="ones", partitioner=fe.partitioners.fixed_size(2))
    async with fe.Session(graph) as session:
        await session.initialize()
        for fetch in ("v", "v:0"):
            with pytest.raises(NotFoundError, match=r"kept in 2 parts; fetch the Part.*'v/part_0:0'"):
                await session.run(fetch)
        np.testing.assert_array_equal(await session.run(variable), np.ones(4))
        np.testing.assert_array_equal(await session.run("v/part_0:0"), np.ones(2))
