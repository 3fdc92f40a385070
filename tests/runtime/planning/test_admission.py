"""How many steps of a session run, and how many wait."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

import flowengine as fe
from flowengine.runtime.planning.admission import StepAdmission


def _waiting_graph() -> fe.Graph:
    """`get` waits for what `put` brings."""
    g = fe.Graph()
    queue = g.ops.FIFOQueueV2(component_types=["int32"], capacity=-1, name="queue")
    g.ops.QueueEnqueueV2(queue, [g.placeholder("int32", [], name="x")], name="put")
    g.ops.QueueDequeueV2(queue, component_types=["int32"], name="get")
    return g


async def test_more_than_may_run_wait_in_order_and_more_than_may_wait_are_refused() -> None:
    g = _waiting_graph()
    got: list[tuple[int, int]] = []
    async with fe.Session(g, config=fe.Config(max_steps=2, max_waiting_steps=2)) as session:
        other = fe.Session(g, resources=session.resources)

        async def step(number: int) -> None:
            got.append((number, int(await session.run("get:0"))))

        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(step, number)
                await wait_all_tasks_blocked()
            statistics = session.statistics()
            assert (statistics.running_steps, statistics.waiting_steps, statistics.refused) == (2, 2, 0)
            with pytest.raises(fe.errors.ResourceExhaustedError, match="max_steps=2, max_waiting_steps=2"):
                await session.run("get:0")
            call = session.make_callable("get")
            with pytest.raises(fe.errors.ResourceExhaustedError):
                await call()
            assert session.statistics().refused == 2
            for value in range(4):
                await other.run("put", {"x:0": value})
                await wait_all_tasks_blocked()
        assert got == [(number, number) for number in range(4)]
        assert (session.statistics().running_steps, session.statistics().waiting_steps) == (0, 0)
        await other.close()


async def test_waiting_counts_against_the_timeout_and_may_be_cancelled(autojump_clock: Any) -> None:
    async with fe.Session(_waiting_graph(), config=fe.Config(max_steps=1, worker_threads=False)) as session:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.run, "get:0")
            await wait_all_tasks_blocked()
            with pytest.raises(fe.errors.DeadlineExceededError, match=r"within 3 s"):
                await session.run("get:0", options=fe.RunOptions(timeout_seconds=3))
            with trio.move_on_after(1) as scope:
                await session.run("get:0")
            assert scope.cancelled_caught
            assert session.statistics().waiting_steps == 0
            nursery.cancel_scope.cancel()
        assert session.statistics().running_steps == 0
        began = trio.current_time()
        async with trio.open_nursery() as nursery:

            async def first() -> None:
                with trio.move_on_after(2):
                    await session.run("get:0")

            nursery.start_soon(first)
            await wait_all_tasks_blocked()
            with pytest.raises(fe.errors.DeadlineExceededError):
                await session.run("get:0", options=fe.RunOptions(timeout_seconds=5))
            assert trio.current_time() - began == pytest.approx(5), "waiting and running together"


async def test_a_turn_that_comes_when_the_time_is_over_is_given_back(
    mock_clock: trio.testing.MockClock,
) -> None:
    """A task that was woken is no longer cancelled, however late it is when it goes on."""
    door = StepAdmission(1, None)
    await door.enter(None)
    async with trio.open_nursery() as nursery:

        async def late() -> None:
            with pytest.raises(fe.errors.DeadlineExceededError, match="within 3 s"):
                await door.enter(fe.RunOptions(timeout_seconds=3))

        nursery.start_soon(late)
        await wait_all_tasks_blocked()
        door.leave()
        mock_clock.jump(3)
    assert (door.running, door.waiting) == (0, 0)


async def _overtaken(session: fe.Session) -> None:
    """A step that its session's close ends, wherever it waits."""
    with pytest.raises(fe.errors.CancelledError, match="was closed"):
        await session.run("get:0")


async def test_who_waits_is_told_that_the_session_was_closed() -> None:
    session = fe.Session(_waiting_graph(), config=fe.Config(max_steps=1))
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(_overtaken, session)
        await wait_all_tasks_blocked()
        await session.close()


