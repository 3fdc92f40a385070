"""Calls that become nodes of the graph: the same values and effects, in the same order."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

import flowengine as fe
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.proto import GraphDef

OPENED, CALLED = fe.Config(open_calls=True), fe.Config(open_calls=False)

#: y = twice(x) by a call within a call; z = add(v, x), which reads and writes; w counts n down and doubles x;
#: r calls itself while n is positive.
CALLS = """
versions { producer: 134 }
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "n" op: "Placeholder" attr { key: "dtype" value { type: DT_INT32 } } }
node { name: "v" op: "VarHandleOp" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "shape" value { shape { } } } attr { key: "shared_name" value { s: "v" } } }
node { name: "init" op: "AssignVariableOp" input: "v" input: "x"
       attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "y" op: "PartitionedCall" input: "x"
       attr { key: "Tin" value { list { type: DT_FLOAT } } }
       attr { key: "Tout" value { list { type: DT_FLOAT } } }
       attr { key: "f" value { func { name: "outer" } } } }
node { name: "z" op: "StatefulPartitionedCall" input: "v" input: "x" input: "^init"
       attr { key: "Tin" value { list { type: DT_RESOURCE type: DT_FLOAT } } }
       attr { key: "Tout" value { list { type: DT_FLOAT } } }
       attr { key: "f" value { func { name: "add" } } } }
node { name: "after" op: "ReadVariableOp" input: "v" input: "^z"
       attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "w" op: "While" input: "n" input: "x" input: "x"
       attr { key: "T" value { list { type: DT_INT32 type: DT_FLOAT type: DT_FLOAT } } }
       attr { key: "cond" value { func { name: "goes" } } }
       attr { key: "body" value { func { name: "round" } } } }
node { name: "p" op: "PartitionedCall" input: "y"
       attr { key: "Tin" value { list { type: DT_FLOAT } } }
       attr { key: "Tout" value { list { type: DT_FLOAT } } }
       attr { key: "f" value { func { name: "checked" } } } }
