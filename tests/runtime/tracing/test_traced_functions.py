"""Functions that resources call while a traced step runs are in its trace; later calls are not."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import flowengine as fe
from flowengine.runtime.tracing.recorder import Recorder

KINDS: Final[dict[str, Any]] = {"output_types": [fe.dtypes.float32], "output_shapes": [[]]}


def mapped(count: int = 64) -> tuple[fe.Graph, Any, fe.Tensor]:
    """A graph, the node that makes its iterator, and the next element: tanh of a number, by three calls."""
    g = fe.Graph()
    body: Any = fe.function(g, ["int64"])(
        lambda x: x.graph.ops.Tanh(x.graph.ops.Cast(x, DstT="float32"), name="shrink")
    )
    numbers = g.ops.RangeDataset(
        np.int64(0),
        np.int64(count),
        np.int64(1),
        output_types=[fe.dtypes.int64],
        output_shapes=[[]],
    )
    dataset = g.ops.ParallelMapDataset(numbers, [], np.int32(3), f=body.attr, **KINDS)
    batches = g.ops.BatchDataset(dataset, np.int64(16), **KINDS | {"output_shapes": [[None]]})
    kinds = KINDS | {"output_shapes": [[None]]}
    iterator = g.ops.IteratorV2(shared_name="numbers", container="", **kinds)
    make = g.ops.MakeIterator(batches, iterator)
    (following,) = g.ops.IteratorGetNext(iterator, **kinds)
    return g, make, following


@pytest.mark.parametrize("level", ["blocks", "nodes"])
async def test_calls_of_a_parallel_map_are_in_the_trace(level: Any) -> None:
    g, make, following = mapped()
    calls = 0
    async with fe.Session(g) as session:
        await session.run([], targets=[make])
        for number in range(4):
            metadata = fe.RunMetadata()
            value = await session.run(following, options=fe.RunOptions(trace=level), run_metadata=metadata)
            np.testing.assert_allclose(value, np.tanh(np.arange(16) + 16 * number), rtol=1e-6)
            calls += sum("function" in event.detail for event in metadata.events)
            assert all(event.began >= 0 for event in metadata.events)
            metadata.timeline()
        assert calls >= 16
        assert not session._runner.recorders


async def test_a_trace_ends_with_its_step() -> None:
    g, make, following = mapped(1000)
    async with fe.Session(g) as session:
        await session.run([], targets=[make])
        metadata = fe.RunMetadata()
        await session.run(following, options=fe.RunOptions(trace="nodes"), run_metadata=metadata)
        assert isinstance(metadata.trace, Recorder)
        before = len(metadata.trace._raw)
        for _ in range(10):
            await session.run(following)
        assert len(metadata.trace._raw) == before
        assert metadata.dropped_events == 0
