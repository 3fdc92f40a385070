"""Eleven graphs over a CPU and a simulated GPU: values of the CPU, no findings, cancelled or failing too."""

from __future__ import annotations

import contextlib
import random
from typing import Any, Final

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.runtime.planning import tiers
from flowengine.runtime.streams import device_transfers
from flowengine.runtime.streams.completion import wait_reached
from tests.devices.gpu_graphs import GRAPHS, GpuGraph, alike, of_the_cpu, values_of
from tests.devices.placing import opener
from tests.effort import IS_NIGHTLY
from tests.tools.simulated_gpu import SimulatedGpu

SEEDS: Final = 200 if IS_NIGHTLY else 8
MOMENTS: Final = 500 if IS_NIGHTLY else 40


def opened(made: GpuGraph, seed: int, **config: Any) -> tuple[fe.Session, SimulatedGpu]:
    """All on the GPU with even seeds, thrown on either device with odd ones."""
    gpus: list[SimulatedGpu] = []
    settings = {"worker_threads": False, **config}
    session = opener(gpus, seed, scattered=bool(seed % 2), **settings)(made.graph)
    return session, gpus[0]


@pytest.mark.parametrize("name", GRAPHS)
async def test_has_the_values_of_the_cpu_and_no_findings(name: str) -> None:
    wanted = await of_the_cpu(name)
    for seed in range(SEEDS):
        made = GRAPHS[name]()
        session, gpu = opened(made, seed, worker_threads=seed % 4 == 0)
        async with session:
            with trio.fail_after(60):
                alike(await values_of(session, made), wanted)
        assert gpu.stops == 0, seed
        gpu.check()
        assert gpu.xp.reads == []


@pytest.mark.parametrize("name", GRAPHS)
async def test_compiled_plans_have_the_values_of_the_cpu_and_no_findings(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = await of_the_cpu(name)
    monkeypatch.setattr(tiers, "HOT_RUNS", 0)
    for seed in range(SEEDS):
        made = GRAPHS[name]()
        session, gpu = opened(made, seed, worker_threads=seed % 4 == 0)
        async with session:
            with trio.fail_after(60):
                alike(await values_of(session, made), wanted)
        assert gpu.stops == 0, seed
        gpu.check()
        assert gpu.xp.reads == []


async def test_a_loop_with_a_counter_is_a_loop_of_generated_code() -> None:
    made = GRAPHS["counted_loop"]()
    session, gpu = opened(made, 2)
    async with session:
        for _ in range(3):
            await values_of(session, made)
        text = session.explain(list(made.fetches), feeds=list(made.feeds[0]), source=True)
    assert text.startswith("# /job:localhost/replica:0/task:0/device:GPU:0\n")
    assert "while True:" in text
    assert "_FusedElementwise 'while/add_1'" in text, "the product, tanh and the sum are one launch"
    gpu.check()


async def cancelled_after(turns: int, session: fe.Session, made: GpuGraph) -> bool:
    """Run a step and cancel it so many turns of the event loop later; whether it was cancelled."""
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def cancel() -> None:
                for _ in range(turns):
                    await trio.lowlevel.checkpoint()
                scope.cancel()

            nursery.start_soon(cancel)
            await session.run(list(made.fetches), dict(made.feeds[-1]))
            nursery.cancel_scope.cancel()
    return scope.cancelled_caught


async def test_cancelled_at_any_moment_leaves_nothing_in_use() -> None:
    """Memory in flight in a cancelled step is not reused before its work is done, and the next step runs."""
    cancelled = 0
    for moment in range(MOMENTS):
        drawn = random.Random(moment)
        name = drawn.choice(
            ["counted_loop", "loop_until_small", "nested_loops", "branches", "branch_in_loop"]
        )
        made = GRAPHS[name]()
        wanted = await of_the_cpu(name)
        session, gpu = opened(made, moment)
        async with session:
            with trio.fail_after(60):
                cancelled += await cancelled_after(drawn.randrange(40), session, made)
                alike(await values_of(session, made), wanted)
        gpu.check()
    assert cancelled > MOMENTS / 3


async def test_a_node_that_fails_at_any_moment_ends_the_step_and_the_next_one_runs() -> None:
    g = fe.Graph()
    x, bad = g.placeholder("float32", [6], name="x"), g.placeholder("int32", [], name="bad")

    def body(i: Any, v: Any) -> list[Any]:
        index = g.ops.Select(g.ops.Equal(i, bad), g.constant(99), g.ops.FloorMod(i, g.constant(6)))
        return [i + 1, v * 1.01 + g.ops.GatherV2(v, index, g.constant(0), name="picked")]

    _, y = g.while_loop(lambda i, v: i < 20, body, [g.constant(0), x])
    for moment in range(MOMENTS):
        made = GpuGraph(g, [y], [])
        session, gpu = opened(made, moment)
        feeds = {x: np.linspace(0, 1, 6, dtype=np.float32), bad: np.int32(moment % 20)}
        async with session:
            with trio.fail_after(60):
                with pytest.raises(fe.errors.InvalidArgumentError, match="is not in") as told:
                    await session.run(y, feeds)
                assert told.value.node_name == "while/picked"
                assert np.isfinite(await session.run(y, {**feeds, bad: np.int32(-1)})).all()
        gpu.check()


@pytest.mark.parametrize("debugs", [False, True])
async def test_work_that_fails_late_names_nodes(debugs: bool) -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [6], name="x")
    y = g.ops.Neg(g.ops.Tanh(g.ops.Exp(x, name="first"), name="second"), name="third")
    session, gpu = opened(GpuGraph(g, [y], []), 2, debug_devices=debugs)
    async with session:
        gpu.fails_at = lambda name: name == "tanh"
        with pytest.raises(fe.errors.InternalError, match="'tanh' failed on /job:localhost") as told:
            await session.run(y, {x: np.ones(6, np.float32)})
        if debugs:
            assert (told.value.node_name, told.value.op_type) == ("second", "Tanh")
        else:
            assert "'first' (Exp), 'second' (Tanh), 'third' (Neg)" in str(told.value)
            assert "debug_devices=True" in str(told.value)
        gpu.fails_at = lambda name: False
        np.testing.assert_allclose(await session.run(y, {x: np.zeros(6, np.float32)}), -np.tanh(1), rtol=1e-6)
    gpu.check()


async def test_each_wait_of_the_runtime_is_found_when_it_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every read by the host without the wait that it needs is found, wherever in a step that is."""
    waited, left_out = 0, -1

    async def wait(*args: Any, **keywords: Any) -> None:
        nonlocal waited
        waited += 1
        if waited - 1 != left_out:
            await wait_reached(*args, **keywords)

    monkeypatch.setattr(device_transfers, "wait_reached", wait)

    async def play(name: str) -> SimulatedGpu:
        nonlocal waited
        waited = 0
        made = GRAPHS[name]()
        session, gpu = opened(made, 6)
        async with session:
            await values_of(session, made)
        return gpu

    for name in ("counted_loop", "loop_until_small", "branches"):
        (await play(name)).check()
        count = waited
        for left_out in range(count):
            with contextlib.suppress(fe.errors.OpError):
                gpu = await play(name)
                assert [f.kind for f in gpu.findings if "the host reads" in f.what], (name, left_out)
        left_out = -1
