"""The simulated GPU computes what NumPy does in whatever order its streams run, and finds planted faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core.errors import FailedPreconditionError, ResourceExhaustedError
from flowengine.devices.device import DeviceRegistry
from flowengine.devices.load import DEVICES
from flowengine.devices.ordering import StreamEvent
from tests.effort import examples
from tests.tools.simulated_gpu import HostCopy, SimulatedGpu, simulated_gpus

SEEDS = range(20)
NAME = "/job:localhost/replica:0/task:0/device:GPU:0"


def made(seed: int = 0, **options: Any) -> SimulatedGpu:
    return SimulatedGpu(NAME, seed=seed, **options)


def started(gpu: SimulatedGpu, value: Any) -> HostCopy:
    copy = gpu.start_copy_out(value)
    assert copy is not None
    return copy


def work(gpu: SimulatedGpu) -> list[Any]:
    """Copies both ways, work on two streams, an update in place, memory that is used again."""
    x = gpu.copy_in(np.arange(6.0).reshape(2, 3))
    y = gpu.xp.exp(x)
    with gpu.on(5):
        z = y.sum(axis=1)
    x += 1
    y[0] = 7
    del x
    more = gpu.copy_in(np.full((2, 3), 2.0))
    for _ in range(3):
        y = y * more
    plain = y * 1
    y += 0
    copies = [started(gpu, value) for value in (plain, y, z)]
    for copy in copies:
        gpu.wait(copy.event)
    return [copy.value() for copy in copies]


def expected() -> list[Any]:
    y = np.exp(np.arange(6.0).reshape(2, 3))
    z = y.sum(axis=1)
    y[0] = 7
    return [y * 8, y * 8, z]


def left_out(number: int) -> Callable[[str, StreamEvent], bool]:
    """Leaves out one wait, by its place among all."""
    count = iter(range(10**9))
    return lambda kind, event: next(count) == number


@pytest.mark.parametrize("seed", SEEDS)
def test_values_are_right_and_each_wait_that_is_missing_is_found(seed: int) -> None:
    gpu = made(seed)
    for got, wanted in zip(work(gpu), expected(), strict=True):
        np.testing.assert_array_equal(got, wanted)
    gpu.check()
    assert gpu.waits.keys() == {"copy in", "launch", "copy out", "update", "reuse"}
    for number in range(sum(gpu.waits.values())):
        broken = made(seed)
        broken.leaves_out = left_out(number)
        work(broken)
        with pytest.raises(AssertionError, match="missing wait"):
            broken.check()
        broken.check()


ACTIONS = st.tuples(
    st.sampled_from(["in", "add", "view", "write", "out", "drop", "see"]),
    st.integers(0, 5),
    st.integers(0, 5),
    st.sampled_from([0, 3, 4]),
)


def play(gpu: SimulatedGpu, program: list[tuple[str, int, int, int]]) -> None:
    """A drawn program beside NumPy's values."""
    values: list[tuple[Any, Any]] = [(gpu.copy_in(np.arange(4.0)), np.arange(4.0))]
    copies: list[tuple[Any, Any]] = []
    for what, first, second, stream in program:
        x, wanted_x = values[first % len(values)]
        y, wanted_y = values[second % len(values)]
        with gpu.on(stream):
            if what == "in":
                values.append((gpu.copy_in(np.full(4, 1.0 + first)), np.full(4, 1.0 + first)))
            elif what == "add":
                values.append((x + y, wanted_x + wanted_y))
            elif what == "view":
                values.append((x[::-1], wanted_x[::-1]))
            elif what == "write":
                x[1:3] = y[:2]
                wanted_x[1:3] = wanted_y[:2]
            elif what == "out":
                copies.append((started(gpu, x), wanted_x.copy()))
            elif what == "see":
                gpu.synchronize()
            elif len(values) > 1:
                del values[first % len(values)]
        del x, y
    gpu.synchronize()
    if not gpu.findings:
        for copy, wanted in copies:
            np.testing.assert_array_equal(copy.value(), wanted)
        for value, wanted in values:
            np.testing.assert_array_equal(gpu.copy_out(value), wanted)


@settings(max_examples=examples(120), deadline=None)
@given(st.lists(ACTIONS, max_size=25), st.integers(0, 10**6), st.integers(0, 60))
def test_drawn_programs_have_no_findings_until_a_wait_is_left_out(
    program: list[tuple[str, int, int, int]], seed: int, number: int
) -> None:
    gpu = made(seed)
    play(gpu, program)
    gpu.check()
    if number < sum(gpu.waits.values()):
        broken = made(seed)
        broken.leaves_out = left_out(number)
        play(broken, program)
        assert {finding.kind for finding in broken.findings} >= {"missing wait"}


