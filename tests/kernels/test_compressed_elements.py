"""Elements that are compressed are the same when they come back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core.accounting import bytes_of
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.data.inspecting import compress_element

SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@st.composite
def tensors(draw: st.DrawFn) -> Any:
    shape = draw(SHAPES)
    size = int(np.prod(shape))
    kind = draw(st.sampled_from(["int32", "float64", "bool", "string"]))
    if kind == "string":
        out = np.empty(size, object)
        out[:] = draw(st.lists(st.binary(max_size=5), min_size=size, max_size=size))
        return out.reshape(shape)
    return np.array(draw(st.lists(st.integers(0, 1), min_size=size, max_size=size)), kind).reshape(shape)


@given(st.lists(tensors(), min_size=1, max_size=4))
def test_there_and_back(components: list[Any]) -> None:
    async def main() -> None:
        graph = fe.Graph()
        kinds = ["string" if each.dtype.hasobject else each.dtype for each in components]
        parts = [graph.constant(each, kind) for each, kind in zip(components, kinds, strict=True)]
        back = graph.ops.UncompressElement(
            graph.ops.CompressElement(parts),
            output_types=[each.dtype for each in parts],
            output_shapes=[each.shape for each in parts],
        )
        async with fe.Session(graph) as session:
            for found, component in zip(await session.run(list(back)), components, strict=True):
                np.testing.assert_array_equal(np.asarray(found, component.dtype), component)

    trio.run(main)


async def test_what_is_declared_must_be_there() -> None:
    graph = fe.Graph()
    compressed = graph.ops.CompressElement([graph.constant(np.zeros(3, np.float32))])
    one = graph.ops.UncompressElement(compressed, output_types=["float32"], output_shapes=[[3]])
    for types, shapes in ((["int32"], [[3]]), (["float32"], [[4]]), (["float32"] * 2, [[3]] * 2)):
        wrong = graph.ops.UncompressElement(compressed, output_types=types, output_shapes=shapes)
        async with fe.Session(graph) as session:
            assert (await session.run(list(one)))[0].tolist() == [0, 0, 0]
            with pytest.raises(InvalidArgumentError):
                await session.run(list(wrong))
    other = graph.ops.OptionalNone()
    wrong = graph.ops.UncompressElement(other, output_types=["float32"], output_shapes=[[3]])
    with pytest.raises(InvalidArgumentError, match="does not contain a compressed element"):
        async with fe.Session(graph) as session:
            await session.run(list(wrong))
    with pytest.raises(InvalidArgumentError, match="is not compressed"):
        async with fe.Session(graph) as session:
            await session.run(graph.ops.CompressElement([other]))


def test_it_takes_what_is_left_of_it() -> None:
    made = compress_element((np.zeros(100_000, np.float32),), input_types=[fe.dtypes.float32])
    assert bytes_of(made) < 10_000


async def test_what_stands_beside_it_is_asked_for() -> None:
    graph = fe.Graph()
    zeros = graph.ops.Fill(np.array([5_000_000], np.int32), np.int32(0))
    compressed = graph.ops.CompressElement([zeros])
    back = graph.ops.UncompressElement(compressed, output_types=["int32"], output_shapes=[[None]])
    async with fe.Session(graph, config=fe.Config(memory_limit_bytes=70_000_000)) as session:
        with pytest.raises(fe.errors.ResourceExhaustedError) as error:
            await session.run(list(back))
        assert error.value.node_name == "CompressElement"
    async with fe.Session(graph, config=fe.Config(memory_limit_bytes=90_000_000)) as session:
        assert (await session.run(list(back)))[0].shape == (5_000_000,)
