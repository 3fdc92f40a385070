"""Training and saving in a script: `fe.blocking.loop` and `fe.blocking.Saver`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe


@pytest.fixture
def model() -> tuple[fe.Graph, Any, Any]:
    """Return a graph, a variable in it, and the operation that adds 1 to the variable."""
    graph = fe.Graph()
    total = graph.variable(np.float32(0), name="total")
    return graph, total, total.assign_add_op(1.0)


def test_a_loop_returns_when_it_has_ended(model: Any, tmp_path: Path) -> None:
    graph, total, step = model

    async def evaluate(session: fe.Session) -> Any:
        return await session.run(total.value())

    for steps in (4, 6):
        stopping = fe.train.EarlyStopping("total", patience=99, best="highest", every_steps=2)
        hooks = [
            fe.train.Evaluation(evaluate, every_steps=2, name="total"),
            stopping,
            fe.train.Checkpoints(tmp_path),
        ]
        with fe.blocking.Session(graph) as session:
            result = fe.blocking.loop(
                session, step, steps=steps, feeds=lambda number: {}, fetches=[total.value()], hooks=hooks
            )
            assert session.run(total.value()) == steps
        assert (result.steps, result.reason, result.metrics) == (steps, "steps", {"total": steps})
        assert stopping.best == steps


def test_an_error_of_a_loop_leaves_the_session_usable(model: Any) -> None:
    graph, total, step = model
    with fe.blocking.Session(graph) as session:
        with pytest.raises(fe.errors.InvalidArgumentError, match="no step fetches 'los'"):
            fe.blocking.loop(session, step, steps=1, hooks=[fe.train.StopAtNaN("los")])
        fe.blocking.loop(session, step, steps=1, initialize=False)
        assert session.run(total.value()) == 1


def test_a_saver_saves_and_restores(model: Any, tmp_path: Path) -> None:
    graph, total, step = model
    saver = fe.blocking.Saver(max_to_keep=2, keep_best=1)
    with fe.blocking.Session(graph) as session:
        session.initialize()
        for number in range(4):
            session.run([], targets=[step])
            path = saver.save(session, tmp_path / "m", global_step=number, metric=-float(number == 1))
            assert path == str(tmp_path / f"m-{number}")
        assert [Path(each).name for each in saver.checkpoints] == ["m-1", "m-2", "m-3"]
        assert saver.best_checkpoint == str(tmp_path / "m-1")
        assert saver.names(session) == ["total"]
        assert not saver.runs_nodes(session)
        assert saver.restore(session, tmp_path / "m-1", names=["total"]) == ["total"]
        assert session.run(total.value()) == 2
        assert saver.restore(session, tmp_path) == ["total"]
        assert session.run(total.value()) == 4
        with pytest.raises(fe.errors.NotFoundError):
            saver.restore(session, tmp_path / "none")


def test_savers_of_nodes(model: Any, tmp_path: Path) -> None:
    graph, total, _ = model
    adding = fe.blocking.Saver()
    assert adding.add_to(graph) is adding
    with fe.blocking.Session(graph) as session:
        session.initialize()
        path = adding.save(session, tmp_path / "m")
    others = [
        fe.blocking.Saver.from_meta_graph(f"{path}.meta"),
        fe.blocking.Saver.of_nodes("save/Const:0", "save/control_dependency:0", "save/restore_all"),
    ]
    for saver in others:
        with fe.blocking.Session(graph) as session:
            assert saver.restore(session, path) == ["total"]
            assert session.run(total.value()) == 0


@pytest.mark.parametrize("call", ["loop", "save", "restore", "names", "QueueRunners"])
def test_another_kind_of_session_is_refused(call: str, model: Any, tmp_path: Path) -> None:
    graph, _, step = model
    session: Any = fe.Session(graph)
    saver = fe.blocking.Saver()
    calls: dict[str, Any] = {
        "loop": lambda: fe.blocking.loop(session, step, steps=1),
        "save": lambda: saver.save(session, tmp_path / "m"),
        "restore": lambda: saver.restore(session, tmp_path / "m"),
        "names": lambda: saver.names(session),
        "QueueRunners": lambda: fe.blocking.QueueRunners(session),
    }
    with pytest.raises(fe.errors.InvalidArgumentError, match=r"takes a fe\.blocking\.Session"):
        calls[call]()


def test_checkpoints_say_which_saver_they_take(tmp_path: Path) -> None:
    saver: Any = fe.blocking.Saver()
    with pytest.raises(fe.errors.InvalidArgumentError, match=r"is no fe\.train\.Saver"):
        fe.train.Checkpoints(tmp_path, saver=saver)


def test_a_session_does_not_wait_for_itself(model: Any) -> None:
    """A function that runs where the steps run, and uses the session of the script, would wait for ever."""
    graph, total, step = model
    with fe.blocking.Session(graph) as session:

        async def evaluate(_: fe.Session) -> Any:
            return session.run(total.value())

        hooks = [fe.train.Evaluation(evaluate, every_steps=1)]
        with pytest.raises(
            fe.errors.FailedPreconditionError, match="the session that the function is called"
        ):
            fe.blocking.loop(session, step, steps=1, hooks=hooks)
        assert session.run(total.value()) == 1
