"""Tasks that end and come back in another life while a run trains over them, all in this process."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.cluster.local import free_ports
from flowengine.transport.wire.identity import new_key
from tests.faults.training import Batches, training_graph

STEPS = 12
TASKS = ("/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWENGINE_CLUSTER_KEY", new_key().hex())


class Lives:
    """The tasks of a cluster, each in a life that can be ended."""

    def __init__(self, nursery: trio.Nursery) -> None:
        addresses = [f"127.0.0.1:{port}" for port in free_ports(3)]
        self.spec = fe.ClusterSpec.of({"ps": addresses[:1], "worker": addresses[1:]})
        self.servers: dict[str, fe.Server] = {}
        self._nursery = nursery
        self._ends: dict[str, tuple[trio.CancelScope, trio.Event]] = {}

    @property
    def target(self) -> str:
        return f"flow://{self.spec.address('/job:worker/task:0')}"

    async def begin(self, task: str) -> None:
        job, _, number = task.removeprefix("/job:").partition("/task:")

        async def live(*, task_status: Any) -> None:
            over = trio.Event()
            with trio.CancelScope() as scope:
                async with fe.Server(self.spec, job, int(number)) as server:
                    self.servers[task] = server
                    self._ends[task] = scope, over
                    task_status.started()
                    await trio.sleep_forever()
            over.set()

        await self._nursery.start(live)

    async def end(self, task: str) -> None:
        scope, over = self._ends.pop(task)
        scope.cancel()
        await over.wait()

    async def end_all(self) -> None:
        for task in list(self._ends):
            await self.end(task)


@asynccontextmanager
async def lives() -> AsyncIterator[Lives]:
    async with trio.open_nursery() as nursery:
        tasks = Lives(nursery)
        for task in tasks.spec:
            await tasks.begin(task)
        yield tasks
        await tasks.end_all()


Hook = Callable[[int, int], Awaitable[Any]]


async def train(
    target: str, folder: Path, hook: Hook | None = None, graph: fe.Graph | None = None, **options: Any
) -> tuple[list[Any], fe.train.RecoveredRun]:
    """Train; `hook(number, call)` is awaited before each step."""
    batches, calls = Batches(), 0

    async def step(session: fe.Session, number: int) -> Any:
        nonlocal calls
        calls += 1
        if hook is not None:
            await hook(number, calls)
        await session.run((), batches.next(), targets=["train"])
        return await session.run(["w:0", "moments:0"]) if number == STEPS - 1 else None

    result = await fe.train.run_with_recovery(
        training_graph() if graph is None else graph,
        step,
        steps=STEPS,
        directory=folder,
        target=target,
        config=fe.Config(sync_checkpoints=False, allow_soft_placement=True),
        save_steps=4,
        state={"random": batches.random},
        **options,
    )
    return result.value, result


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return trio.run(train, "", tmp_path_factory.mktemp("alone"))[0]


def same(found: list[Any], expected: list[Any]) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("task", TASKS)
async def test_a_task_lives_anew_between_two_steps(undisturbed: Any, tmp_path: Path, task: str) -> None:
    async with lives() as tasks:

        async def hook(number: int, call: int) -> None:
            if call in (3, 10, 17):
                await tasks.end(task)
                await tasks.begin(task)

        values, result = await train(tasks.target, tmp_path, hook)
        assert [(each.step, each.resumed) for each in result.restarts] == [(2, 0), (6, 4), (10, 8)]
        same(values, undisturbed)


async def test_a_lost_task_is_waited_for(undisturbed: Any, tmp_path: Path) -> None:
    lost = "/job:worker/task:1"
    async with lives() as tasks, trio.open_nursery() as nursery:

        async def come_back() -> None:
            await trio.sleep(0.4)
            await tasks.begin(lost)

        async def hook(number: int, call: int) -> None:
            if call == 6:
                await tasks.end(lost)
                nursery.start_soon(come_back)

        values, result = await train(tasks.target, tmp_path, hook)
        (restart,) = result.restarts
        assert restart.attempts > 1
        assert 0.4 <= restart.seconds < 10
        assert isinstance(restart.error, fe.errors.UnavailableError)
        assert lost in str(restart.error)
        same(values, undisturbed)


async def test_it_gives_up_where_a_task_does_not_return(tmp_path: Path) -> None:
    async with lives() as tasks:

        async def hook(number: int, call: int) -> None:
            if call == 6:
                await tasks.end("/job:ps/task:0")

        with pytest.raises(
            fe.errors.UnavailableError, match=r"gave up at step 5: it could not go on.*ps/task:0"
        ):
            await train(tasks.target, tmp_path, hook, max_wait_seconds=0.5)


@pytest.mark.parametrize("task", ["/job:ps/task:0", "/job:worker/task:0"])
async def test_the_end_of_a_task_is_its_loss_to_others(task: str) -> None:
    g = fe.Graph()
    with g.device("/job:ps/task:0"):
        queue = g.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], name="queue")
        g.ops.QueueDequeueV2(queue, component_types=["float32"], name="take")
    async with lives() as tasks, fe.Session(g, target=tasks.target) as session:

        async def end_while_it_runs() -> None:
            while not tasks.servers["/job:ps/task:0"].worker.steps_running:
                await trio.lowlevel.checkpoint()
            await tasks.end(task)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(end_while_it_runs)
            with trio.fail_after(120), pytest.raises(fe.errors.UnavailableError):
                await session.run("take:0")


async def test_queues_that_a_task_closes_at_its_end_are_its_loss_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that is only about to wait for a queue learns of its end before it is cancelled."""
    g = fe.Graph()
    with g.device("/job:ps/task:0"):
        queue = g.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], name="queue")
        g.ops.QueueDequeueV2(queue, component_types=["float32"], name="take")
    async with lives() as tasks, fe.Session(g, target=tasks.target) as session:
        worker = tasks.servers["/job:ps/task:0"].worker
        monkeypatch.setattr(worker._runner, "cancel_all", lambda: None)

        async def end_while_it_waits() -> None:
            while not worker.steps_running:
                await trio.lowlevel.checkpoint()
            worker.close()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(end_while_it_waits)
            with trio.fail_after(120), pytest.raises(fe.errors.UnavailableError):
                await session.run("take:0")


