"""Waits that are left out of sessions' steps, and other faults of a device's memory, are found."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.devices.device import DeviceRegistry
from flowengine.devices.load import DEVICES
from flowengine.devices.ordering import StreamEvent
from flowengine.kernels.context import KernelContext
from flowengine.kernels.load import registry
from flowengine.kernels.registry import KernelRegistry
from flowengine.runtime.streams import device_transfers
from tests.devices.gpu_graphs import GRAPHS, values_of
from tests.devices.on_gpu import GPU
from tests.devices.placing import opener
from tests.effort import IS_NIGHTLY
from tests.tools.simulated_gpu import SimulatedGpu, simulated_gpus

#: (all on the GPU, thrown on both devices): each wait of these is left out in turn.
SEEDS: Final = range(8) if IS_NIGHTLY else range(1)
#: Most waits of sessions are found when they are missing; so many in a hundred may follow from others.
IMPLIED_PERCENT: Final = 2
#: In these graphs every kind of wait is made, all on the GPU.
VARIED: Final = ("table_of_rows", "loop_until_small", "trained_by_momentum")


async def played(name: str, seed: int, leaves_out: Callable[[str, StreamEvent], bool]) -> SimulatedGpu:
    """The GPU after a graph was run on it without some of the waits, whatever the values were."""
    made = GRAPHS[name]()
    gpus: list[SimulatedGpu] = []
    session = opener(gpus, seed, scattered=bool(seed % 2), worker_threads=False)(made.graph)
    (gpu,) = gpus
    gpu.leaves_out = leaves_out
    async with session:
        with trio.fail_after(60), contextlib.suppress(fe.errors.OpError):
            await values_of(session, made)
    return gpu


def nothing(kind: str, event: StreamEvent) -> bool:
    return False


class LeftOut:
    """One wait is left out, by its number.

    kind   of that one; None as long as it has not come: trio's order of tasks makes a few more or less
    """

    def __init__(self, number: int) -> None:
        self.kind: str | None = None
        self._left = number

    def __call__(self, kind: str, event: StreamEvent) -> bool:
        self._left -= 1
        if self._left != -1:
            return False
        self.kind = kind
        return True


@pytest.mark.parametrize("seed", SEEDS)
async def test_each_wait_of_a_session_is_found_when_it_is_left_out(seed: int) -> None:
    tried, implied = 0, list[tuple[str, int]]()
    for name in GRAPHS:
        gpu = await played(name, seed, nothing)
        gpu.check()
        for number in range(sum(gpu.waits.values())):
            missing = LeftOut(number)
            broken = await played(name, seed, missing)
            if missing.kind is None:
                continue
            tried += 1
            if not any(finding.kind == "missing wait" for finding in broken.findings):
                implied.append((name, number))
    assert tried > 100
    assert len(implied) <= tried * IMPLIED_PERCENT / 100, implied


@pytest.mark.parametrize("seed", range(20))
async def test_each_kind_of_wait_is_found_in_each_order_of_the_streams(seed: int) -> None:
    found = set[str]()
    for name in VARIED:
        for kind in ("copy in", "copy out", "update", "reuse"):
            broken = await played(name, 2 * seed, lambda asked, event: asked == kind)  # noqa: B023
            if any(finding.kind == "missing wait" for finding in broken.findings):
                found.add(kind)
    assert found == {"copy in", "copy out", "update", "reuse"}


@pytest.mark.parametrize("seed", range(20))
def test_a_write_behind_a_copy_that_still_reads_is_found(seed: int) -> None:
    """In sessions nothing is written that a copy reads: what leaves is kept, and written elsewhere."""
    gpu = SimulatedGpu(f"/job:localhost/replica:0/task:0{GPU}", seed=seed)
    gpu.leaves_out = lambda kind, event: kind == "launch"
    x = gpu.xp.exp(gpu.copy_in(np.zeros(3)))
    copy = gpu.start_copy_out(x)
    x += 1
    assert copy is not None
    gpu.synchronize()
    (found,) = gpu.findings
    assert found.kind == "missing wait"


@pytest.mark.parametrize("seed", range(20))
async def test_what_the_host_takes_before_it_is_there_is_found(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def waits_not(*given: Any, **others: Any) -> None:
        await trio.lowlevel.checkpoint()

    monkeypatch.setattr(device_transfers, "wait_reached", waits_not)
    broken = await played("counted_loop", 2 * seed, nothing)
    assert any("the host reads" in finding.what for finding in broken.findings)


def _frees_it(x: Any, gpu: Any) -> Any:
    gpu.give_back(x)
    return x * 2


def _has_it_given_out_again(x: Any, gpu: Any) -> Any:
    """As a pool does that has lost count: what `x` has is the next to be given out."""
    chunk = gpu._block_of(x._data).chunk
    gpu.pool._idle.setdefault((0, chunk.data.nbytes), []).append(chunk)
    return x * 2


def _looks_at_it(x: Any, gpu: Any) -> Any:
    return x * float(x[0])


def _stands_still(x: Any, gpu: Any) -> Any:
    gpu.synchronize()
    return x * 2


def with_kernel(function: Callable[[Any, Any], Any]) -> tuple[fe.Session, SimulatedGpu, Any]:
    """A session whose Exp is computed so on the GPU, and what it may run."""
    kernels = KernelRegistry(parent=registry())

    @kernels.kernel("Exp", device="GPU")
    def planted(x: Any, *, ctx: KernelContext) -> Any:
        return function(x, ctx.hardware)

    g = fe.Graph()
    with g.device(GPU):
        y = g.ops.Neg(g.ops.Exp(g.constant(np.arange(4, dtype=np.float32)) + 1.0))
    devices = DeviceRegistry(parent=DEVICES)
    devices.register("GPU", simulated_gpus(3), lambda: 1)
    config = fe.Config(worker_threads=False, fold_constants=False)
    session = fe.Session(g, config=config, devices=devices, kernels=kernels)
    gpu: Any = session.devices.matching(GPU)[0]
    return session, gpu, y


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (_frees_it, "use after free"),
        (_has_it_given_out_again, "given out twice"),
        (_looks_at_it, "host read"),
        (_stands_still, "loop stopped"),
    ],
)
async def test_what_a_kernel_does_by_mistake_is_found(function: Any, kind: str) -> None:
    session, gpu, y = with_kernel(function)
    async with session:
        with pytest.raises(AssertionError, match=kind), gpu.step(), contextlib.suppress(fe.errors.OpError):
            await session.run(y)
    gpu.xp.reads.clear()


async def test_a_kernel_without_mistakes_has_no_findings() -> None:
    session, gpu, y = with_kernel(lambda x, gpu: x * 2)
    async with session:
        with gpu.step():
            assert (await session.run(y)).tolist() == [-2, -4, -6, -8]
