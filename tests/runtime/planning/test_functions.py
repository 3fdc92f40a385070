"""Function calls run as part of the step that makes them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

import flowengine as fe
from flowengine.ir.proto import GraphDef

FACTORIAL = """
versions { producer: 134 }
node { name: "n" op: "Placeholder" attr { key: "dtype" value { type: DT_INT32 } }
       attr { key: "shape" value { shape { } } } }
node { name: "y" op: "Factorial" input: "n" }
node { name: "z" op: "Scaled" input: "n" attr { key: "T" value { type: DT_INT32 } }
       attr { key: "by" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 5 } } } }
node { name: "w" op: "Missing" input: "n" }
node { name: "loop" op: "StatelessWhile" input: "n" input: "n"
       attr { key: "T" value { list { type: DT_INT32 type: DT_INT32 } } }
       attr { key: "cond" value { func { name: "IsPositive" } } }
       attr { key: "body" value { func { name: "Countdown" } } } }
library {
  function {
    signature { name: "Factorial" input_arg { name: "n" type: DT_INT32 }
                output_arg { name: "out" type: DT_INT32 } }
    node_def { name: "one" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
               attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 1 } } } }
    node_def { name: "small" op: "LessEqual" input: "n" input: "one:output:0"
               attr { key: "T" value { type: DT_INT32 } } }
    node_def { name: "if" op: "StatelessIf" input: "small:z:0" input: "n"
               attr { key: "Tcond" value { type: DT_BOOL } }
               attr { key: "Tin" value { list { type: DT_INT32 } } }
               attr { key: "Tout" value { list { type: DT_INT32 } } }
               attr { key: "then_branch" value { func { name: "One" } } }
               attr { key: "else_branch" value { func { name: "Recurse" } } } }
    ret { key: "out" value: "if:output:0" }
  }
  function {
    signature { name: "One" input_arg { name: "n" type: DT_INT32 } output_arg { name: "out" type: DT_INT32 } }
    node_def { name: "one" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
               attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 1 } } } }
    ret { key: "out" value: "one:output:0" }
  }
  function {
    signature { name: "Recurse" input_arg { name: "n" type: DT_INT32 }
                output_arg { name: "out" type: DT_INT32 } }
    node_def { name: "one" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
               attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 1 } } } }
    node_def { name: "less" op: "Sub" input: "n" input: "one:output:0"
               attr { key: "T" value { type: DT_INT32 } } }
    node_def { name: "call" op: "PartitionedCall" input: "less:z:0"
               attr { key: "Tin" value { list { type: DT_INT32 } } }
               attr { key: "Tout" value { list { type: DT_INT32 } } }
               attr { key: "f" value { func { name: "Factorial" } } } }
    node_def { name: "product" op: "Mul" input: "n" input: "call:output:0"
               attr { key: "T" value { type: DT_INT32 } } }
    ret { key: "out" value: "product:z:0" }
  }
  function {
    signature { name: "Scaled" input_arg { name: "x" type_attr: "T" } output_arg { name: "y" type_attr: "T" }
                attr { name: "T" type: "type" } attr { name: "by" type: "tensor" } }
    node_def { name: "by" op: "Const" attr { key: "dtype" value { placeholder: "T" } }
               attr { key: "value" value { placeholder: "by" } } }
    node_def { name: "mul" op: "Mul" input: "x" input: "by:output:0"
               attr { key: "T" value { placeholder: "T" } } }
    ret { key: "y" value: "mul:z:0" }
  }
  function {
    signature { name: "IsPositive" input_arg { name: "n" type: DT_INT32 }
                input_arg { name: "s" type: DT_INT32 } output_arg { name: "out" type: DT_BOOL } }
    node_def { name: "zero" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
               attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 0 } } } }
    node_def { name: "more" op: "Greater" input: "n" input: "zero:output:0"
               attr { key: "T" value { type: DT_INT32 } } }
    ret { key: "out" value: "more:z:0" }
  }
  function {
    signature { name: "Countdown" input_arg { name: "n" type: DT_INT32 }
                input_arg { name: "s" type: DT_INT32 }
                output_arg { name: "m" type: DT_INT32 } output_arg { name: "t" type: DT_INT32 } }
    node_def { name: "one" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
               attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 1 } } } }
    node_def { name: "less" op: "Sub" input: "n" input: "one:output:0"
               attr { key: "T" value { type: DT_INT32 } } }
    node_def { name: "sum" op: "Add" input: "s" input: "n" attr { key: "T" value { type: DT_INT32 } } }
    ret { key: "m" value: "less:z:0" }
    ret { key: "t" value: "sum:z:0" }
  }
  function {
    signature { name: "Missing" input_arg { name: "n" type: DT_INT32 }
                output_arg { name: "out" type: DT_INT32 } }
    node_def { name: "unknown" op: "NoSuchOpAnywhere" input: "n" }
    ret { key: "out" value: "unknown:0" }
  }
}
"""


@pytest.fixture(autouse=True)
def calls_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else plans would hold what these functions are made of: see tests/passes/test_open_calls.py."""
    monkeypatch.setenv("FLOWENGINE_OPEN_CALLS", "0")


