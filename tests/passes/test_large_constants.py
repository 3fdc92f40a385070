"""Constants beyond a step's memory limit are refused by their shapes: nothing of them is ever written out."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

import flowengine as fe


def _graph(elements: int, dtype: int = 1) -> fe.Graph:
    """A constant of so many elements of which two are stored, and its maximum."""
    g = fe.Graph()
    g.ops.Max(g.constant([1.0, 2.0], name="large"), 0, name="most")
    graph_def = g.to_graph_def()
    node = next(node for node in graph_def.node if node.name == "large")
    tensor = node.attr["value"].tensor
    tensor.ClearField("tensor_content")
    del tensor.float_val[:]
    tensor.float_val.extend([1.0, 2.0])
    tensor.tensor_shape.dim[0].size = elements
    return fe.Graph.from_graph_def(graph_def.SerializeToString())


@pytest.mark.parametrize("fetch", ["most:0", "large:0"])
async def test_it_is_refused_before_it_is_written_out(fetch: str) -> None:
    graph = _graph(2**29 - 1)
    config = fe.Config(memory_limit_bytes=200_000_000)
    tracemalloc.start()
    try:
        async with fe.Session(graph, config=config) as session:
            with pytest.raises(fe.errors.ResourceExhaustedError) as caught:
                await session.run(fetch)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    assert "Const 'large'" in str(caught.value)
    assert "takes 2,147,483,644 bytes, memory_limit_bytes is 200,000,000" in str(caught.value)


async def test_one_that_fits_or_is_not_asked_for_is_no_harm() -> None:
    small: Any = _graph(1000)
    small.constant(3.0, name="other")
    async with fe.Session(small, config=fe.Config(memory_limit_bytes=1_000_000)) as session:
        assert await session.run("most:0") == 2
    large = _graph(2**29 - 1)
    large.constant(3.0, name="other")
    async with fe.Session(large, config=fe.Config(memory_limit_bytes=1_000_000)) as session:
        assert await session.run("other:0") == 3
