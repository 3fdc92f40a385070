"""The façades for scripts, threads and asyncio programs."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.core import errors
from flowengine.devices.device import DeviceRegistry
from flowengine.devices.load import DEVICES
from flowengine.ir.graph import NodeGraph
from flowengine.kernels.load import load_all
from flowengine.ops.load import registry
from flowengine.passes.context import PassContext
from flowengine.portal import Portal, PortalCall
from flowengine.saved_model import loading


def queued() -> fe.Graph:
    graph = fe.Graph()
    x = graph.placeholder("float32", [], name="x")
    graph.ops.Square(x, name="y")
    queue = graph.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], capacity=2, name="queue")
    graph.ops.QueueEnqueueV2(queue, [x], name="put")
    graph.ops.QueueDequeueV2(queue, component_types=["float32"], name="get")
    return graph


def test_a_call_that_the_end_of_its_session_overtakes_is_told() -> None:
    """Another thread may have been about to call when one closed the session: nobody waits for ever."""
    portal = Portal()
    is_over, goes_on = threading.Event(), threading.Event()

    async def outlasts() -> None:
        with trio.CancelScope(shield=True):
            await trio.testing.wait_all_tasks_blocked()
            is_over.set()
            await trio.to_thread.run_sync(goes_on.wait)

    running = portal.start(trio.sleep_forever)
    portal.post(trio.lowlevel.spawn_system_task, outlasts)
    portal.post(portal._stop.set)
    assert is_over.wait(30)
    late = portal.start(trio.lowlevel.checkpoint)
    with pytest.raises(fe.errors.FailedPreconditionError, match="this session is closed"):
        late.future.result(30)
    with pytest.raises(fe.errors.CancelledError, match="was closed while this call was running"):
        running.future.result(30)
    goes_on.set()
    portal.close()
    with pytest.raises(fe.errors.FailedPreconditionError, match="this session is closed"):
        portal.start(trio.lowlevel.checkpoint)


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
        assert session.make_callable("y", ["x"])(4.0) == 16
        assert session.run("y", {"x": 3.0}) is None
        assert "y = Square(x:0)" in session.explain("y:0", ["x:0"])


def halving() -> tuple[fe.Graph, fe.KernelRegistry]:
    ops = fe.OpRegistry(parent=registry())
    ops.register(fe.OpDef.parse("Halve(x: T) -> y: T", "T: {float, double}"))
    kernels = fe.KernelRegistry(parent=load_all())
    kernels.kernel("Halve")(lambda x: x / 2)
    graph = fe.Graph(registry=ops)
    graph.ops["Halve"](graph.constant(3.0), name="half")
    return graph, kernels


def test_facades_take_kernels_devices_and_a_placer() -> None:
    graph, kernels = halving()
    devices = DeviceRegistry(parent=DEVICES)
    asked: list[str] = []

    def place(placed: NodeGraph, context: PassContext) -> dict[str, str]:
        asked.extend(node.name for node in placed)
        return {node.name: "/job:localhost/replica:0/task:0/device:CPU:1" for node in placed}

    config = fe.Config(device_count={"CPU": 2})
    with fe.blocking.Session(graph, config=config, kernels=kernels, devices=devices, placer=place) as session:
        assert session.run("half:0") == 1.5
    assert asked

    async def main() -> None:
        async with fe.asyncio.Session(
            graph, config=config, kernels=kernels, devices=devices, placer=place
        ) as session:
            assert await session.run("half:0") == 1.5

    asyncio.run(main())


@pytest.mark.parametrize("run", [trio.run, lambda main: asyncio.run(main())], ids=["trio", "asyncio"])
def test_a_session_for_either_event_loop(run: Callable[..., Any]) -> None:
    async def main() -> None:
        session = fe.anyio.Session(queued())
        with pytest.raises(fe.errors.FailedPreconditionError, match="not open"):
            await session.run("y:0", {"x": 3.0})
        async with session:
            assert await session.run("y:0", {"x": 3.0}) == 9
            assert await session.make_callable("y", ["x"])(4.0) == 16
            assert "y = Square(x:0)" in session.explain("y:0", ["x:0"])

            async def initialize(inner: fe.Session, value: float) -> Any:
                return await inner.run("y:0", {"x": value})

            assert await session.call(initialize, 2.0) == 4
            assert len(session.graph) > 3
        with pytest.raises(fe.errors.FailedPreconditionError, match="closed"):
            await session.run("y:0", {"x": 3.0})

    run(main)


def test_a_trio_session_elsewhere_names_those_for_there() -> None:
    async def main() -> None:
        session = fe.Session(queued())
        with pytest.raises(
            fe.errors.FailedPreconditionError, match=r"fe\.asyncio\.Session.*fe\.anyio\.Session"
        ):
            await session.run("y:0", {"x": 3.0})
        await session.close()

    asyncio.run(main())


@pytest.mark.parametrize("make", [fe.blocking.Session, fe.asyncio.Session])
def test_a_session_left_open_is_told(make: Callable[..., Any]) -> None:
    def leave_open() -> None:
        make(queued())
        gc.collect()

    with pytest.warns(ResourceWarning, match=r"Session of <Graph of .* was not closed"):
        leave_open()


_LEFT_OPEN = """
import os
import flowengine as fe


