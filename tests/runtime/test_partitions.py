"""Steps over several devices: errors, cancellation, limits, and what no device can send any more."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.devices.device import LOCAL_TASK
from flowengine.ir.graph import NodeGraph
from flowengine.passes.context import PassContext
from tests.tools.recorded import find_cases
from tests.tools.replay import RandomPlacement, replay_case
from tests.tools.workers import replay_all


def two(**config: Any) -> fe.Config:
    return fe.Config(device_count={"CPU": 2}, **config)


def on(graph: fe.Graph, index: int) -> Any:
    return graph.device(f"/cpu:{index}")


async def test_ten_consumers_cost_one_transfer_a_step() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [100], name="x")
    with on(g, 0):
        y = g.ops.Exp(x, name="y")
    with on(g, 1):
        outs = [g.ops.Mul(y, g.constant(float(number))) for number in range(10)]
    async with fe.Session(g, config=two()) as session:
        for _ in range(12):
            metadata = fe.RunMetadata()
            await session.run(outs, {x: np.ones(100, np.float32)}, run_metadata=metadata)
            assert metadata.transfers == {f"y:0 -> {LOCAL_TASK}/device:CPU:1": (1, 400)}


async def test_the_first_error_is_the_one_that_is_told() -> None:
    g = fe.Graph()
    x = g.placeholder("int32", [], name="x")
    with on(g, 0):
        bad = g.ops.FloorDiv(g.constant(1), x, name="bad")
    with on(g, 1):
        y = g.ops.Add(bad, g.constant(1), name="y")
        queue = g.ops.FIFOQueueV2(component_types=["int32"], name="queue")
        (never,) = (g.ops.QueueDequeueV2(queue, component_types=["int32"], name="never"),)
    async with fe.Session(g, config=two()) as session:
        with pytest.raises(fe.errors.InvalidArgumentError) as raised, trio.fail_after(120):
            await session.run([y, never], {x: 0})
        assert raised.value.node_name == "bad"
        assert raised.value.device == f"{LOCAL_TASK}/device:CPU:0"
        assert not getattr(raised.value, "__notes__", [])
        assert await session.run(y, {x: 1}) == 2, "the session goes on"


async def test_a_cancelled_step_leaves_nothing_behind() -> None:
    g = fe.Graph()
    with on(g, 0):
        queue = g.ops.FIFOQueueV2(component_types=["int32"], name="queue")
        taken = g.ops.QueueDequeueV2(queue, component_types=["int32"], name="taken")
        element = g.placeholder("int32", [], name="element")
        g.ops.QueueEnqueueV2(queue, [element], name="put")
    with on(g, 1):
        y = g.ops.Neg(taken, name="y")
    async with fe.Session(g, config=two()) as session:
        with trio.move_on_after(0.05) as scope:
            await session.run(y)
        assert scope.cancelled_caught
        with pytest.raises(fe.errors.DeadlineExceededError):
            await session.run(y, options=fe.RunOptions(timeout_seconds=0.05))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.run, "y:0")
            await trio.testing.wait_all_tasks_blocked()
            await session.run([], {element: 3}, targets=["put"])
        await session.run([], {element: 4}, targets=["put"])
        assert await session.run(y) == -4


async def test_closing_ends_the_steps_of_all_devices() -> None:
    g = fe.Graph()
    with on(g, 0):
        queue = g.ops.FIFOQueueV2(component_types=["int32"], name="queue")
        taken = g.ops.QueueDequeueV2(queue, component_types=["int32"], name="taken")
    with on(g, 1):
        y = g.ops.Neg(taken, name="y")
    session = fe.Session(g, config=two())
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            with pytest.raises(fe.errors.CancelledError):
                await session.run(y)

        nursery.start_soon(run)
        await trio.testing.wait_all_tasks_blocked()
        await session.close()


async def test_a_device_s_limit_counts_variables_and_names_them() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [1000], name="x")
    with on(g, 1):
        v = g.ops.VariableV2(dtype="float32", shape=[1000], name="weights")
        init = g.ops.Assign(v, g.ops.Fill(g.constant([1000]), g.constant(1.0)), name="init")
        y = g.ops.Add(g.ops.Mul(x, x, name="square"), x, name="y")
    limits = {"CPU:1": 10_000}
    async with fe.Session(g, config=two(device_memory_limits=limits)) as session:
        value = np.ones(1000, np.float32)
        await session.run(y, {x: value})
        await session.run([], targets=[init.op])
        assert session.devices[f"{LOCAL_TASK}/device:CPU:1"].ledger.live == 4000
        with pytest.raises(fe.errors.ResourceExhaustedError, match="'weights' holds 4,000"):
            await session.run(y, {x: value})
    gc.collect()  # the error's traceback
    assert session.devices[f"{LOCAL_TASK}/device:CPU:1"].ledger.live == 0


async def test_what_will_never_be_sent_is_not_waited_for() -> None:
    """Of two loop variables one is dead from the start: from iteration 1 on it is nowhere, not even dead."""
    g = fe.Graph()
    x = g.placeholder("bool", [], name="x")
    dead = g.ops.Switch(g.constant(5), x)[0]
    frame: dict[str, Any] = {"frame_name": "loop"}
    i = g.ops.Merge([g.ops.Enter(g.constant(0), **frame)] * 2).output
    other = g.ops.Merge([g.ops.Enter(dead, **frame)] * 2).output
    goes_on = g.ops.LoopCond(g.ops.Less(i, g.ops.Enter(g.constant(3), is_constant=True, **frame)))
    again, over = g.ops.Switch(i, goes_on)[1], g.ops.Switch(i, goes_on)[0]
    kept = g.ops.Switch(other, goes_on)[1]
    far = g.ops.Neg(kept, name="far")
    near = g.ops.Neg(far, name="near")
    g.set_back_edge(
        i, 1, g.ops.NextIteration(g.ops.Add(again, g.ops.Enter(g.constant(1), is_constant=True, **frame)))
    )
    g.set_back_edge(other, 1, g.ops.NextIteration(near))
    out = g.ops.Exit(over)

    def place(graph: NodeGraph, context: PassContext) -> Mapping[str, str]:
        return {n.name: f"{LOCAL_TASK}/device:CPU:{int(n.name == 'far')}" for n in graph}

    async with fe.Session(g, config=two(), placer=place) as session:
        with trio.fail_after(120):
            assert await session.run(out, {x: True}, targets=["near"]) == 3
            assert await session.run(out, {x: False}, targets=["near"]) == 3


@pytest.mark.parametrize("devices", [1, 2])
async def test_a_merge_may_be_fed(devices: int) -> None:
    g = fe.Graph()
    x, p = g.placeholder("float32", [], name="x"), g.placeholder("bool", [], name="p")
    off, on_ = g.ops.Switch(x, p)
    merged = g.ops.Merge([off, g.ops.Neg(on_, name="far")]).output
    first = g.ops.Merge([x, merged]).output

    def place(graph: NodeGraph, context: PassContext) -> Mapping[str, str]:
        return {n.name: f"{LOCAL_TASK}/device:CPU:{int(n.name == 'far' and devices > 1)}" for n in graph}

    config = fe.Config(device_count={"CPU": devices})
    async with fe.Session(g, config=config, placer=place) as session:
        for _ in range(10):
            assert await session.run([first, merged], {x: 1.0, p: True}) == [1.0, -1.0]


async def test_explain_shows_each_device_and_what_crosses() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [], name="x")
    with on(g, 0):
        y = g.ops.Exp(x, name="y")
    with on(g, 1):
        z = g.ops.Neg(y, name="z")
    async with fe.Session(g, config=two()) as session:
        text = session.explain(z, [x])
        assert "device:CPU:0" in text
        assert "y:0 from" in text
        assert "digraph" in session.explain(z, [x], dot=True)


# -- recorded cases, scattered over devices --------------------------------------------------------------


def _differences(addresses: list[str], devices: int, seed: int, record: Any) -> dict[str, str]:
    """Cases that pass on one device and not, scattered, on several."""
    scattered = replay_all(addresses, scattered=RandomPlacement(devices, seed), jobs=2, timeout_seconds=30)
    record("conformance_cases", len(scattered))
    failed = [result for result in scattered if result.status != "pass"]
    alone = replay_all([result.address for result in failed], jobs=2, timeout_seconds=30)
    return {result.id: result.why for result, one in zip(failed, alone, strict=True) if one.status == "pass"}


@pytest.mark.slow
@pytest.mark.parametrize(("devices", "seed"), [(2, 5), (4, 6)])
def test_a_sample_of_the_recorded_cases_passes_on_scattered_devices(
    shared: Path, devices: int, seed: int, record_property: Any
) -> None:
    cases = list(find_cases(shared / "conformance" / "open"))
    control = [case for case in cases if "control_flow.tar" in case]
    sample = [*control[devices % 3 :: 5], *cases[seed::150]]
    record_property("conformance_cases", len(sample))
    lost = {}
    for address in sample:
        result = replay_case(address, scattered=RandomPlacement(devices, seed))
        if result.status != "pass" and replay_case(address).status == "pass":
            lost[result.id] = result.why
    assert not lost


@pytest.mark.nightly
@pytest.mark.parametrize(("devices", "seed"), [(2, 1), (4, 2), (4, 3)])
def test_every_recorded_case_passes_on_scattered_devices(
    shared: Path, devices: int, seed: int, record_property: Any
) -> None:
    cases = [*find_cases(shared / "conformance" / "open"), *find_cases(shared / "zoo" / "open")]
    assert not _differences(cases, devices, seed, record_property)
