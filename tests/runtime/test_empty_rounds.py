"""Loops whose functions compute nothing give way as others do: the host goes on, and may end them."""

from __future__ import annotations

import numpy as np
import pytest
import trio
from google.protobuf import text_format

import flowengine as fe
from flowengine.ir.proto import GraphDef

CALLED = fe.Config(open_calls=False)

#: Neither function has a node: what comes in goes out.
LOOPS = """
versions { producer: 134 }
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "n" op: "Placeholder" attr { key: "dtype" value { type: DT_INT32 } } }
node { name: "zero" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
       attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 0 } } } }
node { name: "one" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
       attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 1 } } } }
node { name: "endless" op: "While" input: "x"
       attr { key: "T" value { list { type: DT_FLOAT } } }
       attr { key: "cond" value { func { name: "same" } } }
       attr { key: "body" value { func { name: "same" } } } }
node { name: "long" op: "For" input: "zero" input: "n" input: "one" input: "x" input: "y"
       attr { key: "T" value { list { type: DT_FLOAT type: DT_FLOAT } } }
       attr { key: "body" value { func { name: "swapped" } } } }
node { name: "y" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
library {
  function {
    signature { name: "same" input_arg { name: "a" type: DT_FLOAT } output_arg { name: "b" type: DT_FLOAT } }
    ret { key: "b" value: "a" }
  }
  function {
    signature { name: "swapped" input_arg { name: "i" type: DT_INT32 }
       input_arg { name: "a" type: DT_FLOAT } input_arg { name: "b" type: DT_FLOAT }
       output_arg { name: "c" type: DT_FLOAT } output_arg { name: "d" type: DT_FLOAT } }
    ret { key: "c" value: "b" } ret { key: "d" value: "a" }
  }
}
"""
FEEDS = {"x:0": np.float32(1), "y:0": np.float32(2), "n:0": np.int32(2**31 - 1)}


@pytest.fixture
def graph() -> fe.Graph:
    return fe.Graph.from_graph_def(text_format.Parse(LOOPS, GraphDef()).SerializeToString())


@pytest.mark.parametrize("fetch", ["endless:0", "long:0"])
async def test_a_loop_of_empty_rounds_is_cancelled(graph: fe.Graph, fetch: str) -> None:
    async with fe.Session(graph, config=CALLED) as session:
        for _ in range(2):  # planned anew, and by a plan that is there
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(session.run, fetch, FEEDS)
                    for _ in range(5):
                        await trio.lowlevel.checkpoint()
                    scope.cancel()
            assert scope.cancelled_caught
        assert await session.run("x:0", FEEDS) == 1


async def test_many_empty_rounds_come_to_their_end(graph: fe.Graph) -> None:
    async with fe.Session(graph, config=CALLED) as session:
        for count in (0, 1, 30_000, 30_001):
            got = await session.run(["long:0", "long:1"], FEEDS | {"n:0": np.int32(count)})
            assert got == ([1, 2] if count % 2 == 0 else [2, 1])
