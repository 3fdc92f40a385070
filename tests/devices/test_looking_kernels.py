"""Kernels that must look at a device's values, since those say how large the result is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.kernels.load import registry
from tests.devices.on_gpu import GPU, opened
from tests.oprecords.found import RECORDS
from tests.oprecords.strict import STRICT, findings
from tests.oprecords.test_on_strict_arrays import EXCUSED
from tests.tools.simulated_gpu import SimulatedGpu

X: Final = np.array([0, 0, 1, 3], np.float32)
#: {op: makes what is fetched of the (4,) vector x and of the same as whole numbers}
_LOOKING: Final[dict[str, Callable[[fe.Graph, Any, Any], list[Any]]]] = {
    "SegmentSum": lambda g, x, i: [g.ops.SegmentSum(x, i)],
    "SegmentMean": lambda g, x, i: [g.ops.SegmentMean(x, i)],
    "SegmentProd": lambda g, x, i: [g.ops.SegmentProd(x, i)],
    "SegmentMax": lambda g, x, i: [g.ops.SegmentMax(x, i)],
    "SegmentMin": lambda g, x, i: [g.ops.SegmentMin(x, i)],
    "SparseSegmentSum": lambda g, x, i: [g.ops.SparseSegmentSum(x, i, i)],
    "SparseSegmentMean": lambda g, x, i: [g.ops.SparseSegmentMean(x, i, i)],
    "SparseSegmentSqrtN": lambda g, x, i: [g.ops.SparseSegmentSqrtN(x, i, i)],
    "SparseSegmentSumGradV2": lambda g, x, i: list(
        g.ops.SparseSegmentSumGradV2(g.ops.ExpandDims(x, 1), i, i, 5)
    ),
    "DynamicPartition": lambda g, x, i: list(g.ops.DynamicPartition(x, i, num_partitions=4)),
    "Where": lambda g, x, i: [g.ops.Where(x)],
}


def made(op: str, device: str) -> tuple[fe.Graph, list[Any]]:
    g = fe.Graph()
    with g.device(device):
        x = g.placeholder("float32", [4], name="x")
        return g, _LOOKING[op](g, x, g.ops.Cast(x, DstT="int32"))


@pytest.mark.parametrize("threads", [True, False])
@pytest.mark.parametrize("op", _LOOKING)
async def test_the_event_loop_goes_on_meanwhile_where_there_are_threads(op: str, threads: bool) -> None:
    found = []
    for device in ("/cpu:0", GPU):
        g, fetches = made(op, device)
        async with opened(g, seed=len(op), worker_threads=threads) as (session, gpu):
            found.append(await session.run(fetches, {"x:0": X}))
            if device == GPU:
                assert (gpu.stops == 0) == threads
                assert gpu.xp.reads, "it has to look"
                gpu.xp.reads.clear()
    for far, near in zip(*found, strict=True):
        np.testing.assert_allclose(far, near, rtol=1e-6)


async def test_cancelled_meanwhile_leaves_nothing_in_use() -> None:
    for turns in range(12):
        g, fetches = made("DynamicPartition", GPU)
        async with opened(g, seed=turns, worker_threads=True) as (session, gpu):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.run, fetches, {"x:0": X})
                for _ in range(turns):
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
            parts = await session.run(fetches, {"x:0": X})
            assert [part.tolist() for part in parts] == [[0, 0], [1], [], [3]]
            gpu.xp.reads.clear()


async def test_what_is_wrong_with_values_is_told() -> None:
    g, fetches = made("SegmentSum", GPU)
    async with opened(g, worker_threads=True) as (session, gpu):
        with pytest.raises(fe.errors.InvalidArgumentError, match="segment ids are not increasing") as told:
            await session.run(fetches, {"x:0": X[::-1].copy()})
        assert told.value.node_name == "SegmentSum"
        gpu.xp.reads.clear()


def test_kernels_of_records_say_that_they_look_where_they_do() -> None:
    """Of those that can run on a device; each record of an op whose kernels do look is played."""

    def reads(record: Any) -> bool:
        name = "/job:localhost/replica:0/task:0/device:GPU:0"
        found = findings(record, lambda: SimulatedGpu(name).xp, 1)
        return any("read by the host" in text for text in found)

    looking = {k.op for k in registry() if k.looks}
    assert looking >= set(_LOOKING)
    for record in RECORDS:
        if record.op in EXCUSED:
            kernels = [k for k in registry("numpy").candidates(record.op, STRICT) if k.device is None]
            does = bool(kernels) and reads(record)
            assert does == (record.op in looking), record.op
    assert looking <= EXCUSED
