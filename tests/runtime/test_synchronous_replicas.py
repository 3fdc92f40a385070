"""Synchronous replicas with backup workers (OSDI 4.4): accumulators collect gradients, a queue is a barrier.

The replicas are concurrent steps of one session, in simulated time: each computes its gradient of
`sum((w x - y)^2)`, takes its time, hands the gradient in for the step whose token it holds, and waits at the
token queue. The chief applies the average of the first m of n and hands out n tokens of the next step.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe

_STEPS = 6
_RATE = 1 / 64


def _graph(required: int, replicas: int) -> fe.Graph:
    g = fe.Graph()
    w = g.ops.VariableV2(shape=[2], dtype="float64", name="w")
    g.ops.Assign(w, g.constant(np.array([1.0, -2.0])), name="init_w")
    step = g.ops.VariableV2(shape=[], dtype="int64", name="global_step")
    g.ops.Assign(step, g.constant(np.int64(0)), name="init_step")
    x = g.placeholder("float64", [2], name="x")
    y = g.placeholder("float64", [2], name="y")
    read = g.ops.Identity(w, name="w_read")
    error = g.ops.Sub(g.ops.Mul(read, x), y)
    g.ops.Mul(g.ops.Mul(error, x), g.constant(2.0, dtype="float64"), name="gradient")

    accumulator = g.ops.ConditionalAccumulator(dtype="float64", shape=[2], name="accumulator")
    local_step = g.placeholder("int64", [], name="local_step")
    ready = g.placeholder("float64", [2], name="ready")
    handed_in = g.ops.AccumulatorApplyGradient(accumulator, local_step, ready, name="hand_in")
    tokens = g.ops.FIFOQueueV2(component_types=["int64"], shapes=[[]], capacity=-1, name="tokens")
    with g.control_dependencies([handed_in]):
        g.ops.QueueDequeueV2(tokens, component_types=["int64"], name="next_token")

    average = g.ops.AccumulatorTakeGradient(
        accumulator, g.constant(np.int32(required)), dtype="float64", name="average"
    )
    applied = g.ops.ApplyGradientDescent(w, g.constant(_RATE, dtype="float64"), average, name="apply")
    with g.control_dependencies([applied]):
        advanced = g.ops.AssignAdd(step, g.constant(np.int64(1)), name="advance")
    new_tokens = g.ops.Fill(g.constant(np.array([replicas], np.int32)), advanced)
    g.ops.QueueEnqueueManyV2(tokens, [new_tokens], name="chief")
    return g


def _sample(replica: int, step: int) -> tuple[Any, Any]:
    """Small whole numbers: sums of gradients are exact in any order."""
    return np.array([1.0 + replica % 2, 1.0]), np.array([float(replica), float(step % 3)])


def _seconds(replica: int) -> float:
    """Return the seconds a replica takes for a gradient: no two sums are equal, so no two come at once."""
    return math.sqrt((2, 11, 23, 47, 83)[replica])


def _sequential(counted: list[list[int]]) -> Any:
    """The parameters after steps that average the gradients of these replicas."""
    w = np.array([1.0, -2.0])
    for step, replicas in enumerate(counted):
        gradients = [2 * (w * x - y) * x for x, y in (_sample(r, step) for r in replicas)]
        w = w - _RATE * (sum(gradients) / len(replicas))
    return w


async def _train(required: int, replicas: int) -> tuple[Any, list[list[int]], float]:
    """(parameters, replicas that came in time at each step, seconds): later replicas are slower."""
    counted: list[list[int]] = [[] for _ in range(_STEPS)]
    async with fe.Session(_graph(required, replicas)) as session:
        await session.run([], targets=["init_w", "init_step"])
        begun = trio.current_time()

        async def replica(which: int) -> None:
            step = 0
            while True:
                x, y = _sample(which, step)
                gradient = await session.run("gradient:0", {"x:0": x, "y:0": y})
                await trio.sleep(_seconds(which))
                if step < _STEPS and len(counted[step]) < required:
                    counted[step].append(which)
                step = int(
                    await session.run("next_token:0", {"local_step:0": np.int64(step), "ready:0": gradient})
                )

        async with trio.open_nursery() as nursery:
            for which in range(replicas):
                nursery.start_soon(replica, which)
            for _ in range(_STEPS):
                await session.run([], targets=["chief"])
            nursery.cancel_scope.cancel()
        assert await session.run("global_step:0") == _STEPS
        return await session.run("w:0"), counted, trio.current_time() - begun


async def test_with_all_of_them_it_is_the_sequential_run(autojump_clock: trio.testing.MockClock) -> None:
    w, counted, seconds = await _train(4, 4)
    assert [sorted(replicas) for replicas in counted] == [[0, 1, 2, 3]] * _STEPS
    np.testing.assert_array_equal(w, _sequential(counted))
    assert seconds == pytest.approx(_STEPS * _seconds(3))
    assert autojump_clock.autojump_threshold == 0


@pytest.mark.parametrize(("required", "replicas"), [(3, 5), (1, 3), (4, 5)])
async def test_the_slowest_are_ignored(
    required: int, replicas: int, autojump_clock: trio.testing.MockClock
) -> None:
    w, counted, seconds = await _train(required, replicas)
    assert counted[0] == list(range(required))
    np.testing.assert_array_equal(w, _sequential(counted))
    assert seconds < _STEPS * _seconds(replicas - 1)
    assert autojump_clock.autojump_threshold == 0
