"""The longest wait of a step that something holds up names that thing, whatever kind of thing it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.resources.variable import Variable
from tests.runtime.tracing.test_waits import longest_wait
from tests.runtime.tracing.waiting_steps import until_one_waits

KINDS: Final[dict[str, Any]] = {"component_types": ["float32"], "shapes": [[]]}
#: (graph, what the step fetches, what another step runs first, what lets it go on)
Held = tuple[fe.Graph, Any, list[str], str]


def queue(op: str, take: str, **options: Any) -> Callable[[], Held]:
    """A step that takes from an empty queue."""

    def make() -> Held:
        g = fe.Graph()
        q = getattr(g.ops, op)(name="held", **(KINDS | options))
        more = [] if take == "QueueDequeueV2" else [g.constant(2)]
        taken = getattr(g.ops, take)(q, *more, component_types=["float32"], name="waits")
        g.ops.QueueEnqueueManyV2(q, [g.constant([1.0, 2.0, 3.0])], name="frees")
        return g, fe.negative(taken[0], name="y"), [], "frees"

    return make


def full_queue(put: str) -> Callable[[], Held]:
    """A step that puts into a full queue."""

    def make() -> Held:
        g = fe.Graph()
        q = g.ops.FIFOQueueV2(name="held", capacity=2, **KINDS)
        value = g.constant([1.0, 2.0]) if "Many" in put else g.constant(1.0)
        getattr(g.ops, put)(q, [value], name="waits")
        g.ops.QueueEnqueueManyV2(q, [g.constant([1.0, 2.0])], name="fills")
        g.ops.QueueDequeueManyV2(q, g.constant(2), component_types=["float32"], name="frees")
        return g, "waits", ["fills"], "frees"

    return make


def priority_queue() -> Held:
    g = fe.Graph()
    q = g.ops.PriorityQueueV2(component_types=["float32"], shapes=[[]], name="held")
    taken = g.ops.QueueDequeueV2(q, component_types=["int64", "float32"], name="waits")
    g.ops.QueueEnqueueV2(q, [g.constant(1, "int64"), g.constant(2.0)], name="frees")
    return g, taken[1], [], "frees"


def accumulator() -> Held:
    g = fe.Graph()
    held = g.ops.ConditionalAccumulator(dtype="float32", shape=[], name="held")
    taken = g.ops.AccumulatorTakeGradient(held, g.constant(1), dtype="float32", name="waits")
    g.ops.AccumulatorApplyGradient(held, g.constant(0, "int64"), g.constant(3.0), name="frees")
    return g, taken, [], "frees"


def staging_area() -> Held:
    g = fe.Graph()
    taken = g.ops.Unstage(dtypes=["float32"], shared_name="held", name="waits")
    g.ops.Stage([g.constant(1.0)], shared_name="held", name="frees")
    return g, taken[0], [], "frees"


def barrier() -> Held:
    g = fe.Graph()
    held = g.ops.Barrier(component_types=["float32"], name="held")
    taken = g.ops.BarrierTakeMany(held, g.constant(1), component_types=["float32"], name="waits")
    g.ops.BarrierInsertMany(held, g.constant([b"key"]), g.constant([2.0]), component_index=0, name="frees")
    return g, taken[0], [], "frees"


CASES: Final[dict[str, Callable[[], Held]]] = {
    "first in, first out": queue("FIFOQueueV2", "QueueDequeueV2"),
    "many": queue("FIFOQueueV2", "QueueDequeueManyV2"),
    "up to so many": queue("FIFOQueueV2", "QueueDequeueUpToV2"),
    "shuffled": queue("RandomShuffleQueueV2", "QueueDequeueV2", min_after_dequeue=0),
    "many shuffled": queue("RandomShuffleQueueV2", "QueueDequeueManyV2", min_after_dequeue=1),
    "padded": queue("PaddingFIFOQueueV2", "QueueDequeueManyV2"),
    "by priority": priority_queue,
    "full": full_queue("QueueEnqueueV2"),
    "full for many": full_queue("QueueEnqueueManyV2"),
    "gradients": accumulator,
    "barrier": barrier,
    "staging area": staging_area,
}


@pytest.mark.parametrize("level", ["blocks", "nodes"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_resource_that_is_not_ready(
    case: Callable[[], Held], level: Any, autojump_clock: trio.testing.MockClock
) -> None:
    g, fetch, before, frees = case()
    metadata = fe.RunMetadata()
    async with fe.Session(g) as session, trio.open_nursery() as nursery:
        await session.run([], targets=before)
        options = fe.RunOptions(trace=level)

        async def run() -> None:
            targets, fetches = ([fetch], []) if fetch == "waits" else ([], fetch)
            await session.run(fetches, targets=targets, options=options, run_metadata=metadata)

        nursery.start_soon(run)
        await until_one_waits(session)
        await session.run([], targets=[frees])
    assert "'waits'" in longest_wait(metadata).name
    (waited,) = [event for event in metadata.events if event.kind == "async" and event.name == "waits"]
    if waited.op not in {"Unstage"}:  # it has its resource by a name, not as an input
        assert "'held'" in waited.detail["waits_for"]


@pytest.mark.parametrize("level", ["blocks", "nodes"])
@pytest.mark.parametrize("way", ["read", "assign_add", "scatter", "both"])
async def test_a_variable_that_is_held(way: str, level: Any) -> None:
    g = fe.Graph()
    v = g.variable(np.ones(3, np.float32), name="held")
    other = g.variable(np.ones(3, np.float32), name="free")
    fetch = {
        "read": lambda: fe.negative(v.value()),
        "assign_add": lambda: v.assign_add(np.ones(3, np.float32)),
        "scatter": lambda: v.scatter_add([1], [2.0]),
        "both": lambda: other.assign_add(v.value()),
    }[way]()
    metadata = fe.RunMetadata()
    async with fe.Session(g) as session, trio.open_nursery() as nursery:
        await session.initialize()
        await session.run(fetch)
        held = next(each for each in session.resources.held(Variable) if each.name == "held")
        assert held.acquire("another step")

        async def run() -> None:
            await session.run(fetch, options=fe.RunOptions(trace=level), run_metadata=metadata)

        nursery.start_soon(run)
        await until_one_waits(session)
        held.release()
    assert longest_wait(metadata).name == "variable 'held', which another step writes"
