"""A step in place that takes several slices, and events that may come between two of them."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
import flowengine.asyncio as asyncio_door
import flowengine.blocking as blocking_door
from flowengine.portal import Portal
from flowengine.resources.variable import Variable
from flowengine.runtime.in_place import attempt
from flowengine.runtime.in_place.attempt import UnfinishedStep
from flowengine.runtime.in_place.step import StepInPlace

COUNT = 60
TOTAL = sum(range(COUNT))


class Watched:
    """The portal's calls in a test: slices of steps that stay in place, and calls that go to the run.

    slices   how many slices came after the first of their step
    starts   how many calls were started in the run
    do       called between two slices, with the unfinished step
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.slices = self.starts = 0
        self.do: Callable[[UnfinishedStep], None] = lambda step: None
        go_on, start = Portal.go_on_in_place, Portal.start

        def noted(portal: Portal, step: UnfinishedStep, seconds: float, *, patience: float = 0.0) -> Any:
            self.slices += 1
            self.do(step)
            return go_on(portal, step, seconds, patience=patience)

        def started(portal: Portal, function: Callable[..., Any], **options: bool) -> Any:
            self.starts += 1
            return start(portal, function, **options)

        monkeypatch.setattr(Portal, "go_on_in_place", noted)
        monkeypatch.setattr(Portal, "start", started)

    def once(self, do: Callable[[UnfinishedStep], object]) -> None:
        """Have something done between the next two slices only."""

        def first(step: UnfinishedStep) -> None:
            self.do = lambda step: None
            do(step)

        self.do = first


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """Slices end at their first look at the clock, and steps stay in place however long they take."""
    monkeypatch.setattr(blocking_door, "SLICE_SECONDS", 1e-9)
    monkeypatch.setattr(asyncio_door, "BEGIN_SECONDS", 1e-9)
    monkeypatch.setattr(attempt, "STAY_SECONDS", 1e9)
    return Watched(monkeypatch)


def sums() -> fe.Graph:
    """`total`: the numbers below `count`. `add`: one is added to `ended` after the loop; `read` reads it."""
    graph = fe.Graph()
    count = graph.placeholder("int32", [], name="count")
    ended = graph.variable(0, name="ended")
    _, total = graph.while_loop(lambda i, t: i < count, lambda i, t: [i + 1, t + i], [0, 0])
    with graph.control_dependencies([total]):
        ended.assign_add(1, name="add")
    fe.identity(total, name="total")
    fe.identity(ended, name="read")
    return graph


def run(session: Any) -> Any:
    return session.run("total:0", {"count:0": COUNT}, targets=["add"])


def settle(session: Any, watched: Watched) -> None:
    """Run steps until one has stayed in place for several slices."""
    session.initialize()
    for _ in range(300):
        slices, starts = watched.slices, watched.starts
        assert run(session) == TOTAL
        if watched.slices > slices + 1 and watched.starts == starts:
            return
    raise AssertionError("no step took several slices in place")


def in_asyncio(watched: Watched, main: Callable[[fe.asyncio.Session], Coroutine[Any, Any, None]]) -> None:
    """Run `main` with a session whose steps take several slices in place."""

    async def settled() -> None:
        async with fe.asyncio.Session(sums()) as session:
            await session.initialize()
            for _ in range(300):
                slices, starts = watched.slices, watched.starts
                assert await run(session) == TOTAL
                if watched.slices > slices + 1 and watched.starts == starts:
                    break
            else:
                raise AssertionError("no step took several slices in place")
            await main(session)

    asyncio.run(settled())


def test_slices_of_a_blocking_step_cross_no_thread(watched: Watched) -> None:
    with fe.blocking.Session(sums()) as session:
        settle(session, watched)
        assert session.statistics().running_steps == 0
        ended = session.run("read:0")
        settle(session, watched)
        assert session.run("read:0") == ended + 1


def test_slices_of_an_asyncio_step_leave_others_their_turns(watched: Watched) -> None:
    async def main(session: fe.asyncio.Session) -> None:
        passes = 0
        step = asyncio.create_task(run(session))
        while not step.done():
            passes += 1
            await asyncio.sleep(0)
        assert await step == TOTAL
        assert passes > 2
        assert session.statistics().running_steps == 0

    in_asyncio(watched, main)


