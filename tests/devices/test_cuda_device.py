"""The device over CuPy, with a stand-in whose streams run late and wait for nothing that is not asked for."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.core import dtypes
from flowengine.devices import cuda, cuda_device
from flowengine.devices.cpu import CpuDevice
from flowengine.devices.cuda_device import CudaDevice, cards_with_cupy, cupy_module
from flowengine.devices.device import DeviceRegistry, StreamDevice, TimedDevice
from flowengine.devices.launch_record import LaunchRecord
from flowengine.devices.load import DEVICES
from flowengine.runtime.planning import tiers
from flowengine.testing.strict_array import StrictArray
from tests.devices.cuda_by_host import without_libraries
from tests.devices.fake_cupy import FakeCupy, copied_out
from tests.devices.gpu_graphs import GRAPHS, alike, of_the_cpu, values_of
from tests.devices.placing import OverGpu
from tests.tools.simulated_gpu import SimulatedGpu

NAME: Final = "/job:localhost/replica:0/task:0/device:GPU:0"
SEEDS: Final = range(12)


@pytest.fixture(autouse=True)
def _arrays_can_be_got(monkeypatch: pytest.MonkeyPatch) -> None:
    without_libraries(monkeypatch)
    plain = StrictArray.get

    def get(self: Any, stream: Any = None, out: Any = None, blocking: bool = True) -> Any:
        return plain(self) if stream is None else copied_out(self, stream, out, blocking)

    monkeypatch.setattr(StrictArray, "get", get)


def made(kind: str, seed: int) -> tuple[Any, SimulatedGpu]:
    """A device, and the simulated GPU that checks it: itself, or what lies under it."""
    if kind == "simulated":
        gpu = SimulatedGpu(NAME, seed=seed)
        return gpu, gpu
    fake = FakeCupy(seed)
    return CudaDevice(NAME, fake), fake.gpu


# -- what any device with streams keeps -------------------------------------------------------------------

KINDS: Final = pytest.mark.parametrize("kind", ["simulated", "cuda"])


@KINDS
@pytest.mark.parametrize("seed", SEEDS)
def test_values_come_back_as_they_went_in_and_as_they_were_computed(kind: str, seed: int) -> None:
    device, gpu = made(kind, seed)
    assert isinstance(device, StreamDevice)
    values: list[Any] = [
        np.arange(6.0).reshape(2, 3),
        np.float32(3),
        np.zeros((0, 4)),
        np.array([True]),
        np.int8(-1),
    ]
    for value in values:
        there = device.copy_in(value)
        back = device.copy_out(there)
        np.testing.assert_array_equal(back, value)
        assert back.dtype == value.dtype
        with device.computing():
            more = there * there
            del there
        np.testing.assert_array_equal(device.copy_out(more), value * value)
    device.synchronize()
    assert list(device.unfinished()) == []
    gpu.check()


@KINDS
@pytest.mark.parametrize("seed", SEEDS)
def test_memory_of_copies_is_used_again_and_never_too_early(kind: str, seed: int) -> None:
    device, gpu = made(kind, seed)
    total = np.zeros(64)
    copies = []
    with device.computing():
        sums = device.xp.zeros(64)
    for number in range(8):
        fed = device.copy_in(np.full(64, float(number)))
        with device.computing():
            sums = sums + fed
            fed = None
        total += number
        copies.append((device.start_copy_out(sums), total.copy()))
    for copy, wanted in copies:
        device.wait(copy.event)
        assert device.is_done(copy.event)
        np.testing.assert_array_equal(copy.value(), wanted)
    gpu.check()
    assert gpu.pool.bytes_taken <= 40 * 512


@KINDS
def test_what_is_copied_in_may_be_changed_at_once(kind: str) -> None:
    device, gpu = made(kind, 1)
    value = np.ones(5)
    there = device.copy_in(value)
    value[:] = 9
    assert device.copy_out(there).tolist() == [1] * 5
    gpu.check()


@KINDS
def test_what_is_no_array_of_numbers_passes(kind: str) -> None:
    device, _ = made(kind, 1)
    text = np.array([b"x"], object)
    assert device.copy_in(text) is text
    assert device.copy_in(b"y") == b"y"
    assert device.start_copy_out(text) is None
    assert device.copy_out(text) is text
    assert device.owner_of(text) is None
    assert device.holds(dtypes.float32)
    assert device.holds(dtypes.bool_)
    assert not device.holds(dtypes.string)


@KINDS
def test_an_array_owns_its_bytes_and_a_view_has_its_owner(kind: str) -> None:
    device, _ = made(kind, 1)
    there = device.copy_in(np.ones((4, 2)))
    owner, size = device.owner_of(there)
    assert size == 64
    with device.computing():
        view = there[1:]
    assert device.owner_of(view)[0] is owner


# -- the waits that are asked for ---------------------------------------------------------------------------


@asynccontextmanager
async def opened(
    graph: fe.Graph, fake: FakeCupy, *, scattered: int | None = None, **config: Any
) -> AsyncIterator[fe.Session]:
    devices = DeviceRegistry(parent=DEVICES)
    devices.register("GPU", lambda name, limit: CudaDevice(name, fake, limit), lambda: 1)
    placer = OverGpu(scattered)
    settings = fe.Config(**{"worker_threads": False, **config})
    async with fe.Session(graph, config=settings, devices=devices, placer=placer) as session:
        placer.session = session
        yield session


@pytest.mark.parametrize("name", GRAPHS)
async def test_sessions_have_the_values_of_the_cpu_and_no_findings(name: str) -> None:
    wanted = await of_the_cpu(name)
    for seed in range(6):
        graph, fake = GRAPHS[name](), FakeCupy(seed)
        async with opened(graph.graph, fake, scattered=seed if seed % 2 else None) as session:
            with trio.fail_after(60):
                found = await values_of(session, graph)
        alike(found, wanted)
        fake.gpu.check()
        assert fake.gpu.stops == 0


async def test_each_wait_that_the_device_asks_for_is_needed() -> None:
    async def played(name: str, forgets: int) -> FakeCupy:
        graph, fake = GRAPHS[name](), FakeCupy(4)
        fake.forgets = lambda number: number == forgets
        async with opened(graph.graph, fake) as session:
            with trio.fail_after(60), contextlib.suppress(fe.errors.OpError):
                await values_of(session, graph)
        return fake

    tried = unneeded = 0
    for name in ("counted_loop", "loop_until_small", "branches", "table_of_rows", "through_a_queue"):
        whole = await played(name, -1)
        whole.gpu.check()
        for number in range(whole.waits):
            broken = await played(name, number)
            tried += 1
            unneeded += not any(finding.kind == "missing wait" for finding in broken.gpu.findings)
    # All work is one block of memory to this device: some of what it waits for, no value depends on.
    assert tried > 40
    assert unneeded < tried / 2


async def test_each_step_uses_the_memory_of_the_one_before() -> None:
    graph, fake = GRAPHS["trained_by_momentum"](), FakeCupy(2)
    async with opened(graph.graph, fake) as session:
        await values_of(session, graph)
        taken = fake.gpu.pool.bytes_taken
        for _ in range(10):
            await session.run(list(graph.fetches), dict(graph.feeds[0]))
        assert fake.gpu.pool.bytes_taken <= taken + 4096
    fake.gpu.check()


# -- when something goes wrong ------------------------------------------------------------------------------


async def test_memory_that_is_short_is_waited_for_and_then_told_of() -> None:
    g = fe.Graph()
    n = g.placeholder("int32", [], name="n")
    x = g.ops.Fill(g.ops.Pack([n, g.constant(512)]), g.constant(np.float32(1)), name="x")
    y = fe.reduce_sum(x * 2.0)
    fake = FakeCupy(1, capacity_bytes=16 * 1024)
    device = CudaDevice(NAME, fake)
    with pytest.raises(fe.errors.ResourceExhaustedError, match=r"memory of /job:localhost.* is full"):
        device.copy_in(np.zeros(32 * 1024, np.uint8))
    assert fake.trimmed == 1
    assert device.copy_out(device.copy_in(np.ones(3))).tolist() == [1, 1, 1]
    assert (y.dtype, x.op.name) == (dtypes.float32, "x")
    fake.gpu.check()


@pytest.mark.parametrize("threads", [True, False])
async def test_what_ends_the_context_is_told_and_nothing_hangs(threads: bool) -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [3], name="x")
    v = g.variable(np.full(3, 2, np.float32), name="v")
    y = g.ops.Exp(x * v, name="y")
    fake = FakeCupy(1)
    async with opened(g, fake, worker_threads=threads) as session:
        await session.initialize()
        assert (await session.run(y, {x: np.zeros(3, np.float32)})).tolist() == [1, 1, 1]
        fake.ended = 700
        for _ in range(3):
            with trio.fail_after(30), pytest.raises(fe.errors.UnavailableError) as told:
                await session.run(y, {x: np.zeros(3, np.float32)})
            assert "has ended the CUDA context of this process" in str(told.value)
            assert "The process that runs the device has to be started anew: restore" in str(told.value)
            assert "initializers: v" in str(told.value)


@pytest.mark.parametrize("threads", [True, False])
async def test_a_context_that_is_made_anew_has_a_new_incarnation(threads: bool) -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [3], name="x")
    v = g.variable(np.full(3, 2, np.float32), name="v")
    y = g.ops.Exp(x * v, name="y")
    zeros = np.zeros(3, np.float32)
    fake = FakeCupy(1)
    settings: dict[str, Any] = {"worker_threads": threads, "deterministic": True}
    async with opened(g, fake, **settings) as session:
        await session.initialize()
        call = session.make_callable(y, [x])
        assert (await call(zeros)).tolist() == [1, 1, 1]
        (former,) = session.devices.matching("/device:GPU:*")
        fake.ended = 719
        with trio.fail_after(30), pytest.raises(fe.errors.UnavailableError, match="has to be started anew"):
            await call(zeros)
        assert session.devices.matching("/device:GPU:*") == [former], "the card still refuses"
        fake.restart(2)
        with trio.fail_after(30), pytest.raises(fe.errors.UnavailableError, match="on a new incarnation"):
            await call(zeros)
        (following,) = session.devices.matching("/device:GPU:*")
        assert isinstance(following, CudaDevice)
        assert (following.name, following.settings) == (former.name, former.settings)  # type: ignore[attr-defined]
        assert following.incarnation != former.incarnation
        with pytest.raises(fe.errors.FailedPreconditionError, match="v"):
            await call(zeros)
        await session.initialize()
        assert (await call(zeros)).tolist() == [1, 1, 1]
        with pytest.raises(fe.errors.UnavailableError, match="has ended the CUDA context"):
            former.copy_in(zeros)
    fake.gpu.check()


def test_a_card_that_computes_something_else_than_it_should_is_no_successor() -> None:
    fake = FakeCupy(1)
    device = CudaDevice(NAME, fake)
    fake.ended = 700
    with pytest.raises(fe.errors.UnavailableError, match="all values on the card are lost"):
        device.copy_in(np.ones(2))
    assert device.successor() is None
    fake.restart()
    fake.gpu.fails_at = lambda name: True  # what was compiled in the former context is not launched any more
    assert device.successor() is None
    fake.restart()
    following = device.successor()
    assert following is not None
    assert following.incarnation != device.incarnation


# -- when it was done ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("runs", [0, 1_000_000], ids=["hot", "cold"])
@pytest.mark.parametrize("seed", range(4))
async def test_a_step_that_asks_is_told_what_each_stream_did_and_when(
    seed: int, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "HOT_RUNS", runs)
    g = fe.Graph()
    x = g.placeholder("float32", [2, 2], name="x")
    first = g.ops.MatMul(x, x, name="first")
    second = g.ops.MatMul(first, first, name="second")
    fake = FakeCupy(seed)
    async with opened(g, fake) as session:
        assert isinstance(session.devices[NAME], TimedDevice)
        feeds = {x: np.eye(2, dtype=np.float32)}
        await session.run([first, second], feeds)
        steps = []
        for _ in range(2):
            metadata = fe.RunMetadata(launches=[])
            await session.run([first, second], feeds, run_metadata=metadata)
            await session.run([first, second], feeds)
            assert metadata.launches is not None
            steps.append(metadata.launches)
    for launches in steps:
        assert {each.device for each in launches} == {NAME}
        assert sorted((each.stream, each.node, each.what) for each in launches) == [
            ("compute", "first", "work"),
            ("compute", "second", "work"),
            ("copy in", "x/_to_device_0", "copy in"),
            ("copy out", "first:0", "copy out"),
            ("copy out", "second:0", "copy out"),
        ]
        when = {each.node: each for each in launches}
        assert all(each.began <= each.ended for each in launches)
        order = ["x/_to_device_0", "first", "second", "second:0"]
        for one, other in pairwise(order):
            assert when[one].ended <= when[other].began + 1e-9
    assert max(each.ended for each in steps[0]) <= min(each.began for each in steps[1])
    fake.gpu.check()


def test_of_many_steps_those_that_have_work_under_way_are_told_it() -> None:
    device = CudaDevice(NAME, FakeCupy(3))
    there = device.copy_in(np.ones(4, np.float32))
    steps: list[list[LaunchRecord]] = [[] for _ in range(20)]
    for number, launches in enumerate(steps):
        device.note(launches, f"n{number}")
        with device.computing():
            there = there + there
    device.note(None, "")
    with device.computing():
        there = there + there
    device.synchronize()
    assert [[each.node for each in launches] for launches in steps] == [[f"n{i}"] for i in range(20)]


def test_an_error_that_does_not_end_the_context_does_not_end_the_device() -> None:
    fake = FakeCupy(1)
    device = CudaDevice(NAME, fake)
    copy = device.start_copy_out(device.copy_in(np.ones(2)))
    assert copy is not None
    fake.status = 1
    with pytest.raises(fe.errors.InternalError, match="cudaError: 1"):
        device.is_done(copy.event)
    fake.status = 0
    device.wait(copy.event)
    assert copy.value().tolist() == [1, 1]


def test_two_devices_may_be_on_one_card_and_none_without_one() -> None:
    fake = FakeCupy(0, cards=1)
    devices = [CudaDevice(NAME.replace("GPU:0", f"GPU:{index}"), fake) for index in range(2)]
    assert devices[0].incarnation != devices[1].incarnation
    assert [device.copy_out(device.copy_in(np.float32(5))) for device in devices] == [5, 5]
    with pytest.raises(fe.errors.FailedPreconditionError, match="finds no GPU"):
        CudaDevice(NAME, FakeCupy(0, cards=0))


def test_without_a_card_it_says_why_and_cupy_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    found = cuda.CudaSearch((), None, cuda.libraries(), "the driver sees no card")
    monkeypatch.setattr(cuda, "search", lambda: found)
    assert cards_with_cupy() == 0
    with pytest.raises(fe.errors.FailedPreconditionError, match="there is no GPU: the driver sees no card"):
        cupy_module()


def test_with_a_card_and_without_cupy_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    card = cuda.CudaCard("Card", 1 << 30, (9, 0), 132)
    without = cuda.CudaLibrary("cupy", "", "", "cupy-cuda13x")
    monkeypatch.setattr(cuda, "search", lambda: cuda.CudaSearch((card,), (13, 0), (without,), ""))
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    assert cards_with_cupy() == 0
    with pytest.raises(fe.errors.FailedPreconditionError, match=r"install the extra `cuda`"):
        cupy_module()


def _cards(monkeypatch: pytest.MonkeyPatch, count: int, cupy_version: str) -> None:
    cards = (cuda.CudaCard("Card", 1 << 30, (9, 0), 132),) * count
    library = cuda.CudaLibrary("cupy", cupy_version, "", "cupy-cuda13x")
    reason = "" if count else "the driver sees no card"
    monkeypatch.setattr(cuda, "search", lambda: cuda.CudaSearch(cards, (13, 0), (library,), reason))


async def test_a_session_that_asks_for_gpus_gets_them_or_is_told_why_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _cards(monkeypatch, 1, "14.0.1")
    fake = FakeCupy(3)
    monkeypatch.setattr(cuda_device, "cupy_module", lambda: fake)
    registry = type(DEVICES)()
    registry.register("CPU", CpuDevice, lambda: 1)
    assert registry.types == ("CPU",), "no card is looked for before somebody asks"
    g = fe.Graph()
    x = g.placeholder("float32", [3], name="x")
    with g.device("/gpu:1"):
        y = g.ops.Exp(x, name="y")
    config = fe.Config(device_count={"GPU": 2})  # of one card
    async with fe.Session(g, devices=registry, config=config) as session:
        assert [device.type for device in session.devices] == ["CPU", "GPU", "GPU"]
        assert (await session.run(y, {x: np.zeros(3, np.float32)})).tolist() == [1, 1, 1]
    fake.gpu.check()
    for count, version, why in ((0, "14.0.1", "the driver sees no card"), (1, "", "install the extra")):
        _cards(monkeypatch, count, version)
        registry = type(DEVICES)()
        registry.register("CPU", CpuDevice, lambda: 1)
        with pytest.raises(fe.errors.InvalidArgumentError, match=f"There is no GPU: .*{why}"):
            registry.make({"GPU": 1})
