"""A function's body that is one region is called directly: with the results, errors and manners of a body."""

from __future__ import annotations

from collections.abc import Generator
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing
from google.protobuf import text_format

import flowengine as fe
from flowengine.core import dtypes
from flowengine.core.shapes import TensorShape
from flowengine.ir.proto import GraphDef
from flowengine.resources.variable import Variable
from flowengine.runtime import resumable_blocks, turn_queue
from flowengine.runtime.planning import tiers, timings
from flowengine.runtime.resumable_blocks import DONE, PARKED, TURN, LoopBody, OneRegion, Outcome

#: `while n > 0: n, s, x, v = n - 1, tanh(s + x) + v, x, v` with a division that fails when n reaches `bad`.
LOOP = """
versions { producer: 134 }
node { name: "n" op: "Placeholder" attr { key: "dtype" value { type: DT_INT32 } } }
node { name: "bad" op: "Placeholder" attr { key: "dtype" value { type: DT_INT32 } } }
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "v" op: "VarHandleOp" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "shape" value { shape { } } } attr { key: "shared_name" value { s: "v" } } }
node { name: "one" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 0.5 } } } }
node { name: "init" op: "AssignVariableOp" input: "v" input: "one"
       attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "value" op: "ReadVariableOp" input: "v" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "loop" op: "While" input: "n" input: "x" input: "x" input: "v" input: "bad"
       attr { key: "T" value { list { type: DT_INT32 type: DT_FLOAT type: DT_FLOAT type: DT_RESOURCE
                                      type: DT_INT32 } } }
       attr { key: "cond" value { func { name: "Goes" } } }
       attr { key: "body" value { func { name: "Round" } } } }
library {
  function {
    signature { name: "Goes"
      input_arg { name: "n" type: DT_INT32 } input_arg { name: "s" type: DT_FLOAT }
      input_arg { name: "x" type: DT_FLOAT } input_arg { name: "v" type: DT_RESOURCE }
      input_arg { name: "bad" type: DT_INT32 } output_arg { name: "out" type: DT_BOOL } }
    node_def { name: "zero" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
               attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 0 } } } }
    node_def { name: "double" op: "Add" input: "n" input: "n" attr { key: "T" value { type: DT_INT32 } } }
    node_def { name: "more" op: "Greater" input: "double:z:0" input: "zero:output:0"
               attr { key: "T" value { type: DT_INT32 } } }
    ret { key: "out" value: "more:z:0" }
  }
  function {
    signature { name: "Round"
      input_arg { name: "n" type: DT_INT32 } input_arg { name: "s" type: DT_FLOAT }
      input_arg { name: "x" type: DT_FLOAT } input_arg { name: "v" type: DT_RESOURCE }
      input_arg { name: "bad" type: DT_INT32 }
      output_arg { name: "n1" type: DT_INT32 } output_arg { name: "s1" type: DT_FLOAT }
      output_arg { name: "x1" type: DT_FLOAT } output_arg { name: "v1" type: DT_RESOURCE }
      output_arg { name: "bad1" type: DT_INT32 } }
    node_def { name: "one" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
               attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 1 } } } }
    node_def { name: "less" op: "Sub" input: "n" input: "one:output:0"
               attr { key: "T" value { type: DT_INT32 } } }
    node_def { name: "off" op: "Sub" input: "n" input: "bad" attr { key: "T" value { type: DT_INT32 } } }
    node_def { name: "part" op: "FloorDiv" input: "one:output:0" input: "off:z:0"
               attr { key: "T" value { type: DT_INT32 } } }
    node_def { name: "sum" op: "Add" input: "s" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
    node_def { name: "tanh" op: "Tanh" input: "sum:z:0" input: "^part"
               attr { key: "T" value { type: DT_FLOAT } } }
    node_def { name: "read" op: "ReadVariableOp" input: "v" attr { key: "dtype" value { type: DT_FLOAT } } }
    node_def { name: "next" op: "Add" input: "tanh:y:0" input: "read:value:0"
               attr { key: "T" value { type: DT_FLOAT } } }
    ret { key: "n1" value: "less:z:0" } ret { key: "s1" value: "next:z:0" }
    ret { key: "x1" value: "x" } ret { key: "v1" value: "v" } ret { key: "bad1" value: "bad" }
  }
}
"""


@pytest.fixture(autouse=True)
def calls_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the loop would be one of primitives: see tests/passes/test_open_calls.py."""
    monkeypatch.setenv("FLOWENGINE_OPEN_CALLS", "0")


@pytest.fixture
def graph() -> fe.Graph:
    return fe.Graph.from_graph_def(text_format.Parse(LOOP, GraphDef()))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[OneRegion]:
    """The bodies that were called directly; every plan is compiled before its first run."""
    made: list[OneRegion] = []
    call = OneRegion.call

    def counted(self: OneRegion, *args: Any) -> Any:
        results = call(self, *args)
        if results is not None:
            made.append(self)
        return results

    monkeypatch.setattr(OneRegion, "call", counted)
    monkeypatch.setattr(tiers, "HOT_RUNS", 0)
    return made


def feeds(n: int, bad: int = -1) -> dict[str, Any]:
    return {"n:0": np.int32(n), "bad:0": np.int32(bad), "x:0": np.array([0.25, -3.0], np.float32)}


async def outcome(graph: fe.Graph, compiled: bool, n: int, bad: int = -1) -> Any:
    """The loop's variables, or the error."""
    async with fe.Session(graph, config=fe.Config(compile_hot_plans=compiled)) as session:
        await session.run("init")
        try:
            return await session.run(["loop:0", "loop:1", "loop:2", "loop:4"], feeds(n, bad))
        except fe.errors.OpError as error:
            return error


