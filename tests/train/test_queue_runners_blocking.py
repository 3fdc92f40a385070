"""Queue runners in plain programs: the same block without a trio program around it."""

from __future__ import annotations

import pytest

import flowengine as fe
from flowengine.blocking import QueueRunners, Session
from flowengine.core.errors import InvalidArgumentError, NotFoundError, OutOfRangeError


def pipeline(limit: int = 4, fails: bool = False) -> tuple[fe.Graph, fe.Tensor]:
    graph = fe.Graph()
    (number,) = fe.train.range_input_producer(graph, limit, num_epochs=1, shuffle=False).dequeue()
    if fails:
        told = graph.constant("too large", "string")
        with graph.control_dependencies([graph.ops.Assert(graph.ops.Less(number, 2), [told])]):
            number = graph.ops.Identity(number)
    (batch,) = fe.train.batch([number], 1)
    return graph, batch


def test_a_loop_to_the_end_of_the_input() -> None:
    graph, batch = pipeline()
    seen: list[int] = []
    with Session(graph) as session, QueueRunners(session) as runners:
        while not runners.should_stop():
            seen += session.run(batch).tolist()
    assert seen == [0, 1, 2, 3]
    assert runners.should_stop()


def test_leaving_early_and_stopping() -> None:
    graph, batch = pipeline(1000)
    with Session(graph) as session:
        with QueueRunners(session) as runners:
            assert session.run(batch) == [0]
            runners.request_stop()
            with pytest.raises(OutOfRangeError):
                [session.run(batch) for _ in range(1000)]
            assert runners.should_stop()
        with pytest.raises(OutOfRangeError):
            session.run(batch)


def test_the_error_of_a_runner_is_the_error_of_the_block() -> None:
    graph, batch = pipeline(fails=True)
    with Session(graph) as session:

        def use() -> None:
            with QueueRunners(session):
                while True:
                    session.run(batch)

        with pytest.raises(InvalidArgumentError, match="too large"):
            use()


def test_an_error_of_the_block_goes_on() -> None:
    graph, batch = pipeline()
    with Session(graph) as session:

        def use() -> None:
            with QueueRunners(session):
                session.run(batch)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            use()


def test_what_cannot_start_is_an_error_at_once() -> None:
    graph, _ = pipeline()
    runner = fe.train.QueueRunner("queue", ["nothing"])
    with Session(graph) as session:
        runners = QueueRunners(session, [runner])
        with pytest.raises(NotFoundError, match="nothing"):
            runners.__enter__()


def test_closing_the_session_ends_the_runners() -> None:
    graph, batch = pipeline(1000)
    session = Session(graph)
    with QueueRunners(session):
        session.run(batch)
        session.close()
