"""A task's part of a step: with a trio task and without it begins, ends and is given up alike."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.cluster import messages as m
from flowengine.cluster.graphs import graph_tensor, ports
from flowengine.cluster.links import Links
from flowengine.cluster.worker.registered_partitions import Registrar
from flowengine.cluster.worker.worker import Worker
from flowengine.passes.context import PassContext
from flowengine.passes.simplify.prune import prune
from flowengine.transport.events import StepFailure
from flowengine.transport.peer import Peer
from flowengine.transport.wire.identity import new_key

HERE = "/job:worker/task:0"
THERE = "/job:worker/task:1"
MASTER = Registrar(THERE, 5)
WITH_AND_WITHOUT_TASK = pytest.mark.parametrize("wants_metadata", [False, True])


class FakeLinks:
    """Links of a task that counts whom it meets; `errors` are raised, one after another, in their place."""

    def __init__(self) -> None:
        self.addresses: dict[str, str] = {}
        self.met: list[tuple[str, int]] = []
        self.errors: list[Exception] = []
        #: Where it is set, nobody is met before it happens.
        self.may_meet = trio.Event()
        self.may_meet.set()

    async def meet(self, task: str, incarnation: int) -> None:
        await trio.lowlevel.checkpoint()
        await self.may_meet.wait()
        if self.errors:
            raise self.errors.pop(0)
        self.met.append((task, incarnation))


class Ends:
    """The results that a worker reports for parts that end."""

    def __init__(self) -> None:
        self.found: list[tuple[m.StepEnd | None, list[Any], BaseException | None]] = []
        self._arrived = trio.Event()

    def __call__(self, done: m.StepEnd | None, values: list[Any], error: BaseException | None) -> None:
        self.found.append((done, values, error))
        self._arrived.set()

    async def one(self) -> tuple[m.StepEnd | None, list[Any], BaseException | None]:
        """The end of a part; there is one, and no other."""
        with trio.fail_after(120):
            await self._arrived.wait()
        await trio.testing.wait_all_tasks_blocked()
        (found,) = self.found
        return found


def graph(fetch: str) -> fe.Graph:
    """`y`, which is 6 by what is fed, or `never`, which nobody puts anything into the queue for."""
    g = fe.Graph()
    with g.device(f"{HERE}/device:CPU:0"):
        if fetch == "y:0":
            g.ops.FloorDiv(g.constant(np.int32(6)), g.placeholder("int32", [], name="x"), name="y")
            return g
        queue = g.ops.FIFOQueueV2(component_types=["int32"], shapes=[[]], name="queue")
        g.ops.QueueDequeueV2(queue, component_types=["int32"], name="never")
    return g


def message(handle: int, fetch: str, *, partner: bool = False) -> m.RegisterGraph:
    """Return the message that registers `graph`."""
    feeds = ["x:0"] if fetch == "y:0" else []
    return m.RegisterGraph(
        session=1,
        handle=handle,
        partitions=[
            {
                "device": f"{HERE.replace('/task', '/replica:0/task')}/device:CPU:0",
                "feeds": list(range(len(feeds))),
                "fetches": [0],
                "targets": [],
            }
        ],
        feeds=feeds,
        fetches=[fetch],
        tasks={HERE: 1, THERE: 5} if partner else {HERE: 1},
        partners={THERE: "tcp://127.0.0.1:1"} if partner else {},
    )


@asynccontextmanager
async def worker(fetch: str, *, partner: bool = False) -> AsyncIterator[tuple[Worker, FakeLinks]]:
    """A worker whose handle 1 is a request for this fetch."""
    server = fe.Server(fe.ClusterSpec.of({"worker": ["127.0.0.1:1"]}), "worker", 0, key=new_key())
    links = FakeLinks()
    async with trio.open_nursery() as nursery:
        server.worker.parts.nursery = nursery
        asked = message(1, fetch, partner=partner)
        context = PassContext(feeds=ports(asked.feeds), fetches=ports(asked.fetches))
        tensors = [graph_tensor(prune(graph(fetch).snapshot(), context))]
        await server.worker.register(MASTER, asked, tensors, cast(Links, links))
        yield server.worker, links
        server.worker.close()
        nursery.cancel_scope.cancel()


def run(step: int, *, ended: Sequence[int] = (), wants_metadata: bool = False) -> m.RunGraph:
    return m.RunGraph(1, step, list(ended), wants_metadata)


def steps_kept(worker: Worker) -> int:
    found = worker.exchange.statistics()
    return found.steps + found.steps_not_begun


@WITH_AND_WITHOUT_TASK
async def test_it_gives_what_is_fetched(wants_metadata: bool) -> None:
    async with worker("y:0") as (task, _):
        for step in (1, 2, 3):
            ends = Ends()
            task.begin(MASTER, run(step, wants_metadata=wants_metadata), [np.int32(2)], ends)
            done, values, error = await ends.one()
            assert error is None
            assert values == [3]
            assert done is not None
            assert not done.error
            assert bool(done.metadata) == wants_metadata
        assert task.statistics()["steps_run"] == 3
        assert task.steps_running == 0
        assert steps_kept(task) == 3
        ends = Ends()
        task.begin(MASTER, run(4, ended=[1, 3], wants_metadata=wants_metadata), [np.int32(2)], ends)
        await ends.one()
        # Steps that are over everywhere are forgotten with the next message, which says so.
        assert steps_kept(task) == 1


async def test_a_part_whose_plan_cannot_be_compiled_ends_with_that(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its plan is compiled when it has run often: whoever waits for that step is told of the fault."""
    fault = RuntimeError("no room")
    compiled: list[object] = []

    def compile_plan(plan: object) -> None:
        compiled.append(plan)
        raise fault

    async with worker("y:0") as (task, _):
        monkeypatch.setattr(task.parts.runner, "compile", compile_plan)
        found: list[tuple[Any, ...]] = []
        while not compiled:
            ends = Ends()
            task.begin(MASTER, run(len(found) + 1), [np.int32(2)], ends)
            found.append(await ends.one())
            assert len(found) < 100
        assert found.pop() == (None, [], fault)
        assert found
        assert all((values, error) == ([3], None) for _, values, error in found)
        assert task.steps_running == 0


