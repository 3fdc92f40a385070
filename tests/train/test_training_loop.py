"""`fe.train.loop`: steps, hooks, restarts after a kill, and what cancellation leaves."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from tests.train import loop_to_kill

pytestmark = pytest.mark.everywhere


def counting() -> tuple[fe.Graph, Any, fe.Operation]:
    """A graph whose step adds what is fed to a variable."""
    graph = fe.Graph()
    x = graph.placeholder("float32", [], name="x")
    total = graph.variable(0.0, name="total")
    return graph, total, total.assign_add_op(x)


def run(graph: fe.Graph, *arguments: Any, then: Any = None, **options: Any) -> Any:
    with fe.blocking.Session(graph) as session:
        result = session.call(fe.train.loop, *arguments, **options)
        return result if then is None else (result, session.run(then))


def test_a_loop_killed_and_started_anew_ends_as_one_that_was_not(tmp_path: Path) -> None:
    wanted = loop_to_kill.train(str(tmp_path / "whole"), 20)
    script = [sys.executable, "-m", "tests.train.loop_to_kill", str(tmp_path / "killed")]
    with subprocess.Popen([*script, "1000000"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) == 12:
                break
        process.kill()
    done = subprocess.run([*script, "20"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert int(done[0]) > 10
    np.testing.assert_array_equal(np.array(json.loads(done[-1]), np.float32), wanted)


def test_feeds_by_number_and_fetches() -> None:
    graph, total, step = counting()
    result, value = run(
        graph,
        step,
        steps=4,
        feeds=lambda number: {"x:0": number},
        fetches={"two": graph.constant(2)},
        then=total.value(),
    )
    assert (result.steps, result.reason, result.values, value) == (4, "steps", {"two": 2}, 6)


def test_feeds_end_the_loop() -> None:
    graph, total, step = counting()
    given = [{"x:0": 1.0}, {"x:0": 2.0}]
    result, value = run(graph, step, feeds=given, then=total.value())
    assert (result.steps, result.reason, value) == (2, "end of input", 3)

    async def later() -> AsyncIterator[Any]:
        for each in given:
            yield each

    result, value = run(graph, [step], feeds=later(), then=total.value())
    assert (result.steps, result.reason, value) == (2, "end of input", 3)


def test_the_end_of_a_queue_ends_the_loop() -> None:
    graph = fe.Graph()
    numbers = fe.train.range_input_producer(graph, 3, num_epochs=1, shuffle=False)
    (got,) = numbers.dequeue()
    total = graph.variable(0, name="total")
    step = total.assign_add_op(got)

    async def main() -> Any:
        async with fe.Session(graph) as session:
            result = await fe.train.loop(session, step, hooks=[fe.train.QueueRunners(session)])
            return result, await session.run(total.value())

    result, value = trio.run(main)
    assert (result.steps, result.reason, value) == (3, "end of input", 3)


def test_evaluation_and_early_stopping() -> None:
    graph, _, step = counting()
    scores = iter([5.0, 3.0, 4.0, 3.0, 9.0])

    async def evaluate(session: fe.Session) -> float:
        return next(scores)

    stopping = fe.train.EarlyStopping("score", patience=2, every_steps=10)
    lines: list[str] = []
    result = run(
        graph,
        step,
        steps=1000,
        feeds=lambda number: {"x:0": 1.0},
        hooks=[
            fe.train.Evaluation(evaluate, every_steps=10, name="score"),
            stopping,
            fe.train.ProgressReports(every_steps=20, report=lines.append),
        ],
    )
    assert result.steps == 40
    assert result.reason == "'score' has not been better than 3 since step 20"
    assert (stopping.best, stopping.best_step, result.metrics) == (3.0, 20, {"score": 3.0})
    assert [line.rpartition(",")[0] for line in lines] == ["step 20, score 3", "step 40, score 3"]


def test_the_highest_may_be_best_and_values_of_steps_count() -> None:
    graph, total, step = counting()
    value = fe.minimum(total.read(), 3.0)
    stopping = fe.train.EarlyStopping("value", patience=3, best="highest", min_delta=0.5)
    result = run(
        graph, step, feeds=lambda number: {"x:0": 1.0}, fetches={"value": value}, hooks=[stopping], steps=50
    )
    assert stopping.best == 3
    assert result.steps == stopping.best_step + 3


def test_a_number_that_is_not_finite_ends_the_loop() -> None:
    graph, _, step = counting()
    with pytest.raises(fe.errors.InvalidArgumentError, match="'loss' is nan after step 1"):
        run(
            graph,
            step,
            feeds=lambda number: {"x:0": 1.0},
            fetches={"loss": graph.constant(float("nan"))},
            hooks=[fe.train.StopAtNaN("loss")],
        )


class Noting(fe.train.Hook):
    """Writes down what it is asked; raises at a step if it is told to."""

    def __init__(self, fails_at: int = -1) -> None:
        self.seen: list[Any] = []
        self._fails_at = fails_at

    async def begin(self, state: fe.train.LoopState) -> None:
        self.seen.append(("begin", state.step))

    async def before_step(self, state: fe.train.LoopState) -> None:
        self.seen.append(("before", state.step))

    async def after_step(self, state: fe.train.LoopState) -> None:
        self.seen.append(("after", state.step))
        if state.step == self._fails_at:
            raise ValueError("on purpose")

    async def end(self, state: fe.train.LoopState) -> None:
        self.seen.append(("end", state.step))


def test_hooks_in_order_and_an_error_leaves_the_last_checkpoint(tmp_path: Path) -> None:
    graph, total, step = counting()
    first = Noting(fails_at=3)
    keeping = fe.train.Checkpoints(tmp_path, every_steps=2)
    with pytest.raises(ValueError, match="on purpose"):
        run(graph, step, steps=5, feeds=lambda number: {"x:0": 1.0}, hooks=[keeping, first])
    assert keeping.latest is not None
    assert keeping.latest.endswith("model.ckpt-2")
    second = Noting()
    again = fe.train.Checkpoints(tmp_path, every_steps=2)
    result, value = run(
        graph, step, steps=4, feeds=lambda number: {"x:0": 1.0}, hooks=[again, second], then=total.value()
    )
    assert (result.steps, value) == (4, 4)
    steps = [
        (word, number) for number in (2, 3) for word, number in (("before", number), ("after", number + 1))
    ]
    assert second.seen == [("begin", 2), *steps, ("end", 4)]
    # Trained already, the loop makes no step.
    assert run(graph, step, steps=4, hooks=[fe.train.Checkpoints(tmp_path)]).steps == 4


def test_a_checkpoint_of_another_program_tells_its_step_by_its_name(tmp_path: Path) -> None:
    graph, total, step = counting()
    with fe.blocking.Session(graph) as session:
        session.run([], targets=[total.assign_op(7.0)])
        session.call(fe.train.Saver().save, tmp_path / "other", global_step=7)
    result = run(
        graph, step, steps=8, feeds=lambda number: {"x:0": number}, hooks=[fe.train.Checkpoints(tmp_path)]
    )
    assert result.steps == 8


def test_a_loop_without_a_step_saves_what_it_begins_with(tmp_path: Path) -> None:
    graph, _, step = counting()
    hook = fe.train.Checkpoints(tmp_path)
    assert run(graph, step, steps=0, hooks=[hook]).steps == 0
    assert hook.latest == str(tmp_path / "model.ckpt-0")
    before = sorted(path.stat().st_mtime_ns for path in tmp_path.iterdir())
    again = fe.train.Checkpoints(tmp_path)
    run(graph, step, steps=0, hooks=[again])
    assert again.latest == hook.latest
    assert sorted(path.stat().st_mtime_ns for path in tmp_path.iterdir()) == before, "saved twice"


def test_state_that_a_checkpoint_does_not_have_stays_as_it_is(tmp_path: Path) -> None:
    graph, _, step = counting()
    old, new = np.random.default_rng(1), np.random.default_rng(2)
    feeds = [{"x:0": 1.0}] * 2
    run(graph, step, steps=1, feeds=feeds, hooks=[fe.train.Checkpoints(tmp_path, state={"old": old})])
    wanted = old.bit_generator.state
    old.integers(0, 10)
    states = {"old": old, "new": new}
    run(graph, step, steps=2, feeds=feeds, hooks=[fe.train.Checkpoints(tmp_path, state=states)])
    assert old.bit_generator.state == wanted
    assert new.bit_generator.state == np.random.default_rng(2).bit_generator.state


def test_cancelled_it_leaves_the_session_usable(tmp_path: Path) -> None:
    graph, total, step = counting()

    async def main() -> tuple[float, float]:
        async with fe.Session(graph) as session:
            with trio.CancelScope() as scope:

                async def make_step(session: fe.Session, number: int) -> None:
                    await session.run([], {"x:0": 1.0}, targets=[step])
                    if number == 6:
                        scope.cancel()

                await fe.train.loop(session, make_step, hooks=[fe.train.Checkpoints(tmp_path, every_steps=5)])
            assert scope.cancelled_caught
            kept = fe.train.latest_checkpoint(str(tmp_path))
            assert kept is not None
            left = await session.run(total.value())
            await fe.train.Saver().restore(session, kept)
            return left, await session.run(total.value())

    assert trio.run(main) == (7, 5)


def test_what_does_not_fit_is_told(tmp_path: Path) -> None:
    graph, _, step = counting()

    async def make_step(session: fe.Session, number: int) -> None:
        raise AssertionError

    cases: list[tuple[Any, dict[str, Any], str]] = [
        ((step,), {}, "nothing would end this loop"),
        ((step,), {"steps": -1}, "negative"),
        ((make_step,), {"feeds": [], "steps": 1}, "by itself"),
    ]
    for arguments, options, text in cases:
        with pytest.raises(fe.errors.InvalidArgumentError, match=text):
            run(graph, *arguments, **options)
    with pytest.raises(fe.errors.InvalidArgumentError, match="at least 1"):
        fe.train.EarlyStopping("x", patience=0)
    with pytest.raises(fe.errors.InvalidArgumentError, match="lowest"):
        fe.train.EarlyStopping("x", patience=1, best="least")  # type: ignore[arg-type]
    for options in ({"every_steps": 0}, {"every_seconds": 0}, {"every_seconds": -1.0}, {"every_steps": -1}):
        with pytest.raises(fe.errors.InvalidArgumentError, match="must be positive"):
            fe.train.Checkpoints(tmp_path, **options)
    fe.train.Checkpoints(tmp_path, every_steps=1, every_seconds=1e-3)


def test_whatever_ends_a_loop_is_enough() -> None:
    """A number of steps, feeds, a hook, or a step that may say so."""
    calls: list[int] = []

    async def make_step(session: fe.Session, number: int) -> None:
        calls.append(number)
        if number == 4:
            raise fe.errors.OutOfRangeError("no more")

    class Stops(fe.train.Hook):
        async def after_step(self, state: fe.train.LoopState) -> None:
            if state.step == 2:
                state.stop("enough")

    graph, total, _ = counting()
    run(graph, make_step)
    assert calls == [0, 1, 2, 3, 4]
    ways: list[dict[str, Any]] = [{"steps": 2}, {"feeds": [{}, {}]}, {"hooks": [Stops()]}]
    for options in ways:
        graph, total, _ = counting()
        result, value = run(graph, total.assign_add_op(1.0), then=total.value(), **options)
        assert (result.steps, value) == (2, 2)


async def test_the_rate_is_of_the_steps_since_the_last_report(autojump_clock: trio.testing.MockClock) -> None:
    graph, _, step = counting()

    async def feeds() -> AsyncIterator[dict[str, float]]:
        for number in range(6):
            await trio.sleep(0.5 if number < 2 else 2.0)
            yield {"x:0": 1.0}

    lines: list[str] = []
    report = fe.train.ProgressReports(every_steps=2, report=lines.append)
    async with fe.Session(graph) as session:
        await fe.train.loop(session, step, feeds=feeds(), hooks=[report])
    assert lines == ["step 2, 2.0 steps/s", "step 4, 0.5 steps/s", "step 6, 0.5 steps/s"]
