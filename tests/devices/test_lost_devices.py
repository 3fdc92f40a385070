"""An error that ends a device: steps there are told and never hang, and the next one runs on a successor."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.runtime.planning import tiers
from flowengine.runtime.streams.device_loss import loss_of
from tests.devices.gpu_graphs import GRAPHS, alike, of_the_cpu, values_of
from tests.devices.on_gpu import GPU, opened
from tests.devices.placing import opener
from tests.devices.test_gpu_graphs import MOMENTS
from tests.tools.simulated_gpu import SimulatedGpu

THREE = np.ones(3, np.float32)


def gpu_of(session: fe.Session) -> SimulatedGpu:
    (found,) = session.devices.matching(GPU)
    assert isinstance(found, SimulatedGpu)
    return found


def ends_with(part: str) -> Callable[[str], bool]:
    return lambda name: part in name


@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize("runs", [0, 1_000_000], ids=["hot", "cold"])
async def test_the_step_says_what_was_launched_and_what_is_gone(
    threads: bool, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "HOT_RUNS", runs)
    g = fe.Graph()
    with g.device(GPU):
        x = g.placeholder("float32", [3], name="x")
        v = g.variable(np.full(3, 2, np.float32), name="v")
        w = g.variable(np.full(3, 5, np.float32), name="w")
        y = g.ops.Neg(g.ops.Tanh(x * v, name="second"), name="third")
        z = g.ops.MatMul(g.ops.Reshape(y, g.constant([1, 3])), g.constant(np.ones((3, 1), np.float32)))
    async with opened(g, 5, worker_threads=threads) as (session, gpu):
        await session.initialize()
        wanted = await session.run(z, {x: THREE})
        gpu.ends_at = ends_with("Tanh" if not runs else "tanh")
        with trio.fail_after(30), pytest.raises(fe.errors.UnavailableError) as told:
            await session.run(z, {x: THREE})
        text = str(told.value)
        assert "device:GPU:0 is lost: '" in text
        assert "has ended its context" in text
        assert "the last nodes launched before it was noticed:" in text
        assert "'second' (Tanh), 'third' (Neg)" in text
        assert "runs on a new incarnation" in text
        assert text.index("run their initializers: v, w") > 0
        following = gpu_of(session)
        assert following is not gpu
        assert (following.name, following.incarnation != gpu.incarnation) == (gpu.name, True)
        with pytest.raises(fe.errors.FailedPreconditionError, match="v"):
            await session.run(z, {x: THREE})
        await session.run(w.initializer)
        assert (await session.run(w)).tolist() == [5, 5, 5]
        await session.initialize()
        np.testing.assert_array_equal(await session.run(z, {x: THREE}), wanted)
        following.check()
        # The former one is as it was: it refuses everything, and nothing runs there.
        with pytest.raises(fe.errors.UnavailableError, match="is lost"):
            gpu.copy_in(THREE)


async def test_another_step_ends_at_once_though_it_waits_for_something_else() -> None:
    g = fe.Graph()
    with g.device("/cpu:0"):
        queue = g.ops.FIFOQueueV2(component_types=["float32"], shapes=[[3]])
        (taken,) = g.ops.QueueDequeueV2(queue, component_types=["float32"])
        put = g.ops.QueueEnqueueV2(queue, [THREE])
    with g.device(GPU):
        x = g.placeholder("float32", [3], name="x")
        far = g.ops.Exp(taken + x, name="far")
        bad = g.ops.Tanh(x, name="bad")
    async with opened(g, 5) as (session, gpu):
        gpu.ends_at = ends_with("tanh")
        ended: list[fe.errors.OpError] = []

        async def wait() -> None:
            with pytest.raises(fe.errors.UnavailableError, match="is lost") as told:
                await session.run(far, {x: THREE})
            ended.append(told.value)

        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                await trio.testing.wait_all_tasks_blocked()
                with pytest.raises(fe.errors.UnavailableError, match="'bad' \\(Tanh\\)"):
                    await session.run(bad, {x: THREE})
        assert "'far'" not in str(ended[0]), "it was not launched"
        await session.run(put)
        np.testing.assert_allclose(await session.run(far, {x: THREE}), np.exp(2 * THREE), rtol=1e-6)
        gpu_of(session).check()


async def test_a_callable_goes_on_with_the_successor() -> None:
    g = fe.Graph()
    with g.device(GPU):
        x = g.placeholder("float32", [3], name="x")
        y = g.ops.Tanh(x) + g.constant(np.arange(3, dtype=np.float32))
    async with opened(g, 5) as (session, gpu):
        call = session.make_callable(y, [x])
        wanted = await call(THREE)
        gpu.ends_at = ends_with("tanh")
        with pytest.raises(fe.errors.UnavailableError, match="is lost"):
            await call(THREE)
        for _ in range(6):
            np.testing.assert_array_equal(await call(THREE), wanted)
        gpu_of(session).check()


async def test_what_is_lost_when_nobody_looks_is_noticed_by_the_next_step() -> None:
    g = fe.Graph()
    with g.device(GPU):
        x = g.placeholder("float32", [3], name="x")
        y, z = g.ops.Tanh(x, name="y"), g.ops.Exp(x, name="z")
    async with opened(g, 5) as (session, gpu):
        # Nothing is fetched and nothing awaited: the device comes to its end beside everybody.
        gpu.ends_at = ends_with("tanh")
        gpu.xp.tanh(gpu.copy_in(THREE))
        gpu.check()
        assert gpu.lost
        # Its plan is not made yet, so the successor is there in time.
        np.testing.assert_allclose(await session.run(z, {x: THREE}), np.exp(THREE), rtol=1e-6)
        following = gpu_of(session)
        assert following is not gpu
        following.ends_at = ends_with("tanh")
        following.xp.tanh(following.copy_in(THREE))
        following.check()
        # Its plan is: the step is told.
        with pytest.raises(fe.errors.UnavailableError, match="is lost"):
            await session.run(z, {x: THREE})
        np.testing.assert_allclose(await session.run(z, {x: THREE}), np.exp(THREE), rtol=1e-6)
        np.testing.assert_allclose(await session.run(y, {x: THREE}), np.tanh(THREE), rtol=1e-6)


@pytest.mark.parametrize("name", GRAPHS)
async def test_lost_at_any_moment_of_ten_graphs(name: str) -> None:
    """Each step that does not end as it should ends with that error, and set up anew all is as it was."""
    wanted = await of_the_cpu(name)
    lost = 0
    for seed in range(MOMENTS // 5):
        drawn = random.Random(seed)
        made = GRAPHS[name]()
        gpus: list[SimulatedGpu] = []
        session = opener(gpus, seed, scattered=bool(seed % 2), worker_threads=seed % 4 == 0)(made.graph)
        left = drawn.randrange(1, 40)

        def ends(_: str) -> bool:
            nonlocal left
            left -= 1
            return left == 0

        gpus[0].ends_at = ends
        async with session:
            with trio.fail_after(60):
                with contextlib.suppress(fe.errors.UnavailableError):
                    alike(await values_of(session, made), wanted)
                if gpus[0].lost:
                    lost += 1
                    await session.reset([""])  # what the CPU holds has changed meanwhile
                    alike(await values_of(session, made), wanted)
            gpu_of(session).check()
    assert lost


def test_without_a_successor_it_says_who_is_to_be_started_anew() -> None:
    gpu = SimulatedGpu("/job:worker/task:1/device:GPU:0")
    gpu.lost = "it is lost"
    names = [f"v{i:02}" for i in range(12)]
    text = loss_of(gpu, [], names, is_followed=False).message
    assert text == (
        "it is lost. The process that runs the device has to be started anew: restore these variables, or "
        "run their initializers: v00, v01, v02, v03, v04, v05, v06, v07, v08, v09 and 2 more"
    )
