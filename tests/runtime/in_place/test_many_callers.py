"""Threads and event loops that share a session: no update, no wake-up and no count of theirs is lost.

Some of their steps run in place, others in the portal, for a queue of one element makes callers wait for each
other. The interpreter switches threads as often as it can.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

import pytest

import flowengine as fe
from tests.effort import IS_NIGHTLY
from tests.steps_in_place import ADD, INIT, counters

THREADS: Final = 4
LOOPS: Final = 2
#: Tasks of each event loop.
TASKS: Final = 4
STEPS: Final = 100_000 if IS_NIGHTLY else 10_000
#: A round is three steps: add to the variables, put a number into the queue, take one out.
ROUNDS: Final = STEPS // (3 * (THREADS + LOOPS * TASKS))
SECONDS_MAX: Final = 1800 if IS_NIGHTLY else 300


def graph_of_counters_and_a_queue() -> fe.Graph:
    graph = counters()
    kept: dict[str, Any] = {"component_types": ["float32"], "shapes": [[]]}
    queue = graph.ops.FIFOQueueV2(**kept, capacity=1, name="queue")
    graph.ops.QueueEnqueueV2(queue, [graph.tensor("by:0")], name="put")
    graph.ops.Identity(graph.ops.QueueDequeueV2(queue, component_types=["float32"])[0], name="take")
    return graph


@pytest.mark.slow
def test_no_update_no_wake_up_and_no_count_is_lost() -> None:
    failures: list[BaseException] = []
    taken: list[float] = []
    running: list[int] = []
    is_over = threading.Event()
    with fe.blocking.Session(graph_of_counters_and_a_queue()) as session:
        session.run([], targets=INIT)
        other = fe.asyncio.Session(session.graph)
        other._session, other._portal, own = session._session, session._portal, other._portal

        def in_thread() -> None:
            for number in range(ROUNDS):
                session.run([], {"by:0": 1.0}, targets=ADD)
                session.run([], {"by:0": number}, targets=["put"])
                taken.append(float(session.run("take:0")))

        async def task() -> None:
            for number in range(ROUNDS):
                await other.run([], {"by:0": 1.0}, targets=ADD)
                await other.run([], {"by:0": number}, targets=["put"])
                taken.append(float(await other.run("take:0")))

        async def tasks() -> None:
            await asyncio.gather(*(task() for _ in range(TASKS)))

        def count() -> None:
            while not is_over.wait(0.01):
                running.append(session.statistics().running_steps)

        def noting(function: Callable[[], object]) -> Callable[[], None]:
            def call() -> None:
                try:
                    function()
                except BaseException as error:
                    failures.append(error)

            return call

        callers = [threading.Thread(target=noting(in_thread), daemon=True) for _ in range(THREADS)]
        loops = [noting(lambda: asyncio.run(tasks())) for _ in range(LOOPS)]
        callers.extend(threading.Thread(target=loop, daemon=True) for loop in loops)
        counting = threading.Thread(target=noting(count), daemon=True)
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            for thread in (*callers, counting):
                thread.start()
            for thread in callers:
                thread.join(SECONDS_MAX)
            is_over.set()
            counting.join(SECONDS_MAX)
        finally:
            sys.setswitchinterval(interval)
        assert not failures
        assert not any(thread.is_alive() for thread in callers)
        each = THREADS + LOOPS * TASKS
        assert session.run(["a/read:0", "b/read:0"]) == [each * ROUNDS, each * ROUNDS]
        assert sorted(taken) == sorted(float(number) for number in range(ROUNDS) for _ in range(each))
        assert all(0 <= number <= each for number in running)
        assert session.statistics().running_steps == 0
        assert own is not None
        other._portal = None
        own.close()