@pytest.fixture
def graph() -> fe.Graph:
    return fe.Graph.from_graph_def(text_format.Parse(FACTORIAL, GraphDef()))


async def run(graph: fe.Graph, fetches: Any, n: int) -> Any:
    async with fe.Session(graph) as session:
        return await session.run(fetches, {"n:0": np.int32(n)})


async def test_a_function_may_call_itself(graph: fe.Graph) -> None:
    assert await run(graph, "y:0", 10) == 3628800


async def test_attributes_of_the_call_replace_placeholders(graph: fe.Graph) -> None:
    assert await run(graph, "z:0", 3) == 15


async def test_a_functional_loop_of_many_rounds_does_not_deepen_the_stack(graph: fe.Graph) -> None:
    assert await run(graph, ["loop:0", "loop:1"], 3000) == [0, 3000 + 3000 * 3001 // 2]


async def test_an_unknown_op_in_a_body_is_a_fault_of_the_step_that_reaches_it(graph: fe.Graph) -> None:
    assert await run(graph, "y:0", 1) == 1
    with pytest.raises(fe.errors.NotFoundError, match="NoSuchOpAnywhere") as caught:
        await run(graph, "w:0", 1)
    assert caught.value.missing_op == "NoSuchOpAnywhere"


async def test_a_loop_of_calls_can_be_cancelled(graph: fe.Graph) -> None:
    async with fe.Session(graph) as session:
        with pytest.raises(fe.errors.DeadlineExceededError):
            await session.run(
                "loop:0", {"n:0": np.int32(2**31 - 1)}, options=fe.RunOptions(timeout_seconds=0.05)
            )
        assert await session.run("y:0", {"n:0": np.int32(4)}) == 24


async def test_bodies_that_run_for_certain_are_planned_with_their_callers(graph: fe.Graph) -> None:
    """The others when they are first called: a branch that is never taken may call what nobody has."""
    async with fe.Session(graph) as session:
        session.explain(["y:0", "loop:1"], ["n:0"])
        functions = session._planning.planner.functions()
        assert functions is not None
        assert {key[0] for key in functions._plans} == {"IsPositive", "Countdown", "Factorial"}


@pytest.mark.parametrize("compiled", [True, False])
async def test_the_bodies_of_hot_calls_are_compiled(graph: fe.Graph, compiled: bool) -> None:
    async with fe.Session(graph, config=fe.Config(compile_hot_plans=compiled)) as session:
        for n in (7, 12, 3):
            assert await session.run(["y:0", "loop:1"], {"n:0": np.int32(n)}) == [
                math.factorial(n),
                n + n * (n + 1) // 2,
            ]
        functions = session._planning.planner.functions()
        assert functions is not None
        bodies = dict(functions._plans)
        hot = {key[0] for key, plans in bodies.items() if plans.compiled is not None}
    assert {key[0] for key in bodies} == {"IsPositive", "Countdown", "Factorial", "One", "Recurse"}
    assert hot == ({"Countdown"} if compiled else set()), "one kernel alone is not worth a region"


async def test_a_call_costs_what_its_body_does(graph: fe.Graph) -> None:
    """Measured over two devices: what bodies run counts for the calls, also of calls in bodies."""
    async with fe.Session(graph, config=fe.Config(device_count={"CPU": 2})) as session:
        for _ in range(12):
            assert await session.run(["y:0", "loop:0"], {"n:0": np.int32(300)}) == [0, 0]
        costs = session.costs.nodes
    assert {"y", "loop"} <= set(costs)
    assert costs.keys() <= set(graph.nodes), "a body's own names mean nothing in the graph"
    for name in ("y", "loop"):
        assert costs[name].iterations == 1
        # Hundreds of kernels, of which even the clock's two looks take a tenth of a microsecond.
        assert sum(sum(samples) for samples in costs[name].samples.values()) > 30
