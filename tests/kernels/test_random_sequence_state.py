"""Random nodes are put back to where they stood in their sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trio
from google.protobuf import text_format

import flowengine as fe
from flowengine.ir.proto import GraphDef

_IN_A_FUNCTION = """
versions { producer: 134 }
node { name: "y" op: "Draw" }
library { function {
  signature { name: "Draw" output_arg { name: "out" type: DT_FLOAT } is_stateful: true }
  node_def { name: "shape" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
             attr { key: "value" value {
               tensor { dtype: DT_INT32 tensor_shape { dim { size: 1 } } int_val: 3 } } } }
  node_def { name: "drawn" op: "RandomUniform" input: "shape:output:0"
             attr { key: "dtype" value { type: DT_FLOAT } }
             attr { key: "T" value { type: DT_INT32 } } attr { key: "seed" value { i: 4 } }
             attr { key: "seed2" value { i: 0 } } }
  ret { key: "out" value: "drawn:output:0" }
} }
"""


def graph(kind: str) -> fe.Graph:
    if kind == "function":
        return fe.Graph.from_graph_def(text_format.Parse(_IN_A_FUNCTION, GraphDef()))
    g = fe.Graph()
    shape = g.constant(np.array([3], np.int32))
    if kind == "seeded":
        g.ops.RandomStandardNormal(shape, dtype="float32", seed=1, seed2=2, name="y")
    elif kind == "unseeded":
        g.ops.RandomUniform(shape, dtype="float64", name="y")
    elif kind == "shuffle":
        g.ops.RandomShuffle(g.constant(np.arange(20)), seed=5, name="y")
    else:
        value = g.constant(np.arange(100, dtype=np.float32).reshape(1, 10, 10, 1))
        g.ops.FractionalMaxPool(
            value, pooling_ratio=[1.0, 1.5, 1.5, 1.0], deterministic=True, name="y", seed=3
        )
    return g


@pytest.mark.parametrize("kind", ["seeded", "unseeded", "shuffle", "pool", "function"])
async def test_what_comes_next_comes_again(kind: str) -> None:
    async def draw(session: fe.Session) -> list[Any]:
        return [np.asarray(await session.run("y:0")).tolist() for _ in range(3)]

    async with fe.Session(graph(kind)) as session:
        await draw(session)
        places = await session.random_places()
        assert len(places) == 1
        expected = await draw(session)
        assert (expected[0] == expected[1]) == (kind == "pool")
        await session.set_random_places(places)
        assert await draw(session) == expected
    async with fe.Session(graph(kind)) as another:
        await another.set_random_places(places)
        assert await draw(another) == expected
        if kind != "unseeded":
            await another.set_random_places({})
            first = await draw(another)
            async with fe.Session(graph(kind)) as fresh:
                assert await draw(fresh) == first


def test_others_are_left_alone() -> None:
    async def main() -> None:
        resources = fe.ResourceManager()
        g, other = graph("seeded"), graph("shuffle")
        one = fe.Session(g, resources=resources)
        two = fe.Session(other, resources=resources)
        await one.run("y:0")
        await two.run("y:0")
        # Both nodes are called y.
        before = await one.random_places()
        assert list(before) == ["y/1/2"]
        assert list(await two.random_places()) == ["y/5/0"]
        await two.set_random_places({})
        assert await two.random_places() == {}
        assert await one.random_places() == before

    trio.run(main)