@WITH_AND_WITHOUT_TASK
@pytest.mark.parametrize("is_told", [False, True])
async def test_an_error_is_its_own_unless_another_task_has_told_of_one(
    wants_metadata: bool, is_told: bool
) -> None:
    async with worker("y:0") as (task, _):
        if is_told:
            event = StepFailure(1, fe.errors.CancelledError("there"))
            task.exchange.peer_event(cast(Peer, None), event)
        ends = Ends()
        task.begin(MASTER, run(1, wants_metadata=wants_metadata), [np.int32(0)], ends)
        done, values, error = await ends.one()
        assert error is None
        assert values == []
        assert done is not None
        assert done.is_derived == is_told
        found = m.error_from_table(done.error)
        assert isinstance(found, fe.errors.InvalidArgumentError)
        assert found.node_name == "y"
        assert task.statistics()["steps_failed"] == 1
        assert task.steps_running == 0
        # Whoever asks for its tensors is told.
        with pytest.raises(fe.errors.FailedPreconditionError, match="begun"):
            task.exchange.begin_step(1)


@WITH_AND_WITHOUT_TASK
async def test_what_is_given_up_ends_once_and_is_forgotten(wants_metadata: bool) -> None:
    async with worker("never:0") as (task, _):
        ends = Ends()
        part = task.begin(MASTER, run(1, wants_metadata=wants_metadata), [], ends)
        await trio.testing.wait_all_tasks_blocked()
        assert task.steps_running == 1
        assert not ends.found
        idle = trio.Event()

        async def wait_idle() -> None:
            await task.wait_idle()
            idle.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_idle)
            await trio.testing.wait_all_tasks_blocked()
            part.cancel()
            part.cancel()
            done, values, error = await ends.one()
        assert (done, values) == (None, [])
        assert isinstance(error, fe.errors.CancelledError)
        assert idle.is_set()
        part.cancel()
        assert len(ends.found) == 1
        # Nothing that still comes for it is kept, though its master may never tell that it is over.
        assert steps_kept(task) == 0
        with pytest.raises(fe.errors.FailedPreconditionError, match="has ended"):
            task.exchange.begin_step(1)