class Asked:
    def run_sync_soon(self, *args, write=os.write):
        write(1, b"asked")


def left_open():
    session = fe.blocking.Session(fe.Graph())
    session._portal._token = Asked()
    session._session.circle = session


left_open()
"""


def test_a_session_that_is_open_when_the_interpreter_ends_asks_nothing_of_its_thread() -> None:
    """The thread stands still by then, perhaps with the lock of what it would be asked by: a program that
    had ended went on waiting for that, now and then."""
    command = [sys.executable, "-c", _LEFT_OPEN]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.parametrize("make", [fe.Session, fe.anyio.Session])
@pytest.mark.parametrize("devices", [1, 2])
def test_a_trio_session_that_ran_and_was_left_open_is_told(make: Callable[..., Any], devices: int) -> None:
    async def leave_open() -> None:
        session = make(queued(), config=fe.Config(device_count={"CPU": devices}))
        if isinstance(session, fe.anyio.Session):
            await session.__aenter__()
        assert await session.make_callable("y", ["x"])(3.0) == 9

    def forget() -> None:
        trio.run(leave_open)
        gc.collect()

    with pytest.warns(ResourceWarning, match=r"flowengine\.Session of <Graph of .*, open> was not closed"):
        forget()


@pytest.mark.filterwarnings("error")
def test_no_session_is_told_that_holds_nothing_or_was_closed() -> None:
    """Warnings are errors here: one that was raised while something is collected fails the test."""
    fe.Session(queued()).explain("y:0", ["x:0"])
    with pytest.raises(fe.errors.InvalidArgumentError):
        fe.Session(queued(), config=fe.Config(file_access="perhaps"))
    with pytest.raises(fe.errors.InvalidArgumentError):
        fe.blocking.Session(queued(), target="nowhere://x")

    async def closed_in_every_way() -> None:
        async with fe.Session(queued()) as session:
            await session.run("y:0", {"x": 3.0})
        session = fe.Session(queued())
        await session.run("y:0", {"x": 3.0})
        await session.close()
        with pytest.raises(ZeroDivisionError):
            async with fe.Session(queued()) as session:
                await session.run("y:0", {"x": 3.0 / 0})
        with trio.move_on_after(0) as scope:
            async with fe.Session(queued()) as session:
                await session.run("get:0")
        assert scope.cancelled_caught

    trio.run(closed_in_every_way)
    with fe.blocking.Session(queued()) as session:
        session.run("y:0", {"x": 3.0})
    del session
    gc.collect()


def test_a_session_is_seen_in_a_notebook() -> None:
    graph = fe.Graph()
    with graph.name_scope("deep"):
        graph.ops.Square(graph.placeholder("float32", [], name="x"), name="y")
    with fe.blocking.Session(graph, config=fe.Config(device_count={"CPU": 2})) as session:
        shown = session._repr_html_()
        assert "flowengine.blocking.Session" in shown
        assert '<td style="text-align: left">open</td>' in shown
        assert "device:CPU:1" in shown
        assert "<b>deep</b>" in shown
        plan: Any = session.explain("deep/y:0", ["deep/x:0"])
        assert repr(plan) == str(plan)
        assert plan._repr_html_().startswith("<pre")
        assert "Square" in plan._repr_html_()
        metadata = fe.RunMetadata()
        session.run("deep/y:0", {"deep/x": 3.0}, run_metadata=metadata)
        assert '<th style="text-align: left">wall_seconds</th>' in metadata._repr_html_()
    assert ">closed</td>" in session._repr_html_()
    assert ">not entered</td>" in fe.anyio.Session(graph)._repr_html_()
    assert "x:0" in graph.operation("deep/y")._repr_html_()


def test_what_a_notebook_shows_is_escaped() -> None:
    graph = fe.Graph()
    graph.placeholder("float32", [], name="x")
    config = fe.Config(place={"<script>": "CPU"})
    session = fe.Session(graph, config=config)
    assert "<script>" not in session._repr_html_()
    assert "&lt;script&gt;" in session._repr_html_()


def test_a_cancelled_step_is_waited_for_however_often_it_is_cancelled() -> None:
    async def main() -> None:
        async with fe.asyncio.Session(queued()) as session:
            waiting = asyncio.create_task(session.run("get:0"))

            def until_begun() -> None:
                while not session._session._runner.running:
                    threading.Event().wait(0.001)

            await asyncio.to_thread(until_begun)
            for _ in range(5):
                waiting.cancel()
                await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert not session._session._runner.running

    asyncio.run(main())


def test_tasks_may_close_one_session_at_a_time() -> None:
    g = fe.Graph()
    y = g.ops.Neg(g.placeholder("float32", [], name="x"))

    async def main() -> None:
        session = fe.asyncio.Session(g)
        assert await session.run(y, {"x:0": 1.0}) == -1.0
        assert await asyncio.gather(*[session.close() for _ in range(3)]) == [None] * 3
        with pytest.raises(errors.FailedPreconditionError, match="closed"):
            await session.run(y, {"x:0": 1.0})

    asyncio.run(main())


def test_a_model_whose_loading_is_cancelled_leaves_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [None], name="x")
    path = str(tmp_path / "model")
    with fe.blocking.Session(g) as session:
        session.call(fe.saved_model.save, path, signatures={"double": ({"x": x}, {"y": x + x})})
    before = set(threading.enumerate())
    begun = threading.Event()

    async def hold(session: fe.Session, saved: Any) -> Any:
        begun.set()
        await trio.sleep_forever()

    monkeypatch.setattr(loading, "restored", hold)

    async def main() -> None:
        task = asyncio.create_task(fe.asyncio.load_saved_model(path))
        await asyncio.to_thread(begun.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    left = set(threading.enumerate()) - before
    assert not [each.name for each in left if each.name == "flowengine portal"]


def test_a_callable_checks_its_values_wherever_its_step_runs() -> None:
    g = fe.Graph()
    y = g.ops.Neg(g.placeholder("float32", [2], name="x"))
    config = fe.Config(compile_hot_plans=False)  # the plan has its form at once: the steps run in place
    with fe.blocking.Session(g, config=config) as session:
        negate = session.make_callable(y, feeds=["x:0"])
        for _ in range(3):
            assert negate([1.0, 2.0]).tolist() == [-1.0, -2.0]
        for values in ((), ([1.0, 2.0], 3.0)):
            with pytest.raises(errors.InvalidArgumentError, match=f"takes 1 values, not {len(values)}"):
                negate(*values)
        assert negate([1.0, 2.0]).tolist() == [-1.0, -2.0]


def test_an_interrupted_wait_comes_back_when_its_call_has_ended() -> None:
    portal = Portal()
    began, may_end = threading.Event(), threading.Event()

    async def hold() -> None:
        try:
            began.set()
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(may_end.wait)

    class Waited(Future[Any]):
        """An interrupt comes while its result is awaited."""

        def result(self, timeout: float | None = None) -> Any:
            assert began.wait(30)
            raise KeyboardInterrupt

        def exception(self, timeout: float | None = None) -> BaseException | None:
            may_end.set()
            return super().exception(timeout)

    call = PortalCall(portal)
    call.future = Waited()
    portal.post(portal._begin, call, hold)
    try:
        with pytest.raises(KeyboardInterrupt):
            portal.wait(call)
        assert call.future.done()
    finally:
        may_end.set()
        portal.close()


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