def test_streams_run_late_and_not_always_in_the_same_order() -> None:
    def order(seed: int) -> tuple[int, ...]:
        gpu = made(seed)
        ran: list[int] = []
        for number in range(12):
            with gpu.on(number % 3):
                gpu._streams.launch(number % 3, lambda number=number: ran.append(number))  # type: ignore[misc]
        gpu.check()
        assert all(ran.index(n) < ran.index(n + 3) for n in range(9))
        return tuple(ran)

    orders = [order(seed) for seed in SEEDS]
    assert len(set(orders)) > 10
    assert orders == [order(seed) for seed in SEEDS]


def test_what_the_host_takes_too_early_is_found() -> None:
    gpu = made()
    copy = started(gpu, gpu.xp.exp(gpu.copy_in(np.zeros(3))))
    copy.value()
    with pytest.raises(AssertionError, match="the host reads what 'copy out' brings and does not wait"):
        gpu.check()
    assert copy.value().tolist() == [1, 1, 1]


def test_memory_used_after_it_was_freed_is_found() -> None:
    gpu = made()
    x = gpu.copy_in(np.zeros(3))
    gpu.give_back(x)
    gpu.xp.exp(x)
    with pytest.raises(AssertionError, match="use after free: 'exp' uses memory 1"):
        gpu.check()


def test_a_block_given_out_twice_is_found() -> None:
    gpu = made()
    x = gpu.copy_in(np.zeros(3))
    block = gpu._block_of(x._data)
    assert block is not None
    gpu.pool.give_back(block)
    gpu.pool.give_back(block)
    kept = [gpu.copy_in(np.zeros(3)) for _ in range(2)]
    with pytest.raises(AssertionError, match="given out twice: memory 1 is in use"):
        gpu.check()
    assert len(kept) == 2


@pytest.mark.parametrize("look", [bool, int, float, lambda x: x.get(), lambda x: x.tolist(), str])
def test_a_look_at_a_value_inside_a_step_is_refused_and_found(look: Callable[[Any], Any]) -> None:
    gpu = made()
    x = gpu.copy_in(np.float32(2))
    assert look(x) in (True, 2, "2.0")
    with pytest.raises(FailedPreconditionError, match="looked at inside a step"), gpu.step():
        look(x)
    with pytest.raises(AssertionError, match=r"host read: .*test_simulated_gpu\.py"):
        gpu.check()
    with gpu.step():
        assert gpu.copy_out(x + 1) == 3


def test_memory_comes_back_poisoned_and_its_end_is_an_error() -> None:
    gpu = made(capacity_bytes=4096)
    x = gpu.copy_in(np.ones(64))
    first = gpu._block_of(x._data)
    assert first is not None
    del x
    kept = [gpu.xp.empty(64) for _ in range(2)]
    gpu.synchronize()
    assert first.chunk.data.tolist() == [0xA5] * 512
    again = gpu.copy_in(np.ones(60))
    assert again.nbytes == 480
    block = gpu._block_of(again._data)
    assert block is not None
    assert block.chunk is first.chunk
    with pytest.raises(ResourceExhaustedError, match=r"5,120 bytes are wanted .* of 4,096 bytes"):
        gpu.xp.zeros(640)
    del kept, again
    gpu.xp.zeros(500)  # what came back in other sizes makes room
    gpu.check()


def opened(graph: fe.Graph, seed: int) -> fe.Session:
    devices = DeviceRegistry(parent=DEVICES)
    devices.register("GPU", simulated_gpus(seed), lambda: 1)
    return fe.Session(graph, config=fe.Config(worker_threads=False), devices=devices)


@pytest.mark.parametrize("seed", range(5))
async def test_a_session_runs_on_it(seed: int) -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [4, 3], name="x")
    with g.device("/device:GPU:0"):
        weights = g.constant(np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2))
        hidden = g.ops.Relu(g.ops.MatMul(x, weights))
    with g.device("/cpu:0"):
        on_host = g.ops.AddV2(hidden, g.constant(np.float32(1)))
    with g.device("/device:GPU:0"):
        mean = g.ops.Mean(on_host, g.constant([0], "int32"), name="mean")
    values = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    wanted = np.maximum(values @ np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2), 0) + 1
    async with opened(g, seed) as session:
        gpu: Any = session.devices.matching("/device:GPU:0")[0]
        for _ in range(11):
            got = await session.run([mean, hidden], {x: values})
            np.testing.assert_allclose(got[0], wanted.mean(axis=0), rtol=1e-6)
            np.testing.assert_allclose(got[1] + 1, wanted, rtol=1e-6)
        gpu.check()
        assert gpu.xp.reads == []
