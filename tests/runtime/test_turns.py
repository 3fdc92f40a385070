"""Turns in a trio run whose tasks come in drawn orders, on a clock that only work moves.

A step of these tests is a list of what it does, one thing after another: it works for so long, a kernel at a
time, or sleeps until something from outside wakes it. Some are tasks, as a caller of `run` is; some have none
and are called where something arrives, as by the inbox or by the reader of a peer's connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.runtime import ready_loop, turn_queue
from flowengine.runtime.turn_queue import PLACE_SECONDS, SLICE_SECONDS, Ticket
from flowengine.runtime.turns import QUIET_PASSES_MAX, Turns, current_turns
from flowengine.testing.simulation.chance import seeded
from tests.effort import examples

KERNEL_SECONDS = 0.0002
#: Sleep until the source of wake-ups says so; any number is work.
SLEEP = -1
#: Kernels that follow one another, with a sleep between two such runs.
deeds = st.lists(st.integers(1, 60), min_size=1, max_size=3).map(
    lambda runs: [deed for run in runs for deed in (SLEEP, run)][1:]
)
seeds = st.integers(0, 1 << 30)


class Passes(trio.abc.Instrument):
    """A record of the seconds of work in each pass: at most one slice and the kernel that outlasts it."""

    def __init__(self) -> None:
        self.number = 0
        #: {pass: seconds of work}
        self.work: dict[int, float] = {}
        self.log: list[int] = []

    def after_io_wait(self, timeout: float) -> None:
        self.number += 1

    def worked(self, who: int) -> None:
        self.work[self.number] = self.work.get(self.number, 0.0) + KERNEL_SECONDS
        if not self.log or self.log[-1] != who:
            self.log.append(who)


class World:
    """Some steps, what wakes them, and a host that only looks how long it has to wait."""

    def __init__(self, clock: trio.testing.MockClock) -> None:
        self.clock = clock
        self.passes = Passes()
        self.turns: Turns = current_turns()
        #: Steps that sleep: their wake-up.
        self.sleeping: list[Callable[[], None]] = []
        self.left = 0
        self.waited_longest = 0.0
        self.inside = False

    def kernel(self, who: int) -> None:
        assert not self.inside, "a turn is not held across an await"
        self.clock.jump(KERNEL_SECONDS)
        self.passes.worked(who)

    def work(self, who: int, kernels: int) -> int:
        """Run kernels until the slice is spent, one at least; how many are left."""
        while kernels:
            self.kernel(who)
            kernels -= 1
            if trio.current_time() > self.turns.line.ends:
                break
        return kernels

    async def step(self, who: int, program: Sequence[int]) -> None:
        """A step with a task of its own."""
        turns = self.turns
        ticket: Ticket | None = None
        try:
            if trio.current_time() < turns.line.begins_until:
                await trio.lowlevel.checkpoint_if_cancelled()
            else:
                ticket = await turns.begin()
            for deed in program:
                if deed == SLEEP:
                    ticket = ticket or turns.new_ticket()
                    turns.stop(ticket)
                    event = trio.Event()
                    self.sleeping.append(event.set)
                    await event.wait()
                    await turns.arrive(ticket)
                    continue
                left = self.work(who, deed)
                while left:
                    ticket = ticket or turns.new_ticket()
                    await turns.pause(ticket)
                    left = self.work(who, left)
        finally:
            if ticket is not None:
                turns.end(ticket)
            self.left -= 1

    def taskless(self, who: int, program: Sequence[int]) -> Callable[[], None]:
        """A step without a task; to be called where something has come for it. What gives it up."""
        turns, deeds = self.turns, list(program)
        ticket: Ticket | None = None
        is_over = False

        def came() -> None:
            if not is_over:
                if trio.current_time() < turns.line.serves_until or turns.serves():
                    go()
                else:
                    stand()

        def stand() -> None:
            nonlocal ticket
            ticket = Ticket()
            turns.defer(ticket, go)

        def go() -> None:
            nonlocal ticket
            ticket = None
            while deeds:
                deed = deeds.pop(0)
                if deed == SLEEP:
                    self.sleeping.append(came)
                    return
                left = self.work(who, deed)
                if left:
                    deeds.insert(0, left)
                    stand()
                    return
            end()

        def end() -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                self.left -= 1

        def give_up() -> None:
            if ticket is not None:
                turns.withdraw(ticket)
            end()

        came()
        return give_up

    async def wake_sleepers(self) -> None:
        """The inbox and the readers: each pass, whatever has come."""
        while self.left:
            sleeping, self.sleeping = self.sleeping, []
            for wake in sleeping:
                wake()
            await trio.lowlevel.checkpoint()

    async def be_host(self) -> None:
        while self.left:
            before = trio.current_time()
            await trio.lowlevel.checkpoint()
            self.waited_longest = max(self.waited_longest, trio.current_time() - before)


def play(
    seed: int,
    programs: Sequence[Sequence[int]],
    without_task: Sequence[Sequence[int]] = (),
    *,
    cancelled: Sequence[tuple[int, int]] = (),
    timeouts: Sequence[float] = (),
) -> World:
    """Run all to their ends, in an order of tasks that the seed draws.

    cancelled   (step, pass in which it is given up)
    timeouts    of the first steps with tasks, in seconds
    """
    clock = trio.testing.MockClock()
    worlds: list[World] = []

    async def main() -> None:
        world = World(clock)
        worlds.append(world)
        world.left = len(programs) + len(without_task)
        trio.lowlevel.add_instrument(world.passes)
        scopes = [trio.CancelScope() for _ in programs]
        for scope, seconds in zip(scopes, timeouts, strict=False):
            scope.deadline = trio.current_time() + seconds

        async def run(who: int, program: Sequence[int]) -> None:
            with scopes[who]:
                await world.step(who, program)

        async with trio.open_nursery() as nursery:
            for who, program in enumerate(programs):
                nursery.start_soon(run, who, program)
            nursery.start_soon(world.wake_sleepers)
            nursery.start_soon(world.be_host)
            await trio.lowlevel.checkpoint()
            begun = enumerate(without_task, len(programs))
            gives_up: list[Callable[[], None]] = [scope.cancel for scope in scopes]
            gives_up += [world.taskless(who, program) for who, program in begun]
            for who, when in sorted(cancelled, key=lambda each: each[1]):
                while world.passes.number < when and world.left:
                    await trio.lowlevel.checkpoint()
                gives_up[who % len(gives_up)]()
        turns = world.turns
        assert turns.line.is_quiet, "nobody stands in line any more"
        assert not turns._tickets

    with seeded(seed):
        trio.run(main, clock=clock)
    return worlds[0]


#: A kernel may outlast its slice, and whoever has a turn runs one, however late.
PASS_SECONDS_MAX = SLICE_SECONDS + 2 * KERNEL_SECONDS


@settings(max_examples=examples(60))
@given(
    seed=seeds,
    programs=st.lists(deeds, min_size=1, max_size=6),
    without_task=st.lists(deeds, max_size=4),
)
def test_all_steps_end_and_a_pass_has_one_slice(
    seed: int, programs: list[list[int]], without_task: list[list[int]]
) -> None:
    world = play(seed, programs, without_task)
    done = sum(deed for program in (*programs, *without_task) for deed in program if deed != SLEEP)
    assert sum(world.passes.work.values()) == pytest.approx(done * KERNEL_SECONDS)
    assert max(world.passes.work.values(), default=0.0) < PASS_SECONDS_MAX
    assert world.waited_longest < 2 * PASS_SECONDS_MAX, "the host has its turn after two slices at most"


@settings(max_examples=examples(60))
@given(
    seed=seeds,
    programs=st.lists(deeds, min_size=1, max_size=5),
    without_task=st.lists(deeds, max_size=3),
    cancelled=st.lists(st.tuples(st.integers(0, 7), st.integers(1, 60)), max_size=6),
    timeouts=st.lists(st.floats(0.0, 0.05), max_size=3),
)
def test_whoever_is_given_up_leaves_the_others_their_turns(
    seed: int,
    programs: list[list[int]],
    without_task: list[list[int]],
    cancelled: list[tuple[int, int]],
    timeouts: list[float],
) -> None:
    world = play(seed, programs, without_task, cancelled=cancelled, timeouts=timeouts)
    assert max(world.passes.work.values(), default=0.0) < PASS_SECONDS_MAX
    assert world.waited_longest < 2 * PASS_SECONDS_MAX


@given(seed=seeds)
def test_short_steps_end_one_after_another(seed: int) -> None:
    """Once all stand in line, each step of 3 ms ends before the one after the next begins."""
    world = play(seed, [[15]] * 12)
    order: list[int] = []
    for who in world.passes.log:
        if who in order:
            assert who in order[-2:]
        else:
            order.append(who)
    assert len(order) == 12


@given(seed=seeds, others=st.integers(1, 6))
def test_a_long_step_lets_the_others_pass(seed: int, others: int) -> None:
    """One of 200 ms is not waited for longer than its place is kept."""
    world = play(seed, [[1000], *([[5]] * others)])
    log = world.passes.log
    last = max(index for index, who in enumerate(log) if who)
    before = sum(who == 0 for who in log[:last])
    assert before <= 2 * round(PLACE_SECONDS / SLICE_SECONDS) + others


def test_one_step_alone_is_not_marked() -> None:
    """It stands in no line, and nothing of this is installed for it."""
    clock = trio.testing.MockClock()

    async def main() -> None:
        world = World(clock)
        world.left = 1
        trio.lowlevel.add_instrument(world.passes)
        await world.step(0, [100, 3, 40])
        assert not world.turns._is_marked
        assert world.turns._deputy is None
        assert max(world.passes.work.values()) < PASS_SECONDS_MAX

    with seeded(1):
        trio.run(main, clock=clock)


def test_marks_go_once_it_is_quiet() -> None:
    clock = trio.testing.MockClock()

    async def main() -> None:
        world = World(clock)
        world.left = 2
        async with trio.open_nursery() as nursery:
            for who in range(2):
                nursery.start_soon(world.step, who, [60])
        assert world.turns._is_marked
        for _ in range(QUIET_PASSES_MAX + 3):
            await trio.lowlevel.checkpoint()
        assert not world.turns._is_marked

    with seeded(4):
        trio.run(main, clock=clock)


def test_a_mark_that_was_removed_is_put_back() -> None:
    """Whoever removes an instrument of ours from the run takes nobody's turn away."""
    clock = trio.testing.MockClock()

    async def main() -> None:
        world = World(clock)
        world.left = 3
        async with trio.open_nursery() as nursery:
            for who in range(3):
                nursery.start_soon(world.step, who, [60])
            while not world.turns._is_marked:
                await trio.lowlevel.checkpoint()
            trio.lowlevel.remove_instrument(world.turns._mark)
        assert not world.left

    with seeded(2):
        trio.run(main, clock=clock)


