"""The card's context around kernels: entered once for a row of them, left before anything else runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.core.errors import InternalError, UnavailableError
from flowengine.devices.cuda_device import CudaDevice
from flowengine.runtime import external_work
from flowengine.runtime.frames import IterationState
from flowengine.runtime.offload import Offload
from flowengine.runtime.planning import tiers
from flowengine.runtime.planning.items import Item, Kind
from tests.devices.cuda_by_host import give_arrays, opened, without_libraries
from tests.devices.fake_cupy import CudaError, FakeCupy

NAME = "/job:localhost/replica:0/task:0/device:GPU:0"
#: cudaErrorIllegalAddress, which ends a context, and one that does not.
ENDS, REFUSED = 700, 1
#: The stream of whoever is in none of a device.
OUTSIDE = 99


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    give_arrays(monkeypatch)
    without_libraries(monkeypatch)


class CountingCupy(FakeCupy):
    """Counts how often somebody has entered an allocator, and how many are in one."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.gpu._stream = OUTSIDE
        self.entered = self.within = 0
        using = self.cuda.using_allocator
        counting = self

        class Using:
            def __init__(self, allocate: Any) -> None:
                self._inner = using(allocate)

            def __enter__(self) -> None:
                counting.entered += 1
                counting.within += 1
                self._inner.__enter__()

            def __exit__(self, *error: Any) -> None:
                counting.within -= 1
                self._inner.__exit__(*error)

        self.cuda.using_allocator = Using


class Leaving(trio.abc.Instrument):
    """Looks whether anything is entered where another task may run."""

    def __init__(self, cupy: CountingCupy) -> None:
        self._cupy = cupy
        self.found: list[int] = []

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.found.append(self._cupy.within + (self._cupy.gpu._stream != OUTSIDE))


def chain(length: int) -> tuple[fe.Graph, Any, Any]:
    g = fe.Graph()
    x = y = g.placeholder("float32", [4], name="x")
    for _ in range(length):
        y = g.ops.Tanh(y)
    return g, x, y


@pytest.mark.parametrize("runs", [0, 1_000_000])
async def test_a_row_of_kernels_enters_the_card_once(runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "HOT_RUNS", runs)
    g, x, last = chain(100)
    fake = CountingCupy(1)
    async with opened(g, fake) as session:
        leaving = Leaving(fake)
        trio.lowlevel.add_instrument(leaving)
        await session.run(last, {x: np.ones(4, np.float32)})
        fake.entered = 0
        found = await session.run(last, {x: np.ones(4, np.float32)})
        trio.lowlevel.remove_instrument(leaving)
    assert leaving.found
    assert not any(leaving.found)
    fake.gpu.check()
    assert found.shape == (4,)
    # For the feed, for what is fetched, and for each slice of the step: on a slow machine there are several.
    assert fake.entered <= 30


@pytest.mark.parametrize("runs", [0, 1_000_000])
async def test_a_kernel_that_fails_leaves_the_card(runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "HOT_RUNS", runs)
    g = fe.Graph()
    x = g.placeholder("float32", name="x")
    last = g.ops.Tanh(g.ops.MatMul(g.ops.Tanh(x), x, name="product"))
    fake = CountingCupy(1)
    async with opened(g, fake) as session:
        square, other = np.ones((2, 2), np.float32), np.ones((2, 3), np.float32)
        for _ in range(2):
            await session.run(last, {x: square})
        for _ in range(2):
            with pytest.raises(fe.errors.InvalidArgumentError) as error:
                await session.run(last, {x: other})
            assert error.value.node_name == "product"
            assert (fake.within, fake.gpu._stream) == (0, OUTSIDE)
        assert (await session.run(last, {x: square})).shape == (2, 2)
    fake.gpu.check()


