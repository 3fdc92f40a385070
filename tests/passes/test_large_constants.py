"""Large constants: beyond a step's memory limit they are refused, and compact ones stay compact."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
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


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.complex64, np.bool_, np.float16, np.uint8])
async def test_a_compact_one_is_written_out_by_the_step(dtype: Any) -> None:
    elements = 20_000_000
    g = fe.Graph()
    shape = (elements // 4, 4)
    g.constant(np.array([0, 1, 0, 1], dtype), name="large")
    text = g.to_graph_def()
    tensor = text.node[0].attr["value"].tensor
    tensor.CopyFrom(_compact(tensor, [0, 1, 0, 1], shape))
    graph = fe.Graph.from_graph_def(text.SerializeToString())
    part = graph.ops.StridedSlice(graph.tensor("large:0"), [0, 0], [3, 4], [1, 1], name="part")
    tracemalloc.start()
    try:
        async with fe.Session(graph) as session:
            found = await session.run(part)
            held = tracemalloc.get_traced_memory()[0]
            assert held < 5_000_000, "it is not kept between steps"
            np.testing.assert_array_equal(found, np.array([[0, 1, 0, 1], [1] * 4, [1] * 4]).astype(dtype))
            whole = await session.run("large:0")
            assert (whole.shape, whole.dtype) == (shape, np.dtype(dtype))
            assert whole[1:].all()
    finally:
        tracemalloc.stop()


async def test_a_compact_one_is_under_the_limit_of_the_step() -> None:
    graph = _graph(10_000_000)
    size = graph.ops.Size(graph.tensor("large:0"))
    config = fe.Config(memory_limit_bytes=30_000_000)
    async with fe.Session(graph, config=fe.Config(memory_limit_bytes=50_000_000)) as session:
        assert await session.run(["most:0", size]) == [2, 10_000_000]
    async with fe.Session(graph, config=config) as session:
        with pytest.raises(fe.errors.ResourceExhaustedError, match="memory_limit_bytes"):
            await session.run("most:0")
    async with fe.Session(graph) as session:
        fed = np.array([5.0, 7.0], np.float32)
        assert await session.run("most:0", {"large:0": fed}) == 7, "nothing is written out of what is fed"


def _compact(tensor: Any, values: list[int], shape: tuple[int, ...]) -> Any:
    """The tensor with these elements stored one by one, and more of the last."""
    made = type(tensor)()
    made.dtype = tensor.dtype
    for size in shape:
        made.tensor_shape.dim.add(size=size)
    fields = {1: "float_val", 5: "int_val", 8: "scomplex_val", 10: "bool_val", 19: "half_val", 4: "int_val"}
    stored = [15360 * value for value in values] if tensor.dtype == 19 else values
    if tensor.dtype == 8:
        stored = [part for value in values for part in (value, 0)]
    getattr(made, fields[tensor.dtype]).extend(stored)
    return made