def test_interrupted_at_the_end_of_a_run() -> None:
    """A system task may still run steps when the run ends, and the line's own task is gone by then."""
    ended: list[int] = []

    async def main() -> None:
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        world = World(clock)
        world.left = 2

        async def outlast(who: int) -> None:
            with trio.CancelScope(shield=True):
                await world.step(who, [60])
            ended.append(who)

        for who in range(2):
            trio.lowlevel.spawn_system_task(outlast, who)
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()

    with seeded(3):
        trio.run(main, clock=trio.testing.MockClock())
    assert sorted(ended) == [0, 1]


# Whole steps.


def loops() -> fe.Graph:
    """A loop that counts to n, and a queue between two steps."""
    g = fe.Graph()
    x = g.placeholder("float32", [None], name="x")
    y = x
    for _ in range(12):
        y = g.ops.Tanh(g.ops.Add(y, x))
    g.ops.Sum(y, [0], name="sum")
    queue = g.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], name="queue")
    element = g.ops.QueueDequeueV2(queue, component_types=["float32"])[0]
    g.ops.Mul(element, g.constant(np.float32(2)), name="doubled")
    g.ops.QueueEnqueueV2(queue, [g.placeholder("float32", [], name="element")], name="put")
    return g


@contextmanager
def finest_slices() -> Iterator[None]:
    """The first of a pass runs one item, and nobody else anything."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turn_queue, "SLICE_SECONDS", -1.0)
        patch.setattr(ready_loop, "ITEMS_PER_CLOCK", 1)
        yield


@pytest.mark.parametrize("compiled", [False, True])
async def test_many_sessions_share_the_loop(compiled: bool) -> None:
    """Steps of several sessions, some of which wait for each other, give what each gives alone."""
    graph = loops()
    x = np.linspace(-1, 1, 50, dtype=np.float32)
    config = fe.Config(compile_hot_plans=compiled)
    async with fe.Session(graph, config=config) as first, fe.Session(graph, config=config) as second:
        want = await first.run("sum:0", {"x:0": x})
        found: list[Any] = []
        doubled: list[float] = []
        with finest_slices():
            async with trio.open_nursery() as nursery:

                async def compute(session: fe.Session) -> None:
                    for _ in range(5):
                        value = await session.run("sum:0", {"x:0": x})
                        found.append(value)

                async def take() -> None:
                    doubled.append(float(await first.run("doubled:0")))

                for _ in range(6):
                    nursery.start_soon(take)
                    nursery.start_soon(compute, first)
                    nursery.start_soon(compute, second)
                for number in range(6):
                    await first.run([], {"element:0": float(number)}, targets=["put"])
        assert all(value == want for value in found)
        assert len(found) == 60
        assert sorted(doubled) == [0, 2, 4, 6, 8, 10]


async def test_a_step_in_line_is_ended_at_once_when_its_session_closes() -> None:
    graph = loops()
    x = np.ones(50, np.float32)
    session = fe.Session(graph)
    errors: list[str] = []

    async def forever() -> None:
        try:
            while True:
                await session.run("sum:0", {"x:0": x})
        except fe.errors.OpError as error:
            errors.append(type(error).__name__)

    await session.run("sum:0", {"x:0": x})
    with finest_slices():
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(forever)
            for _ in range(50):
                await trio.lowlevel.checkpoint()
            await session.close()
    assert len(errors) == 5
    assert set(errors) <= {"CancelledError", "FailedPreconditionError"}


async def test_time_in_line_counts_for_a_timeout() -> None:
    """A step that cannot begin before its time is over is not begun."""
    graph = loops()
    x = np.ones(50, np.float32)
    turns = current_turns()
    async with fe.Session(graph) as session:
        await session.run("sum:0", {"x:0": x})
        ticket, other = turns.new_ticket(), turns.new_ticket()
        # Somebody is before it and never comes.
        turns.line.join(ticket)
        turns.line.begin_pass()
        turns.line.lately = SLICE_SECONDS
        with pytest.raises(fe.errors.DeadlineExceededError):
            await session.run("sum:0", {"x:0": x}, options=fe.RunOptions(timeout_seconds=0.02))
        turns.line.leave(ticket)
        turns.end(other)
        turns.end(ticket)
        assert turns.line.is_quiet