@pytest.mark.nightly
async def test_tasks_come_and_go(undisturbed: Any, tmp_path: Path) -> None:
    """Tasks end at any moment, of steps and of recoveries, and return after a while."""
    for seed in range(30):
        chance = random.Random(seed)
        schedule = [
            (chance.random() * 0.15, chance.choice(TASKS), chance.random() * 0.3)
            for _ in range(chance.randrange(1, 5))
        ]
        async with lives() as tasks, trio.open_nursery() as nursery:

            async def come_and_go(tasks: Lives, schedule: list[tuple[float, str, float]]) -> None:
                for after, task, absent in schedule:
                    await trio.sleep(after)
                    await tasks.end(task)
                    await trio.sleep(absent)
                    await tasks.begin(task)

            nursery.start_soon(come_and_go, tasks, schedule)
            with trio.fail_after(60):
                values, result = await train(tasks.target, tmp_path / str(seed))
            same(values, undisturbed)
            print(seed, schedule, [(each.step, each.resumed) for each in result.restarts])


async def test_a_graph_that_was_read_brings_its_saver(undisturbed: Any, tmp_path: Path) -> None:
    built = training_graph()
    fe.train.Saver().add_to(built)
    graph = fe.Graph.from_graph_def(built.to_graph_def().SerializeToString())
    async with lives() as tasks:

        async def hook(number: int, call: int) -> None:
            if call == 6:
                await tasks.end("/job:ps/task:0")
                await tasks.begin("/job:ps/task:0")

        values, result = await train(tasks.target, tmp_path, hook, graph)
        assert len(result.restarts) == 1
        same(values, undisturbed)


async def test_who_comes_again_ends_who_was_there(undisturbed: Any, tmp_path: Path) -> None:
    """Of two that train into one directory the older one loses its session, and gives up in the end."""
    async with lives() as tasks, trio.open_nursery() as nursery:
        second_is_done = trio.Event()
        first_is_under_way = trio.Event()
        errors: list[Exception] = []

        async def first() -> None:
            async def hook(number: int, call: int) -> None:
                if call == 6:
                    first_is_under_way.set()
                    await second_is_done.wait()

            with pytest.raises(fe.errors.AbortedError, match="gave up at step 5") as caught:
                await train(tasks.target, tmp_path, hook, max_restarts=0)
            errors.append(caught.value)

        nursery.start_soon(first)
        await first_is_under_way.wait()
        values, result = await train(tasks.target, tmp_path)
        second_is_done.set()
        assert result.restarts == []
        same(values, undisturbed)


async def test_nothing_of_an_interrupted_step_is_left(tmp_path: Path) -> None:
    """Something was put into the queue of the gradients and never taken out."""
    graph = training_graph()
    with graph.device("/job:ps/task:0"):
        queue = graph.tensor("gradients:0")
        graph.ops.QueueEnqueueV2(queue, [np.ones([24, 1], np.float32)], name="put_one_more")
        graph.ops.QueueSizeV2(queue, name="size")
    async with lives() as tasks:
        async with fe.Session(graph, target=tasks.target) as session:
            await session.run((), targets=["put_one_more"])
            assert await session.run("size:0") == 1
            await session.reset([""])
            assert await session.run("size:0") == 0
            await session.run((), targets=["put_one_more"])
        batches = Batches()

        async def step(session: fe.Session, number: int) -> Any:
            await session.run((), batches.next(), targets=["train"])
            return await session.run("size:0")

        for clear, left in ((False, 1), (True, 0)):
            result = await fe.train.run_with_recovery(
                graph, step, steps=2, directory=tmp_path / str(clear), target=tasks.target, clear=clear
            )
            assert result.value == left


async def test_random_nodes_stand_where_they_did(tmp_path: Path) -> None:
    graph = fe.Graph()
    for task in range(2):
        with graph.device(f"/job:worker/task:{task}"):
            graph.ops.RandomUniform(np.array([2], np.int32), dtype="float32", name=f"drawn{task}", seed=task)
    async with lives() as tasks:
        async with fe.Session(graph, target=tasks.target) as session:
            await session.run(["drawn0:0", "drawn1:0"])
            places = await session.random_places()
            assert len(places) == 2
            drawn = await session.run(["drawn0:0", "drawn1:0"])
            for _ in range(3):
                # The second time where it goes on is not where it was set to, everywhere.
                await session.set_random_places(places)
                same(await session.run(["drawn0:0", "drawn1:0"]), drawn)
                places = await session.random_places()
                drawn = await session.run(["drawn0:0", "drawn1:0"])
            with pytest.raises(
                fe.errors.InvalidArgumentError, match="'nonsense' is no place in the sequence of 'x'"
            ):
                await session.set_random_places({"x": "nonsense"})
            await session.set_random_places({})
            assert await session.random_places() == {}
        async with fe.Session(graph, config=fe.Config(allow_soft_placement=True)) as alone:
            await alone.set_random_places(
                {key: place for key, place in places.items() if key.startswith("drawn1")}
            )
            same([await alone.run("drawn1:0")], drawn[1:])