async def test_a_session_that_was_closed_keeps_no_step_waiting_behind_those_that_still_end() -> None:
    session = fe.Session(_waiting_graph(), config=fe.Config(max_steps=1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_overtaken, session)
        await wait_all_tasks_blocked()
        await session.close()
        assert session.statistics().running_steps == 1, "it has yet to see that it was cancelled"
        call = session.make_callable("get")
        for _ in range(3):
            with trio.fail_after(5):
                with pytest.raises(fe.errors.FailedPreconditionError, match="is closed"):
                    await session.run("get:0")
                with pytest.raises(fe.errors.FailedPreconditionError, match="is closed"):
                    await call()
    assert session.statistics().running_steps == 0


class _Steps:
    """Steps at one door: each enters, and is inside until it is told to leave."""

    def __init__(self, door: StepAdmission, nursery: trio.Nursery) -> None:
        self.door = door
        self.nursery = nursery
        self.scopes: list[trio.CancelScope] = []
        self.ends: list[trio.Event] = []
        #: By number, in the order in which they were at the door, and in which they came in.
        self.arrived: list[int] = []
        self.came: list[int] = []
        self.inside: set[int] = set()
        self.told: dict[int, str] = {}

    def begin(self) -> None:
        number = len(self.scopes)
        self.scopes.append(trio.CancelScope())
        self.ends.append(trio.Event())
        self.nursery.start_soon(self._step, number)

    async def _step(self, number: int) -> None:
        with self.scopes[number]:
            self.arrived.append(number)
            try:
                await self.door.enter(None)
            except (fe.errors.CancelledError, fe.errors.FailedPreconditionError) as error:
                self.told[number] = error.message
                return
            self.came.append(number)
            self.inside.add(number)
            try:
                await self.ends[number].wait()
            finally:
                self.inside.remove(number)
                self.door.leave()


_actions = st.one_of(
    st.tuples(st.sampled_from(["begin", "settle", "settle", "close"]), st.just(0)),
    st.tuples(st.sampled_from(["end", "cancel"]), st.integers(0, 5)),
)


@given(most=st.integers(1, 2), actions=st.lists(_actions, max_size=25))
def test_no_place_is_lost_whatever_happens_at_one_moment(most: int, actions: list[tuple[str, int]]) -> None:
    """Between two `settle` nobody has a turn: one is given a place, cancelled and told of the end at once."""

    async def main() -> None:
        door = StepAdmission(most, None)
        is_closed = False
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                steps = _Steps(door, nursery)
                for what, number in [*actions, ("settle", 0)]:
                    if what == "begin":
                        steps.begin()
                    elif what == "close":
                        door.close()
                        is_closed = True
                    elif what == "settle":
                        await wait_all_tasks_blocked()
                        assert door.running == len(steps.inside) <= most
                        assert not door.waiting or (door.running == most and not is_closed)
                        known = {*steps.came, *steps.told}
                        unknown = set(range(len(steps.scopes))) - known
                        assert door.waiting == sum(not steps.scopes[each].cancel_called for each in unknown)
                    elif number < len(steps.scopes):
                        if what == "end":
                            steps.ends[number].set()
                        else:
                            steps.scopes[number].cancel()
                nursery.cancel_scope.cancel()
        assert (door.running, door.waiting) == (0, 0)
        assert steps.came == [number for number in steps.arrived if number in steps.came]

    trio.run(main)


def test_a_line_needs_an_end_of_the_steps_before_it() -> None:
    with pytest.raises(fe.errors.InvalidArgumentError, match="max_waiting_steps needs max_steps"):
        fe.Session(fe.Graph(), config=fe.Config(max_waiting_steps=3))
    with pytest.raises(fe.errors.InvalidArgumentError, match="is 0: it must be a positive whole number"):
        fe.Config(max_steps=0)
    with pytest.raises(fe.errors.InvalidArgumentError, match="is 0: it must be a positive whole number"):
        fe.Config(session_memory_bytes=0)


def test_statistics_of_a_blocking_session() -> None:
    g = fe.Graph()
    g.ops.Neg(g.placeholder("float32", [], name="y"), name="x")
    with fe.blocking.Session(g, config=fe.Config(count_allocations=True)) as session:
        session.run("x:0", {"y:0": 1.0})
        statistics = session.statistics()
        assert statistics.plans == 1
        assert statistics.limit_bytes is None
        assert (statistics.used_bytes or 0) > 0
    with fe.blocking.Session(g) as session:
        assert session.statistics().used_bytes is None, "nobody counts"