def test_the_run_has_the_rest_of_a_step_that_takes_long(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fe.blocking.Session(sums()) as session:
        settle(session, watched)
        monkeypatch.setattr(attempt, "STAY_SECONDS", 0.0)
        slices = watched.slices
        for _ in range(20):
            assert run(session) == TOTAL
        assert watched.slices == slices
        assert watched.starts > 20
        assert session.statistics().running_steps == 0


def test_the_run_has_the_rest_while_another_has_the_baton(watched: Watched) -> None:
    with fe.blocking.Session(sums()) as session:
        settle(session, watched)
        portal = session._portal
        assert portal is not None
        taken, released = threading.Event(), threading.Event()

        def hold() -> None:
            while not portal._baton.take(1.0):
                pass
            taken.set()
            released.wait()
            portal._baton.give()

        holder = threading.Thread(target=hold)

        def busy(step: UnfinishedStep) -> None:
            holder.start()
            taken.wait()

        start = portal.start

        def started(function: Callable[..., Any], **options: bool) -> Any:
            call = start(function, **options)
            released.set()
            return call

        portal.start = started  # type: ignore[method-assign]
        watched.once(busy)
        assert run(session) == TOTAL
        holder.join()
        assert taken.is_set()
        assert session.statistics().running_steps == 0


# -- ends between two slices ------------------------------------------------------------------------


def test_a_session_that_is_closed_between_slices_ends_the_step(watched: Watched) -> None:
    session = fe.blocking.Session(sums())
    settle(session, watched)
    watched.once(lambda step: session.close())
    with pytest.raises(fe.errors.CancelledError, match="closed"):
        run(session)
    assert session.statistics().running_steps == 0


def test_a_session_that_is_closing_between_slices_ends_the_step(watched: Watched) -> None:
    with fe.blocking.Session(sums()) as session:
        settle(session, watched)
        portal = session._portal
        assert portal is not None
        watched.once(lambda step: portal.call(session._session.close))
        with pytest.raises(fe.errors.CancelledError, match="closed"):
            run(session)
        assert session.statistics().running_steps == 0


def test_ctrl_c_after_a_slice_cancels_the_step(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with fe.blocking.Session(sums()) as session:
            settle(session, watched)
            ended = session.run("read:0")
            another = StepInPlace.run_another

            def interrupted(step: StepInPlace, ends: float) -> Any:
                given = another(step, ends)
                signal.raise_signal(signal.SIGINT)
                return given

            while session.run("read:0") == ended:  # a step whose portal is busy ends there
                with monkeypatch.context() as patched:
                    patched.setattr(StepInPlace, "run_another", interrupted)
                    try:
                        run(session)
                    except KeyboardInterrupt:
                        break
            assert session.statistics().running_steps == 0
            assert session.run("read:0") == ended
            assert run(session) == TOTAL
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_task_that_is_cancelled_between_slices_cancels_the_step(watched: Watched) -> None:
    async def main(session: fe.asyncio.Session) -> None:
        ended = await session.run("read:0")
        for _ in range(300):
            starts = watched.starts
            step = asyncio.create_task(run(session))
            await asyncio.sleep(0)  # it begins
            if session.statistics().running_steps and watched.starts == starts:
                step.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await step
                assert session.statistics().running_steps == 0
                assert await session.run("read:0") == ended
                return
            await step
            ended = await session.run("read:0")
        raise AssertionError("no step was between slices")

    in_asyncio(watched, main)


def test_a_coroutine_that_is_closed_between_slices_leaves_no_step(watched: Watched) -> None:
    async def main(session: fe.asyncio.Session) -> None:
        for _ in range(300):
            starts = watched.starts
            step = run(session)
            step.send(None)
            if watched.starts == starts and session.statistics().running_steps:
                step.close()
                await session.call(settled_run)
                assert session.statistics().running_steps == 0
                return
            step.close()
            await session.call(settled_run)
        raise AssertionError("no step was between slices")

    async def settled_run(session: fe.Session) -> None:
        while session.statistics().running_steps:
            await trio.lowlevel.checkpoint()

    in_asyncio(watched, main)


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("where", ["in place", "in the run"])
def test_an_error_of_the_rest_is_that_of_the_whole_in_the_run(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, devices: int, where: str
) -> None:
    graph = fe.Graph()
    count = graph.placeholder("int32", [], name="count")
    with graph.device("/cpu:0"):
        _, total = graph.while_loop(lambda i, t: i < count, lambda i, t: [i + 1, t + i], [0, 0])
        graph.ops.CheckNumerics(1.0 / fe.cast(total - TOTAL, "float32"), message="seen", name="y")
    messages: set[str] = set()
    config = fe.Config(device_count={"CPU": devices}, measure_costs=False)
    with fe.blocking.Session(graph, config=config) as session:
        for _ in range(10):
            session.run("y:0", {"count:0": COUNT + 1})
        if where == "in the run":
            monkeypatch.setattr(attempt, "STAY_SECONDS", 0.0)
        rests: list[UnfinishedStep] = []
        ran = UnfinishedStep._ran

        def noted(step: UnfinishedStep, spent: float) -> None:
            rests.append(step)
            ran(step, spent)

        monkeypatch.setattr(UnfinishedStep, "_ran", noted)
        while not rests:
            with pytest.raises(fe.errors.InvalidArgumentError) as caught:
                session.run("y:0", {"count:0": COUNT})
            messages.add(str(caught.value))
        with pytest.raises(fe.errors.InvalidArgumentError) as caught:
            session.run("y:0", {"count:0": COUNT}, options=fe.RunOptions(timeout_seconds=60))
        assert messages == {str(caught.value)}
        assert ("CPU:0" in str(caught.value)) == (devices > 1)
        assert session.statistics().running_steps == 0


def test_a_plan_of_late_slices_runs_elsewhere(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = 0.0

    def thread_time() -> float:
        nonlocal busy
        busy += 1.0
        return busy

    with fe.blocking.Session(sums()) as session:
        settle(session, watched)
        monkeypatch.setattr(attempt, "thread_time", thread_time)
        starts = watched.starts
        for _ in range(10):
            assert run(session) == TOTAL
        assert watched.starts > starts


# -- variables that a thread writes -----------------------------------------------------------------


def adds_and_fails() -> fe.Graph:
    """`add` adds to a variable; `y` fails where `x` is no number. They do not wait for each other."""
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [], name="x")
    variable = ops.VariableV2(dtype="float32", shape=[], name="v")
    ops.Assign(variable, np.float32(0), name="init")
    ops.AssignAdd(variable, x, name="add")
    ops.CheckNumerics(x, message="seen", name="y")
    return graph


def test_a_step_in_place_that_fails_waits_for_no_variable_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    config = fe.Config(compile_hot_plans=False)
    parked: list[StepInPlace] = []
    abandon = StepInPlace.abandon

    def noted(step: StepInPlace) -> None:
        parked.extend([step] if step.parked else [])
        abandon(step)

    with fe.blocking.Session(adds_and_fails(), config=config) as session:
        session.run([], targets=["init"])
        for _ in range(10):
            session.run("y:0", {"x:0": 1.0}, targets=["add"])
        (variable,) = session._session.resources.held(Variable)
        portal = session._portal
        assert portal is not None
        portal.call(trio.lowlevel.checkpoint)
        assert variable.acquire("somebody")
        monkeypatch.setattr(StepInPlace, "abandon", noted)
        while not parked:
            with pytest.raises(fe.errors.InvalidArgumentError, match="seen"):
                session.run("y:0", {"x:0": np.nan}, targets=["add"])
            assert not variable._parked
        portal.post(variable.release)
        assert session.run("y:0", {"x:0": 1.0}, targets=["add"]) == 1.0
        assert session.statistics().running_steps == 0


async def test_a_step_that_fails_waits_for_no_variable_any_more() -> None:
    async with fe.Session(adds_and_fails(), config=fe.Config(compile_hot_plans=False)) as session:
        await session.run([], targets=["init"])
        (variable,) = session.resources.held(Variable)
        assert variable.acquire("somebody")
        with pytest.raises(fe.errors.InvalidArgumentError, match="seen"):
            await session.run("y:0", {"x:0": np.nan}, targets=["add"])
        assert not variable._parked
        variable.release()


# -- state of one step ------------------------------------------------------------------------------


def test_arrays_and_stacks_of_a_step_and_assertions_stay_in_place() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [None], name="x")
    with graph.control_dependencies([graph.assert_that(x < 10.0, [x])]):
        sums = graph.scan(lambda total, each: fe.tanh(total + each), x, 0.0)
    fe.identity(fe.gradients(sums, [x])[0], name="dx")
    ops = {node.op for node in graph}
    assert {"Assert", "TensorArrayV3", "StackV2"} <= ops
    values = np.linspace(0, 1, 7, dtype=np.float32)
    with fe.blocking.Session(graph) as session:
        want = session.run("dx:0", {"x:0": values})
        portal = session._portal
        assert portal is not None
        start = portal.start
        for _ in range(300):
            started: list[object] = []

            def noted(function: Callable[..., Any], seen: list[object] = started, **options: bool) -> Any:
                seen.append(function)
                return start(function, **options)

            portal.start = noted  # type: ignore[method-assign]
            np.testing.assert_array_equal(session.run("dx:0", {"x:0": values}), want)
            if not started:
                break
        else:
            raise AssertionError("no step stayed in place")
        with pytest.raises(fe.errors.InvalidArgumentError, match="assertion failed"):
            session.run("dx:0", {"x:0": 20 * values})
        assert session.statistics().running_steps == 0