@pytest.mark.parametrize("n", [0, 1, 40])
async def test_the_results_are_those_of_an_interpreted_body(
    graph: fe.Graph, calls: list[OneRegion], n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_queue, "SLICE_SECONDS", 1000.0)
    want = await outcome(graph, False, n)
    assert not calls
    got = await outcome(graph, True, n)
    assert len(calls) == 2 * n + 1
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        assert np.array_equal(a, b)


async def test_an_error_names_the_node_in_the_body(graph: fe.Graph, calls: list[OneRegion]) -> None:
    want, got = await outcome(graph, False, 5, 3), await outcome(graph, True, 5, 3)
    assert calls
    assert type(got) is type(want) is fe.errors.InvalidArgumentError
    assert str(got) == str(want)
    assert (got.node_name, got.op_type) == (want.node_name, want.op_type)


async def test_a_long_loop_gives_the_host_its_turn_and_can_be_cancelled(
    graph: fe.Graph, calls: list[OneRegion]
) -> None:
    async with fe.Session(graph) as session:
        await session.run("init")
        turns = 0
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.run, "loop:0", feeds(2**29))
                while len(calls) <= 2000:
                    await trio.lowlevel.checkpoint()
                    turns += 1
                scope.cancel()
        assert scope.cancelled_caught
        assert turns > 2
        assert await session.run("loop:0", feeds(3)) == 0


async def test_a_body_waits_while_a_thread_writes_its_variable(
    graph: fe.Graph, calls: list[OneRegion]
) -> None:
    async with fe.Session(graph) as session:
        await session.run("init")
        await session.run("loop:0", feeds(1))
        before = len(calls)
        variable = session.resources.lookup("localhost", "v", Variable)
        assert variable.acquire(object())
        results = []
        async with trio.open_nursery() as nursery:

            async def step() -> None:
                results.append(await session.run("loop:0", feeds(2)))

            nursery.start_soon(step)
            await trio.testing.wait_all_tasks_blocked()
            assert not results
            assert len(calls) <= before + 1, "only the condition does not look at the variable"
            variable.release()
        assert results == [0]
        assert len(calls) > before


async def test_a_body_that_is_slow_time_after_time_is_made_smaller(
    graph: fe.Graph, calls: list[OneRegion], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a region of any plan is: the host has its turn between blocks, not within one."""
    monkeypatch.setattr(timings, "SLOW_REGION_SECONDS", -1.0)
    async with fe.Session(graph) as session:
        await session.run("init")
        assert await session.run("loop:0", feeds(40)) == 0
        assert 0 < len(calls) < 80


@pytest.mark.parametrize("is_slow", [False, True])
def test_a_loop_that_was_slow_for_once_is_forgiven(monkeypatch: pytest.MonkeyPatch, is_slow: bool) -> None:
    """Only one in which no iteration takes long takes back what an interrupted one has counted."""
    clock = count(0.0, 0.01 if is_slow else 1e-5)
    monkeypatch.setattr(resumable_blocks, "perf_counter", lambda: next(clock))

    def code(inputs: list[Any], context: Any) -> Generator[int, int | None, Any]:
        yield 0
        yield 0
        return tuple(inputs)

    times = timings.PlanTimes({})
    times.slow_iterations = 2
    item: Any = SimpleNamespace(mutates=False, region=SimpleNamespace(call=code))
    turn: Any = SimpleNamespace(ends=float("inf"))
    outcome = LoopBody(item, None, times, object()).begin([7], turn)
    assert (outcome.kind, outcome.value) == (DONE, (7,))
    assert (times.slow_iterations > 2) if is_slow else (times.slow_iterations == 1)


def test_a_loop_that_pauses_stops_at_a_variable_that_another_step_writes() -> None:
    """Of all that it may read or write, however far it has come; what its own step writes is no matter."""

    def code(inputs: list[Any], context: Any) -> Generator[int, int | None, Any]:
        while inputs[0].writer is None or inputs[0].writer is step:
            yield 0
        raise AssertionError("it goes on though somebody writes its variable")

    step = object()
    variables = [Variable(name, dtypes.int32, TensorShape([])) for name in "ab"]
    item: Any = SimpleNamespace(mutates=True, region=SimpleNamespace(call=code))
    turn: Any = SimpleNamespace(ends=-1.0, is_over=lambda: True)
    body = LoopBody(item, None, timings.PlanTimes({}), step)
    assert body.begin([variables[0], 7, variables[1]], turn) == Outcome(TURN)
    for variable in variables:
        assert variable.acquire(object())
        assert body.resume(turn) == Outcome(PARKED, variable)
        variable.release()
        assert variable.acquire(step)
        assert body.resume(turn) == Outcome(TURN)
        variable.release()
    body.close()
    with pytest.raises(AssertionError, match="it has begun and is not closed"):
        body.resume(turn)
