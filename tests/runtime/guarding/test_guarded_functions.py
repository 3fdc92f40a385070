"""The guard sees every node of a function's body, also of one that is called and was compiled."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import pytest

import flowengine as fe
from flowengine.core import errors
from flowengine.runtime.planning import tiers

#: Calls stay calls, so their bodies have plans of their own.
CALLED: Final = fe.Config(open_calls=False)
GUARDED: Final = fe.RunOptions(guard=True)


@pytest.fixture(autouse=True)
def compiles_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "HOT_RUNS", 0)


async def fault_of(graph: fe.Graph, fetches: Any, good: Any, bad: Any) -> errors.OpError:
    """Return the error of a step with bad feeds, after steps with good ones, which the guard lets pass."""
    async with fe.Session(graph, config=CALLED) as session:
        await session.initialize()
        values = [await session.run(fetches, good) for _ in range(4)]
        guarded = await session.run(fetches, good, options=GUARDED)
        np.testing.assert_array_equal(guarded, values[-1])
        with pytest.raises(errors.InvalidArgumentError, match="guard: ") as caught:
            await session.run(fetches, bad, options=GUARDED)
    return caught.value


async def test_a_loop_names_its_iteration_and_the_inputs_that_are_overwritten() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [], name="x")

    @fe.function(g, ["float32"])
    def body(v: fe.Tensor) -> fe.Tensor:
        ops = v.graph.ops
        _, grown = v.graph.while_loop(
            lambda i, v: ops.Less(i, v.graph.constant(9)),
            lambda i, v: [ops.AddV2(i, v.graph.constant(1)), ops.Mul(v, v, name="grow")],
            [v.graph.constant(0), v],
        )
        return ops.Neg(grown)

    error = await fault_of(g, body(x), {"x:0": 1.0}, {"x:0": 10.0})
    assert error.node_name is not None
    assert error.node_name.endswith("grow")
    assert re.search(r"iteration 5\b", str(error))
    assert "input 0: float32 [] from 1e+32 to 1e+32" in str(error)


@pytest.mark.parametrize(("value", "node"), [(-2.0, "log"), (800.0, "exp")])
async def test_a_conditional_names_the_branch_that_ran(value: float, node: str) -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [], name="x")

    @fe.function(g, ["float32"])
    def body(v: fe.Tensor) -> fe.Tensor:
        ops = v.graph.ops
        y: fe.Tensor = v.graph.cond(
            ops.Greater(v, 5.0), lambda: ops.Exp(v, name="exp"), lambda: ops.Log(v, name="log")
        )
        return ops.Neg(y)

    error = await fault_of(g, body(x), {"x:0": 2.0}, {"x:0": value})
    assert error.node_name is not None
    assert error.node_name.endswith(node)


async def test_a_bad_argument_is_nobodys_fault() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [2], name="x")
    body = fe.function(g, ["float32"])(lambda v: v.graph.ops.Abs(v.graph.ops.Neg(v)))
    y = body(x)
    async with fe.Session(g, config=CALLED) as session:
        for _ in range(4):
            await session.run(y, {"x:0": [1.0, 2.0]})
        value = await session.run(y, {"x:0": [np.nan, 1.0]}, options=GUARDED)
    assert np.isnan(value[0])


async def test_a_node_with_two_outputs_is_seen() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [1, 2], name="x")

    @fe.function(g, ["float32"])
    def body(v: fe.Tensor) -> fe.Tensor:
        loss, _ = v.graph.ops.SoftmaxCrossEntropyWithLogits(v, v.graph.ops.Abs(v), name="loss")
        return v.graph.ops.Neg(loss)

    error = await fault_of(g, body(x), {"x:0": [[1.0, 2.0]]}, {"x:0": [[3e38, -3e38]]})
    assert error.node_name == "loss"


async def test_a_variable_that_a_function_spoils() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [], name="x")
    v = g.variable(np.float32(3e38), name="v")

    @fe.function(g, ["resource", "float32"])
    def body(handle: fe.Tensor, delta: fe.Tensor) -> fe.Tensor:
        update = delta.graph.ops.AssignAddVariableOp(handle, delta, name="update")
        with delta.graph.control_dependencies([update]):
            return delta.graph.ops.Tanh(delta, name="y")

    error = await fault_of(g, body(v.handle, x), {"x:0": 0.0}, {"x:0": 3e38})
    assert error.node_name == "update"
    assert "input 0: float32 [] from 3e+38 to 3e+38" in str(error)


async def test_each_step_has_its_own_guard() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [], name="x")
    body = fe.function(g, ["float32"])(lambda v: v.graph.ops.Neg(v.graph.ops.Exp(v, name="scores")))
    y = body(x)
    async with fe.Session(g, config=CALLED) as session:
        for least in (0.0, -1.0):
            options = fe.RunOptions(guard={"scores": (least, 5.0)})
            await session.run(y, {"x:0": 1.0}, options=options)
        with pytest.raises(errors.InvalidArgumentError, match=r"outside \[3, 5\]"):
            await session.run(y, {"x:0": 1.0}, options=fe.RunOptions(guard={"scores": (3.0, 5.0)}))
        assert await session.run(y, {"x:0": 9.0}, options=GUARDED) < -8000
