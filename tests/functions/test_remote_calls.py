"""A RemoteCall runs its function where its target says, on another task too."""

from __future__ import annotations

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import InvalidArgumentError
from flowengine.transport.wire.identity import new_key
from tests.functions.test_random_calls import three_tasks


def calling(target: bytes) -> fe.Graph:
    """y = 2 * x by a function that refuses what is not finite; the target is `t` if it is empty."""
    graph = fe.Graph()

    @fe.function(graph, [("float32", [])])
    def doubled(x: fe.Tensor) -> fe.Tensor:
        return x.graph.ops.CheckNumerics(x, message="refused", name="check") * 2.0

    x, fed = graph.placeholder("float32", [], name="x"), graph.placeholder("string", [], name="t")
    with graph.device("/job:worker/task:0"):
        where = graph.constant(target) if target else fed
        y = graph.ops.RemoteCall(where, [x], Tout=["float32"], f=doubled.attr, name="call")[0]
        graph.ops.Identity(y, name="y")
    return graph


@pytest.mark.parametrize("opened", [True, False])
async def test_a_target_is_one_name(opened: bool) -> None:
    graph = fe.Graph()

    @fe.function(graph, [("float32", [])])
    def doubled(x: fe.Tensor) -> fe.Tensor:
        return x * 2.0

    targets = graph.constant([b"/cpu:0", b"/cpu:0"])
    x = graph.constant(np.float32(1))
    graph.ops.RemoteCall(targets, [x], Tout=["float32"], f=doubled.attr, name="call")
    async with fe.Session(graph, config=fe.Config(open_calls=opened)) as session:
        with pytest.raises(InvalidArgumentError, match=r"call.*a scalar, and not of shape \(2,\)"):
            await session.run("call:0")


async def test_the_function_runs_on_the_task_that_the_target_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWENGINE_CLUSTER_KEY", new_key().hex())
    graph = calling(b"/job:worker/task:2/device:CPU:0")
    async with three_tasks() as target, fe.Session(graph, target=target) as session:
        for x in (3.0, 4.0, 5.0):
            assert await session.run("y:0", {"x:0": np.float32(x)}) == 2 * x
        with pytest.raises(InvalidArgumentError, match=r"call/called/check.*/task:2/device:CPU:0.*refused"):
            await session.run("y:0", {"x:0": np.float32(np.nan)})


async def test_another_task_must_be_told_by_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWENGINE_CLUSTER_KEY", new_key().hex())
    async with three_tasks() as target, fe.Session(calling(b""), target=target) as session:
        here = {"x:0": np.float32(3), "t:0": b"/job:worker/task:0/device:CPU:0"}
        assert await session.run("y:0", here) == 6
        with pytest.raises(InvalidArgumentError, match=r"is to run on /job:worker/task:2.*a constant"):
            await session.run("y:0", {**here, "t:0": b"/job:worker/task:2"})
