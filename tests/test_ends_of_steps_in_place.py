"""Errors, interrupts and closing beside steps that run in the thread that calls a façade."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.portal import Portal
from flowengine.runtime.in_place.attempt import ELSEWHERE
from tests.steps_in_place import ADD, INIT, SETTLED, counters, in_place, squares


def test_errors_are_those_of_the_portal() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", None, name="x")
    graph.ops.CheckNumerics(x, message="seen", name="y")
    messages = set()
    with fe.blocking.Session(graph) as session:
        for _ in range(SETTLED):
            session.run("y:0", {"x:0": 1.0})
        for options in (None, fe.RunOptions(timeout_seconds=60)):
            with pytest.raises(fe.errors.InvalidArgumentError) as caught:
                session.run("y:0", {"x:0": float("nan")}, options=options)
            messages.add(str(caught.value))
            with pytest.raises(fe.errors.InvalidArgumentError):
                session.run("y:0", {"x:0": "text"}, options=options)
        assert session.statistics().running_steps == 0
    assert len(messages) == 1
    with pytest.raises(fe.errors.FailedPreconditionError, match="closed"):
        session.run("y:0", {"x:0": 1.0})


def test_who_waits_for_the_end_of_steps_hears_of_one_in_place() -> None:
    heard: list[bool] = []
    with fe.blocking.Session(squares()) as session:
        session._session._runner.ended.append(lambda: heard.append(True))

        def step() -> Any:
            heard.clear()
            return session.run("y:0", {"x:0": 3.0})

        for _ in range(SETTLED):
            step()
        assert in_place(session, step) == 9
        assert heard == [True]


class Interrupts:
    """A feed: Ctrl-C comes while the step reads it."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        signal.raise_signal(signal.SIGINT)
        return np.array(1, np.float32)


def test_ctrl_c_in_a_step_in_place_comes_after_it() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with fe.blocking.Session(counters()) as session:
            session.run([], targets=INIT)
            for _ in range(SETTLED):
                session.run([], {"by:0": 1.0}, targets=ADD)
            in_place(session, lambda: session.run([], {"by:0": 0.0}, targets=ADD))
            with pytest.raises(KeyboardInterrupt):
                session.run([], {"by:0": Interrupts()}, targets=ADD)
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
            assert session.run("a/read:0") == session.run("b/read:0") == SETTLED + 1
    finally:
        signal.signal(signal.SIGINT, before)


INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
import flowengine as fe
sys.path.insert(0, {root!r})
from tests.steps_in_place import ADD, INIT, counters
signal.signal(signal.SIGINT, signal.default_int_handler)
done = threading.Event()
wants = threading.Semaphore(0)
def send():
    rng = np.random.default_rng(1)
    while True:
        wants.acquire()
        if done.is_set():
            return
        done.wait(rng.random() * 3e-4)
        os.kill(os.getpid(), signal.SIGINT)
sender = threading.Thread(target=send)
sender.start()
with fe.blocking.Session(counters()) as session:
    session.run([], targets=INIT)
    for _ in range(10):
        session.run([], {{"by:0": 1.0}}, targets=ADD)
    came = 0
    while came < 150:
        try:
            wants.release()
            while True:
                session.run([], {{"by:0": 1.0}}, targets=ADD)
        except KeyboardInterrupt:
            came += 1
        a, b = session.run("a/read:0"), session.run("b/read:0")
        assert a == b, (a, b)
    done.set()
    wants.release()
sender.join()
print("whole")
"""


def test_ctrl_c_at_any_moment_leaves_both_writes_or_none() -> None:
    from pathlib import Path

    program = INTERRUPTED.format(root=str(Path(__file__).resolve().parent.parent))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "whole", done.stderr[-3000:]


class Nested:
    """A feed that uses the session which reads it."""

    def __init__(self, session: Any) -> None:
        self.session = session

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.session.run("y:0", {"x:0": 1.0}))


def test_a_feed_that_uses_its_own_session_is_refused() -> None:
    with fe.blocking.Session(squares()) as session:
        for _ in range(SETTLED):
            session.run("y:0", {"x:0": 2.0})
        with pytest.raises(fe.errors.OpError, match="used while it runs a step in this thread"):
            session.run("y:0", {"x:0": Nested(session)})
        assert session.run("y:0", {"x:0": 3.0}) == 9


def test_a_step_in_place_sees_nothing_of_its_callers_context() -> None:
    portal = Portal()
    try:
        with np.errstate(all="raise"):
            outcome: Any = ELSEWHERE
            while outcome is ELSEWHERE:
                outcome = portal.try_in_place(lambda token, seconds: np.geterr(), 1.0)
        assert "raise" not in outcome.values()
    finally:
        portal.close()
    assert portal.try_in_place(lambda token, seconds: 1, 1.0) is ELSEWHERE


def test_a_cancelled_task_goes_the_portals_way() -> None:
    async def main() -> None:
        async with fe.asyncio.Session(squares()) as session:
            for _ in range(SETTLED):
                await session.run("y:0", {"x:0": 2.0})
            task = asyncio.current_task()
            assert task is not None
            for _ in range(20):  # in some of which the portal is idle, and the loop has time left
                await asyncio.sleep(0)
                await session.run("y:0", {"x:0": 2.0})
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await session.run("y:0", {"x:0": 2.0})
                task.uncancel()

            async def forever() -> None:
                while True:
                    await session.run("y:0", {"x:0": 2.0})

            with pytest.raises(TimeoutError):
                await asyncio.wait_for(forever(), 0.01)
            assert await session.run("y:0", {"x:0": 2.0}) == 4

    asyncio.run(main())


def test_closing_beside_steps_in_place() -> None:
    session = fe.blocking.Session(squares())
    for _ in range(SETTLED):
        session.run("y:0", {"x:0": 2.0})
    ends: list[BaseException] = []
    begun = threading.Barrier(4)

    def run() -> None:
        begun.wait()
        try:
            while True:
                assert session.run("y:0", {"x:0": 2.0}) == 4
        except fe.errors.OpError as error:
            ends.append(error)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    begun.wait()
    session.close()
    for thread in threads:
        thread.join(60)
    assert len(ends) == 3