async def test_a_region_on_a_worker_thread_enters_the_card_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "HOT_RUNS", 0)
    # Whatever a region takes, it is worth a thread.
    monkeypatch.setattr(external_work, "is_worth_thread", lambda item, args: item.kind == Kind.REGION)
    started: list[str] = []
    start = Offload.start

    def noted(self: Offload, item: Item, iteration: IterationState, args: list[Any]) -> None:
        started.append(item.node.name)
        start(self, item, iteration, args)

    monkeypatch.setattr(Offload, "start", noted)
    g, x, last = chain(100)
    with g.device("/cpu:0"):
        other = g.ops.Neg(x)
    fake = CountingCupy(1)
    found: list[Any] = []
    async with opened(g, fake, worker_threads=True) as session:
        for _ in range(3):
            started.clear()
            fake.entered = 0
            found = await session.run([last, other], {x: np.ones(4, np.float32)})
    assert len(started) == 1
    assert (fake.within, fake.gpu._stream) == (0, OUTSIDE)
    # For the feed, what is fetched, and what is around the region: not for each of its kernels.
    assert fake.entered <= 10
    fake.gpu.check()
    assert [value.shape for value in found] == [(4,), (4,)]


@pytest.mark.parametrize("runs", [0, 1_000_000], ids=["hot", "cold"])
async def test_sums_in_arrays_of_a_loop_are_work_of_the_card(
    runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gradient that comes to one place several times is added there, by generated code without a kernel."""
    monkeypatch.setattr(tiers, "HOT_RUNS", runs)
    g = fe.Graph()
    x = g.placeholder("float32", [3, 2], name="x")
    given = g.tensor_array("float32", 3, element_shape=[2], clear_after_read=False).unstack(x)
    _, y = g.while_loop(
        lambda i, v: i < 5,
        lambda i, v: [i + 1, v * given.read(g.constant(1)) + given.read(g.ops.FloorMod(i, g.constant(3)))],
        [g.constant(0), g.constant(np.ones(2, np.float32))],
    )
    fetches = [y, *fe.gradients(fe.reduce_sum(y), [x])]
    feeds = {x: np.linspace(0.5, 1.5, 6, dtype=np.float32).reshape(3, 2)}
    async with fe.Session(g) as session:
        wanted = await session.run(fetches, feeds)
    fake = CountingCupy(1)
    async with opened(g, fake) as session:
        for _ in range(3):
            found = await session.run(fetches, feeds)
            for far, near in zip(found, wanted, strict=True):
                np.testing.assert_allclose(far, near, rtol=1e-5)
    fake.gpu.check()
    assert (fake.within, fake.gpu._stream) == (0, OUTSIDE)


def test_rows_within_rows_and_kernels_of_other_devices() -> None:
    fake = CountingCupy()
    one, other = (CudaDevice(NAME[:-1] + number, fake) for number in "01")
    with one.entered():
        stream = fake.gpu._stream
        with one.entered(), one.computing():
            assert fake.gpu._stream == stream != OUTSIDE
        with other.computing():
            assert fake.gpu._stream not in (stream, OUTSIDE)
        with one.computing():
            assert fake.gpu._stream == stream
        with one.computing():
            pass
    assert (fake.entered, fake.within, fake.gpu._stream) == (2, 0, OUTSIDE)
    assert [len(device.unfinished()) for device in (one, other)] == [1, 1]


def test_errors_of_the_card_are_told_by_the_kernels_of_a_row() -> None:
    fake = CountingCupy()
    device = CudaDevice(NAME, fake)

    def fail(status: int) -> None:
        with device.computing():
            raise CudaError(status)

    with device.entered():
        with pytest.raises(InternalError, match="cudaError: 1"):
            fail(REFUSED)
        with pytest.raises(UnavailableError, match="cudaError: 700"):
            fail(ENDS)
        with pytest.raises(UnavailableError), device.computing():
            pass
    assert fake.within == 0
    with device.entered():
        assert fake.within == 0
        with pytest.raises(UnavailableError), device.computing():
            pass


def test_a_card_that_cannot_be_entered_is_told_by_the_kernels() -> None:
    fake = CountingCupy()
    device = CudaDevice(NAME, fake)

    def refused() -> Any:
        raise CudaError(REFUSED)

    device._calls.allocator = refused  # type: ignore[misc]
    with device.entered():
        assert fake.gpu._stream == OUTSIDE
        with pytest.raises(CudaError), device.computing():
            pass
    assert fake.gpu._stream == OUTSIDE
