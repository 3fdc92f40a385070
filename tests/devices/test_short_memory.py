"""When a device's memory is short: wait for what is in flight, give back what is cached, try again, fail."""

from __future__ import annotations

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import ResourceExhaustedError
from flowengine.devices.short_memory import allocated
from tests.devices.on_gpu import GPU, opened
from tests.tools.simulated_gpu import SimulatedGpu

NAME = f"/job:localhost/replica:0/task:0{GPU}"


def test_it_waits_gives_back_and_tries_once_more() -> None:
    done: list[str] = []

    def allocate() -> str:
        done.append("asked")
        if done.count("asked") < 2:
            raise ResourceExhaustedError("none left")
        return "memory"

    found = allocated(allocate, wait=lambda: done.append("waited"), give_back=lambda: done.append("given"))
    assert found == "memory"
    assert done == ["asked", "waited", "given", "asked"]


def test_the_second_error_is_told_and_nothing_is_asked_a_third_time() -> None:
    asked = 0

    def allocate() -> None:
        nonlocal asked
        asked += 1
        raise ResourceExhaustedError(f"try {asked}")

    with pytest.raises(ResourceExhaustedError, match="try 2"):
        allocated(allocate, wait=lambda: None, give_back=lambda: None)


@pytest.mark.parametrize("seed", range(10))
def test_memory_of_other_sizes_is_given_back_for_a_new_size(seed: int) -> None:
    gpu = SimulatedGpu(NAME, seed=seed, capacity_bytes=8192)
    for size in (512, 1024, 256, 1792, 128):
        for _ in range(3):
            x = gpu.copy_in(np.full(size, 2.0, np.float32))
            assert gpu.copy_out(gpu.xp.sum(x)) == 2 * size
            del x
    gpu.check()


def test_giving_back_what_is_in_flight_is_found() -> None:
    gpu = SimulatedGpu(NAME, capacity_bytes=4096)
    x = gpu.copy_in(np.ones(512, np.float32))
    del x
    gpu._trim()  # as a device would that does not wait first
    with pytest.raises(AssertionError, match="given back in use"):
        gpu.check()


@pytest.mark.parametrize("seed", range(6))
async def test_a_step_names_who_holds_most_and_the_next_one_runs(seed: int) -> None:
    g = fe.Graph()
    with g.device(GPU):
        n = g.placeholder("int32", [], name="n")
        w = g.ops.VarHandleOp(shape=[512], dtype="float32", shared_name="weights")
        begin = g.ops.AssignVariableOp(w, np.ones(512, np.float32))
        wide = g.ops.Fill(g.ops.Pack([n, g.constant(512)]), g.constant(np.float32(1)), name="wide")
        y = fe.reduce_sum(g.ops.Exp(wide, name="more"))
    async with opened(g, seed, capacity_bytes=32 * 1024) as (session, gpu):
        await session.run((), targets=[begin])
        for _ in range(3):
            with pytest.raises(fe.errors.ResourceExhaustedError, match="bytes are wanted on a sim") as told:
                await session.run(y, {n: np.int32(9)})
            assert told.value.node_name == "more"
            assert "the largest holders: 'wide' holds 18,432; 'weights' holds 2,048" in told.value.message
            for rows in (1, 2, 3):
                got = await session.run(y, {n: np.int32(rows)})
                np.testing.assert_allclose(got, rows * 512 * np.e, rtol=1e-5)
        assert gpu.pool.bytes_taken <= 32 * 1024