@WITH_AND_WITHOUT_TASK
async def test_to_others_a_task_that_ends_is_lost(wants_metadata: bool) -> None:
    async with worker("never:0") as (task, _):
        ends = Ends()
        task.begin(MASTER, run(1, wants_metadata=wants_metadata), [], ends)
        await trio.testing.wait_all_tasks_blocked()
        task.close()
        done, _, error = await ends.one()
        assert error is None
        assert done is not None
        assert isinstance(m.error_from_table(done.error), fe.errors.UnavailableError)


@WITH_AND_WITHOUT_TASK
async def test_a_step_does_not_begin_twice(wants_metadata: bool) -> None:
    async with worker("y:0") as (task, _):
        for count in range(2):
            ends = Ends()
            task.begin(MASTER, run(1, wants_metadata=wants_metadata), [np.int32(2)], ends)
            _, _, error = await ends.one()
            assert isinstance(error, fe.errors.FailedPreconditionError) == bool(count)
        assert task.statistics()["steps_run"] == 1
        assert task.steps_running == 0


async def test_what_cannot_be_begun_is_refused_at_once() -> None:
    async with worker("y:0") as (task, _):
        for request, feeds, kind in (
            (run(1)._replace(handle=2), [np.int32(2)], fe.errors.AbortedError),
            (run(1), [], fe.errors.InvalidArgumentError),
        ):
            ends = Ends()
            task.begin(MASTER, request, feeds, ends).cancel()
            assert isinstance((await ends.one())[2], kind)
        # Another life of the master has registered nothing.
        ends = Ends()
        task.begin(MASTER._replace(incarnation=6), run(1), [np.int32(2)], ends)
        assert isinstance((await ends.one())[2], fe.errors.AbortedError)
        task.forget(*MASTER)
        ends = Ends()
        task.begin(MASTER, run(1), [np.int32(2)], ends)
        assert isinstance((await ends.one())[2], fe.errors.AbortedError)


async def test_partners_meet_before_a_step_and_again_when_they_were_lost() -> None:
    async with worker("y:0", partner=True) as (task, links):
        assert links.met == [(THERE, 5)]
        assert links.addresses == {THERE: "tcp://127.0.0.1:1"}
        for step, is_lost in ((1, False), (2, True), (3, False)):
            if is_lost:
                task.task_lost(THERE)
            ends = Ends()
            task.begin(MASTER, run(step), [np.int32(2)], ends)
            assert (await ends.one())[1] == [3]
        assert links.met == [(THERE, 5)] * 2
        # Whoever is not there when a step wants to meet it is met by the next one.
        task.task_lost(THERE)
        links.errors.append(fe.errors.UnavailableError("not there"))
        for step, kind in ((4, fe.errors.UnavailableError), (5, type(None))):
            ends = Ends()
            task.begin(MASTER, run(step), [np.int32(2)], ends)
            assert isinstance((await ends.one())[2], kind)
        assert len(links.met) == 3
        assert task.steps_running == 0


async def test_no_step_begins_while_another_still_meets_its_partners() -> None:
    """A step first meets its partners, as it could not send before; a partner lost meanwhile is met again."""
    async with worker("y:0", partner=True) as (task, links):
        task.task_lost(THERE)
        links.may_meet = trio.Event()
        both = [Ends(), Ends()]
        for step, ends in enumerate(both):
            task.begin(MASTER, run(step + 1), [np.int32(2)], ends)
            await trio.testing.wait_all_tasks_blocked()
        assert [ends.found for ends in both] == [[], []]
        task.task_lost(THERE)
        links.may_meet.set()
        for ends in both:
            assert (await ends.one())[1:] == ([3], None)
        assert len(links.met) > 3, "who was lost meanwhile was not met again"
        met = list(links.met)
        ends = Ends()
        task.begin(MASTER, run(3), [np.int32(2)], ends)
        assert (await ends.one())[1] == [3]
        assert links.met == met
