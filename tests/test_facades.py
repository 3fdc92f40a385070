"""The façades for scripts, threads and asyncio programs."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

import flowengine as fe


def queued() -> fe.Graph:
    graph = fe.Graph()
    x = graph.placeholder("float32", [], name="x")
    graph.ops.Square(x, name="y")
    queue = graph.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], capacity=2, name="queue")
    graph.ops.QueueEnqueueV2(queue, [x], name="put")
    graph.ops.QueueDequeueV2(queue, component_types=["float32"], name="get")
    return graph


def test_blocking_calls_from_several_threads() -> None:
    with fe.blocking.Session(queued()) as session:
        assert session.run("y:0", {"x:0": 3.0}) == 9
        got: list[float] = []
        waiting = threading.Thread(target=lambda: got.append(session.run("get:0")))
        waiting.start()
        session.run("put", {"x:0": 7.0})
        waiting.join()
        assert got == [7]
        assert session.make_callable("y:0", ["x:0"])(4.0) == 16
        assert "y = Square(x:0)" in session.explain("y:0", ["x:0"])


def test_blocking_errors_and_closing() -> None:
    session = fe.blocking.Session(queued())
    with pytest.raises(fe.errors.NotFoundError):
        session.run("nothing:0")
    failures: list[BaseException] = []

    def wait() -> None:
        try:
            session.run("get:0")
        except fe.errors.OpError as error:
            failures.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not session._session._runner.running:  # until the step has begun
        threading.Event().wait(0.001)
    session.close()
    session.close()
    waiting.join()
    assert isinstance(failures[0], fe.errors.CancelledError)
    with pytest.raises(fe.errors.FailedPreconditionError, match="closed"):
        session.run("y:0", {"x:0": 1.0})


def test_asyncio_steps_and_their_cancellation() -> None:
    async def main() -> None:
        async with fe.asyncio.Session(queued()) as session:
            assert await session.run("y:0", {"x:0": 3.0}) == 9
            square = session.make_callable("y:0", ["x:0"])
            values = await asyncio.gather(*(square(np.float32(i)) for i in range(5)))
            assert values == [0, 1, 4, 9, 16]
            waiting = asyncio.create_task(session.run("get:0"))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await session.run("put", {"x:0": 5.0})
            assert await session.run("get:0") == 5  # the cancelled step took nothing
            with pytest.raises(fe.errors.InvalidArgumentError):
                await session.run("y:0", {"x:0": "text"})
        with pytest.raises(fe.errors.FailedPreconditionError):
            await session.run("y:0", {"x:0": 3.0})

    asyncio.run(main())
