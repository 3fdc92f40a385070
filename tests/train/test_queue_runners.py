"""Queue runners: they fill beside the steps, end with their input, and stop as one, with one error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import flowengine as fe
from flowengine.core.errors import (
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
)
from flowengine.ir.graphfile import load_meta_graph
from flowengine.ir.proto import MetaGraphDef, QueueRunnerDef
from flowengine.train import Coordinator, GraphQueue, QueueRunner, QueueRunners

HERE = Path(__file__).resolve().parent


def counting(
    graph: fe.Graph, limit: int, capacity: int = 3, name: str = "q", **options: Any
) -> tuple[GraphQueue, QueueRunner]:
    """A queue of the numbers below a limit, and its runner, noted with the graph."""
    with graph.name_scope(name):
        (number,) = fe.train.range_input_producer(graph, limit, num_epochs=1, shuffle=False).dequeue()
        queue = GraphQueue.fifo(graph, capacity, ["int32"], [[]])
        runner = QueueRunner(
            queue.handle,
            [queue.enqueue([number])],
            queue.close(),
            queue.close(cancel_pending_enqueues=True),
            **options,
        )
    fe.train.add_queue_runner(graph, runner)
    return queue, runner


def failing(graph: fe.Graph, after: int) -> GraphQueue:
    """A queue whose runner fails with InvalidArgumentError after some numbers."""
    (number,) = fe.train.range_input_producer(graph, 100, num_epochs=1, shuffle=False).dequeue()
    told = graph.constant("too large", "string")
    with graph.control_dependencies([graph.ops.Assert(graph.ops.Less(number, after), [told])]):
        number = graph.ops.Identity(number)
    queue = GraphQueue.fifo(graph, 3, ["int32"], [[]])
    runner = QueueRunner(
        queue.handle, [queue.enqueue([number])], queue.close(), queue.close(cancel_pending_enqueues=True)
    )
    fe.train.add_queue_runner(graph, runner)
    return queue


def test_a_runner_is_named_by_its_queue() -> None:
    graph = fe.Graph()
    queue = GraphQueue.fifo(graph, 10, ["int32"], [[]])
    enqueue = queue.enqueue([graph.constant(7)])
    for given in (queue, queue.handle, queue.handle.op, queue.handle.name):
        assert QueueRunner(given, [enqueue]).name == queue.handle.node_name
    with pytest.raises(fe.errors.InvalidArgumentError, match="not a list"):
        QueueRunner(queue, [[enqueue]])
    with pytest.raises(fe.errors.InvalidArgumentError, match="not a Graph"):
        QueueRunner(graph, [enqueue])


async def test_queues_are_filled_while_nothing_is_run() -> None:
    graph = fe.Graph()
    queue, _ = counting(graph, 10)
    size = queue.size()
    async with fe.Session(graph) as session, QueueRunners(session):
        await wait_all_tasks_blocked()
        assert await session.run(size) == 3


async def test_the_end_of_the_input_closes_one_queue_after_the_other() -> None:
    graph = fe.Graph()
    queue, _ = counting(graph, 4)
    (number,) = queue.dequeue()
    closed = graph.ops.QueueIsClosedV2(queue.handle)
    seen = []
    async with fe.Session(graph) as session:
        async with QueueRunners(session) as coordinator:
            assert not await session.run(closed)
            while not coordinator.should_stop():
                seen.append(await session.run(number))
        assert seen == [0, 1, 2, 3]
        assert coordinator.joined
        assert await session.run(closed)


async def test_the_last_of_several_that_fill_a_queue_closes_it() -> None:
    """One source has two elements, the other nine, of which none is lost."""
    graph = fe.Graph()
    queue = GraphQueue.fifo(graph, 2, ["int32"], [[]])
    enqueues = []
    for first, limit in ((100, 2), (0, 9)):
        (number,) = fe.train.range_input_producer(graph, limit, num_epochs=1, shuffle=False).dequeue()
        enqueues.append(queue.enqueue([graph.ops.Add(number, np.int32(first))]))
    close = queue.close()
    fe.train.add_queue_runner(
        graph, QueueRunner(queue.handle, enqueues, close, queue.close(cancel_pending_enqueues=True))
    )
    (number,) = queue.dequeue()
    seen: list[int] = []
    async with fe.Session(graph) as session, QueueRunners(session) as coordinator:
        while not coordinator.should_stop():
            seen.append(int(await session.run(number)))
    assert sorted(seen) == [*range(9), 100, 101]


async def test_a_failure_of_a_runner_cancels_the_block_and_is_its_only_error() -> None:
    graph = fe.Graph()
    queue = failing(graph, 2)
    (number,) = queue.dequeue()
    seen = []
    async with fe.Session(graph) as session:
        with pytest.raises(InvalidArgumentError, match="too large"):
            async with QueueRunners(session):
                while True:
                    seen.append(int(await session.run(number)))
        # What was in the queue need not be used any more.
        assert seen in ([], [0], [0, 1])
        assert session._runner.running == set()


async def test_a_failure_while_the_block_waits_for_something_else() -> None:
    graph = fe.Graph()
    failing(graph, 2)
    async with fe.Session(graph) as session:
        with pytest.raises(InvalidArgumentError, match="too large"):
            async with QueueRunners(session):
                await trio.sleep_forever()


async def test_an_error_of_the_block_is_raised_as_it_is_and_everything_stops() -> None:
    graph = fe.Graph()
    queue, _ = counting(graph, 100)
    async with fe.Session(graph) as session:
        with pytest.raises(ZeroDivisionError):
            async with QueueRunners(session):
                await session.run(queue.dequeue()[0])
                raise ZeroDivisionError
        with pytest.raises(CancelledError):
            await session.run([], targets=[queue.enqueue([graph.constant(1)])])
        assert session._runner.running == set()


async def test_several_ends_of_input_in_a_group_are_an_end() -> None:
    graph = fe.Graph()
    number = counting(graph, 3)[0].dequeue()[0]

    async with fe.Session(graph) as session, QueueRunners(session):

        async def use() -> None:
            while True:
                await session.run(number)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(use)
            nursery.start_soon(use)


async def test_leaving_early_closes_the_queues_at_once() -> None:
    graph = fe.Graph()
    queue, _ = counting(graph, 100)
    (number,) = queue.dequeue()
    async with fe.Session(graph) as session:
        started = trio.current_time()
        async with QueueRunners(session):
            assert await session.run(number) == 0
        assert trio.current_time() - started < 5
        with pytest.raises(OutOfRangeError):
            while True:
                await session.run(number)


async def test_cancelled_from_outside_everything_ends_and_the_session_lives(
    autojump_clock: MockClock,
) -> None:
    graph = fe.Graph()
    queue, _ = counting(graph, 100)
    (number,) = queue.dequeue()
    async with fe.Session(graph, config=fe.Config(worker_threads=False)) as session:
        with trio.move_on_after(3) as scope:
            async with QueueRunners(session):
                await session.run(number)
                await trio.sleep_forever()
        assert scope.cancelled_caught
        assert trio.current_time() - autojump_clock.current_time() < 1
        assert session._runner.running == set()
        left = 0
        with pytest.raises(OutOfRangeError):
            while True:
                await session.run(number)
                left += 1
        assert left == 3


async def test_a_runner_that_nobody_can_wake_is_cancelled_after_the_grace_period(
    autojump_clock: MockClock,
) -> None:
    graph = fe.Graph()
    stuck = GraphQueue.fifo(graph, 1, ["int32"], [[]], name="never_filled")
    queue = GraphQueue.fifo(graph, 1, ["int32"], [[]])
    runner = QueueRunner(
        queue.handle,
        [queue.enqueue(stuck.dequeue())],
        queue.close(),
        queue.close(cancel_pending_enqueues=True),
    )
    config = fe.Config(worker_threads=False)
    async with fe.Session(graph, config=config) as session:
        started = trio.current_time()
        async with QueueRunners(session, [runner], stop_grace_period_seconds=7):
            await trio.sleep(1)
        assert trio.current_time() - started == pytest.approx(8)
        assert session._runner.running == set()


async def test_prefetching_runs_beside_a_step_that_waits(autojump_clock: MockClock) -> None:
    """While the block does something else for a second, the next elements get ready."""
    graph = fe.Graph()
    queue, _ = counting(graph, 50, capacity=5)
    (number,) = queue.dequeue()
    size = queue.size()
    async with (
        fe.Session(graph, config=fe.Config(worker_threads=False)) as session,
        QueueRunners(session) as coordinator,
    ):
        for expected in range(20):
            await trio.sleep(1)
            assert await session.run(size) == 5
            assert await session.run(number) == expected
        coordinator.request_stop()
        assert coordinator.should_stop()


async def test_errors_that_mean_the_end_are_the_runners_choice() -> None:
    graph = fe.Graph()
    source, _ = counting(graph, 9, name="source")
    sink = GraphQueue.fifo(graph, 2, ["int32"], [[]], name="sink")
    cancel_sink = sink.close(cancel_pending_enqueues=True)
    ends = (OutOfRangeError, CancelledError)
    fe.train.add_queue_runner(
        graph, QueueRunner(sink.handle, [sink.enqueue(source.dequeue())], source.close(), None, ends)
    )
    async with fe.Session(graph) as session, QueueRunners(session) as coordinator:
        await wait_all_tasks_blocked()
        await session.run([], targets=[cancel_sink])
        await wait_all_tasks_blocked()
        assert not coordinator.should_stop()


async def test_the_same_without_being_told_is_a_failure() -> None:
    graph = fe.Graph()
    queue, _ = counting(graph, 9)
    cancel = queue.close(cancel_pending_enqueues=True)
    async with fe.Session(graph) as session:
        with pytest.raises(CancelledError, match="closed"):
            async with QueueRunners(session):
                await wait_all_tasks_blocked()
                await session.run([], targets=[cancel])
                await trio.sleep_forever()


async def test_a_name_that_the_graph_does_not_have_is_an_error_before_anything_starts() -> None:
    graph = fe.Graph()
    counting(graph, 9)
    runner = QueueRunner("queue", ["nothing"])
    async with fe.Session(graph) as session:
        with pytest.raises(NotFoundError, match="nothing"):
            async with QueueRunners(session, [runner]):
                pytest.fail("the block was entered")


async def test_local_variables_keep_a_value_that_they_have() -> None:
    graph = fe.Graph()
    (number,) = fe.train.range_input_producer(graph, 3, num_epochs=3, shuffle=False).dequeue()
    (epochs,) = [node.name for node in graph if node.op == "VariableV2"]
    one_done = graph.ops.Assign(graph.tensor(f"{epochs}:0"), graph.constant(2, "int64"))
    seen = []
    async with fe.Session(graph) as session:
        await session.run([], targets=[one_done.op])
        async with QueueRunners(session):
            while True:
                seen.append(int(await session.run(number)))
    assert seen == [0, 1, 2]


async def test_without_local_variables_the_count_has_no_value() -> None:
    graph = fe.Graph()
    counting(graph, 3)
    async with fe.Session(graph) as session:
        with pytest.raises(FailedPreconditionError):
            async with QueueRunners(session, initialize_local_variables=False):
                await trio.sleep_forever()


async def test_a_coordinator_of_ones_own_with_runners_and_tasks() -> None:
    graph = fe.Graph()
    queue, _ = counting(graph, 6)
    (number,) = queue.dequeue()
    seen: list[int] = []
    async with fe.Session(graph) as session:
        await fe.train.initialize_local_variables(session)

        async def use() -> None:
            while True:
                seen.append(int(await session.run(number)))

        async with Coordinator() as coordinator:
            fe.train.start_queue_runners(session, coordinator)
            coordinator.start(use)
            await coordinator.wait_for_stop()
    assert seen == list(range(6))


# ------------------------------------------------------------------------- as protocol buffers


def test_a_runner_survives_being_written_down() -> None:
    graph = fe.Graph()
    _, runner = counting(graph, 3, queue_closed_exception_types=(OutOfRangeError, CancelledError))
    again = QueueRunner.from_proto(runner.to_proto().SerializeToString())
    assert set(again.queue_closed_exception_types) == {OutOfRangeError, CancelledError}
    assert (again.name, again.enqueue_ops) == (runner.name, runner.enqueue_ops)
    assert (again.close_op, again.cancel_op) == (runner.close_op, runner.cancel_op)
    scoped = QueueRunner.from_proto(runner.to_proto(), import_scope="copy")
    assert scoped.name == f"copy/{runner.name}"
    assert scoped.enqueue_ops == tuple(f"copy/{name}" for name in runner.enqueue_ops)


def test_a_runner_without_types_ends_with_out_of_range() -> None:
    runner = QueueRunner.from_proto(QueueRunnerDef(queue_name="q", enqueue_op_name=["e"]))
    assert runner.queue_closed_exception_types == (OutOfRangeError,)


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        (QueueRunnerDef(enqueue_op_name=["e"]), "names no queue"),
        (QueueRunnerDef(queue_name="q"), "'q' has no enqueue op"),
    ],
)
def test_a_definition_that_is_none(definition: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        QueueRunner.from_proto(definition)


@pytest.mark.parametrize("form", ["loaded", "message"])
async def test_the_runners_that_a_meta_graph_of_tensorflow_lists(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "numbers.txt").write_text("1\n2\n3\n4\n5\n")
    data = (HERE / "pipeline_of_tensorflow.meta").read_bytes()
    loaded = load_meta_graph(data)
    source = loaded if form == "loaded" else MetaGraphDef.FromString(data)
    graph = fe.Graph.from_graph_def(loaded.graph_def)
    assert len(fe.train.queue_runners_of(source)) == 2
    seen = []
    async with fe.Session(graph) as session, QueueRunners(session, source) as coordinator:
        while not coordinator.should_stop():
            seen.append(await session.run("squares:0"))
    assert sorted(np.concatenate(seen).tolist()) == sorted([1, 4, 9, 16, 25] * 2)