library {
  function {
    signature { name: "twice" input_arg { name: "a" type: DT_FLOAT } output_arg { name: "b" type: DT_FLOAT } }
    node_def { name: "sum" op: "AddV2" input: "a" input: "a" attr { key: "T" value { type: DT_FLOAT } } }
    ret { key: "b" value: "sum:z:0" }
  }
  function {
    signature { name: "outer" input_arg { name: "a" type: DT_FLOAT } output_arg { name: "b" type: DT_FLOAT } }
    node_def { name: "inner" op: "PartitionedCall" input: "a"
       attr { key: "Tin" value { list { type: DT_FLOAT } } }
       attr { key: "Tout" value { list { type: DT_FLOAT } } }
       attr { key: "f" value { func { name: "twice" } } } }
    ret { key: "b" value: "inner:output:0" }
  }
  function {
    signature { name: "checked" input_arg { name: "a" type: DT_FLOAT }
       output_arg { name: "b" type: DT_FLOAT } }
    node_def { name: "finite" op: "CheckNumerics" input: "a" attr { key: "T" value { type: DT_FLOAT } }
               attr { key: "message" value { s: "not finite" } } }
    ret { key: "b" value: "finite:output:0" }
  }
  function {
    signature { name: "add" input_arg { name: "v" type: DT_RESOURCE } input_arg { name: "a" type: DT_FLOAT }
                output_arg { name: "b" type: DT_FLOAT } }
    node_def { name: "more" op: "AssignAddVariableOp" input: "v" input: "a"
               attr { key: "dtype" value { type: DT_FLOAT } } }
    node_def { name: "read" op: "ReadVariableOp" input: "v" input: "^more"
               attr { key: "dtype" value { type: DT_FLOAT } } }
    node_def { name: "again" op: "AssignAddVariableOp" input: "v" input: "a" input: "^read"
               attr { key: "dtype" value { type: DT_FLOAT } } }
    ret { key: "b" value: "read:value:0" }
  }
  function {
    signature { name: "goes" input_arg { name: "n" type: DT_INT32 } input_arg { name: "s" type: DT_FLOAT }
                input_arg { name: "k" type: DT_FLOAT } output_arg { name: "out" type: DT_BOOL } }
    node_def { name: "zero" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
               attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 0 } } } }
    node_def { name: "more" op: "Greater" input: "n" input: "zero:output:0"
               attr { key: "T" value { type: DT_INT32 } } }
    ret { key: "out" value: "more:z:0" }
  }
  function {
    signature { name: "round" input_arg { name: "n" type: DT_INT32 } input_arg { name: "s" type: DT_FLOAT }
                input_arg { name: "k" type: DT_FLOAT } output_arg { name: "n1" type: DT_INT32 }
                output_arg { name: "s1" type: DT_FLOAT } output_arg { name: "k1" type: DT_FLOAT } }
    node_def { name: "one" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
               attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 1 } } } }
    node_def { name: "less" op: "Sub" input: "n" input: "one:output:0"
               attr { key: "T" value { type: DT_INT32 } } }
    node_def { name: "inner" op: "PartitionedCall" input: "k"
       attr { key: "Tin" value { list { type: DT_FLOAT } } }
       attr { key: "Tout" value { list { type: DT_FLOAT } } }
       attr { key: "f" value { func { name: "twice" } } } }
    node_def { name: "sum" op: "AddV2" input: "s" input: "inner:output:0"
               attr { key: "T" value { type: DT_FLOAT } } }
    ret { key: "n1" value: "less:z:0" } ret { key: "s1" value: "sum:z:0" } ret { key: "k1" value: "k" }
  }
}
"""


@pytest.fixture
def graph() -> fe.Graph:
    return fe.Graph.from_graph_def(text_format.Parse(CALLS, GraphDef()))


async def both(graph: fe.Graph, fetches: Any, feeds: dict[str, Any]) -> list[Any]:
    """The values with calls open and not, of three steps each, so that hot plans are among them."""
    found = []
    for config in (OPENED, CALLED):
        async with fe.Session(graph, config=config) as session:
            found.append([await session.run(fetches, feeds) for _ in range(3)])
    return found


@pytest.mark.parametrize("fetches", ["y:0", ["w:0", "w:1", "w:2"], ["z:0", "after:0"], ["y:0", "w:1", "z:0"]])
@pytest.mark.parametrize("n", [0, 1, 7])
async def test_values_and_effects_are_those_of_the_calls(graph: fe.Graph, fetches: Any, n: int) -> None:
    opened, called = await both(graph, fetches, {"x:0": np.float32(3.0), "n:0": np.int32(n)})
    assert opened == called


def test_only_what_calls_is_changed(graph: fe.Graph) -> None:
    with fe.blocking.Session(graph, config=OPENED) as session:
        told = session.explain(["y:0", "w:1"], ["x:0", "n:0"])
    assert "PartitionedCall" not in told
    assert "y/called/inner/called/sum = AddV2(x:0, x:0)" in told
    assert "While(" not in told
    with fe.blocking.Session(graph, config=CALLED) as session:
        assert "PartitionedCall" in session.explain("y:0", ["x:0"])


async def test_a_call_that_is_fed_stays(graph: fe.Graph) -> None:
    async with fe.Session(graph, config=OPENED) as session:
        assert await session.run("p:0", {"y:0": np.float32(5.0)}) == 5
        with pytest.raises(InvalidArgumentError, match=r"p/called/finite.*not finite"):
            await session.run("p:0", {"x:0": np.float32(np.inf)})


async def test_a_function_within_itself_stays_a_call() -> None:
    text = CALLS.replace('func { name: "twice" }', 'func { name: "outer" }')
    graph = fe.Graph.from_graph_def(text_format.Parse(text, GraphDef()))
    with fe.blocking.Session(graph, config=OPENED) as session:
        told = session.explain("y:0", ["x:0"])
    assert "y/called/inner = PartitionedCall(x:0)" in told


@pytest.mark.parametrize("name", ["keras_dense", "keras_words"])
async def test_models_give_the_same(name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(Path(__file__).parents[1] / "saved_model" / "recorded" / f"{name}.zip") as packed:
        packed.extractall(tmp_path)
    given: Any = [[1.0, 2, 3, 4]] if name == "keras_dense" else [[b"a", b"z"]]
    values = []
    for config in (OPENED, CALLED):
        async with await fe.saved_model.load(tmp_path, config=config) as model:
            values.append((await model(given))["output_0"])
    np.testing.assert_array_equal(*values)
