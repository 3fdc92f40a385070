"""The hook that writes event files: which values it writes, and how it goes on after a restart."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe
from tests.tools.summaries.events import events, files_of, message, parts, records, tensor_of, values

InvalidArgumentError = fe.errors.InvalidArgumentError


def run(folder: Path, steps: int, *hooks: Any, **options: Any) -> fe.train.LoopResult:
    graph = fe.Graph()
    counter = graph.variable(0.0, name="counter")
    step = counter.assign_add_op(1.0)
    fetches = {
        "loss": counter * 2.0,
        "weights": graph.constant([1.0, 2.0]),
        "summary": graph.ops.ScalarSummary("from_op", counter),
        "name": graph.constant(b"text"),
        "empty": graph.constant(np.zeros([0], np.float32)),
    }
    hook = fe.train.Summaries(folder, **options)
    with fe.blocking.Session(graph) as session:
        return fe.blocking.loop(session, step, steps=steps, fetches=fetches, hooks=[*hooks, hook], quiet=True)


def tags(folder: Path) -> dict[str, list[int]]:
    """{tag: steps}."""
    found: dict[str, list[int]] = {}
    for step, tag, _ in values(folder):
        found.setdefault(tag, []).append(step)
    return found


def test_values_come_every_so_many_steps_and_at_the_end(tmp_path: Path) -> None:
    run(tmp_path, 25, every_steps=10)
    names = {"loss", "weights", "from_op", "global_step/sec", "seconds_per_step"}
    assert tags(tmp_path) == {name: [10, 20, 25] for name in names}
    assert struct.unpack("<f", tensor_of(tmp_path, "loss")[4]) == (50.0,)
    rate, seconds = (
        struct.unpack("<f", tensor_of(tmp_path, tag)[4])[0] for tag in ("global_step/sec", "seconds_per_step")
    )
    assert rate * seconds == pytest.approx(1, rel=1e-5)
    assert sum(4 in event for event in events(tmp_path)) == 1


def test_metrics_of_evaluations_are_written_too(tmp_path: Path) -> None:
    async def evaluate(session: fe.Session) -> float:
        return 0.5

    evaluation = fe.train.Evaluation(evaluate, every_steps=2, name="accuracy")
    run(tmp_path, 4, evaluation, every_steps=2, names=["accuracy"], graph=False)
    assert tags(tmp_path)["accuracy"] == [2, 4]
    assert "loss" not in tags(tmp_path)
    assert not any(4 in event for event in events(tmp_path))


@pytest.mark.parametrize("saved", [3, 0])
def test_a_loop_that_goes_on_has_the_lost_steps_forgotten(saved: int, tmp_path: Path) -> None:
    class Loss(fe.train.Hook):
        async def after_step(self, state: fe.train.LoopState) -> None:
            if state.step == 5:
                raise ValueError("lost")

    checkpoints = fe.train.Checkpoints(tmp_path / "model", every_steps=saved or 100)
    with pytest.raises(ValueError, match="lost"):
        run(tmp_path / "logs", 10, checkpoints, Loss(), every_steps=1)
    assert tags(tmp_path / "logs")["loss"] == [1, 2, 3, 4]
    run(tmp_path / "logs", 6, fe.train.Checkpoints(tmp_path / "model"), every_steps=1)
    assert len(files_of(tmp_path / "logs")) == 2
    first, second = events(tmp_path / "logs")[1:3]
    assert first[2] == second[2] == saved + 1
    assert message(first[7]) == {1: 1}
    assert tags(tmp_path / "logs")["loss"] == list(range(saved + 1, 7))


@pytest.mark.parametrize("is_same_hook", [True, False])
def test_the_rate_is_that_of_the_steps_since_the_last_look(is_same_hook: bool, tmp_path: Path) -> None:
    """Also in a loop that goes on, by the hook that the earlier loop had or by another."""
    clock = trio.testing.MockClock()
    summaries = [fe.train.Summaries(tmp_path / "logs", every_steps=10) for _ in range(2)]
    graph = fe.Graph()
    graph.variable(0.0, name="counter")

    async def step(session: fe.Session, number: int) -> dict[str, float]:
        clock.jump(2.0 if number < 10 else 4.0)
        return {}

    async def main() -> None:
        for number, steps in enumerate((20, 40)):
            async with fe.Session(graph) as session:
                hook = summaries[0 if is_same_hook else number]
                hooks = [fe.train.Checkpoints(tmp_path / "model"), hook]
                clock.jump(100.0)
                await fe.train.loop(session, step, steps=steps, hooks=hooks, quiet=True)

    trio.run(main, clock=clock)
    found = {}
    for path in files_of(tmp_path / "logs"):
        for record in records(path.read_bytes()):
            event = message(record)
            for value in parts(event.get(5, b""), 1):
                read = message(value)
                if read[1] == b"seconds_per_step":
                    found[event[2]] = struct.unpack("<f", message(read[8])[4])[0]
    assert found == {10: 2.0, 20: 4.0, 30: 4.0, 40: 4.0}


def test_other_hooks_add_to_the_writer(tmp_path: Path) -> None:
    hook = fe.train.Summaries(tmp_path)

    class Note(fe.train.Hook):
        async def after_step(self, state: fe.train.LoopState) -> None:
            hook.writer.add_text("note", str(state.step), state.step)

    graph = fe.Graph()
    with fe.blocking.Session(graph) as session:
        fe.blocking.loop(session, [], steps=2, hooks=[hook, Note()], quiet=True)
    assert tags(tmp_path)["note"] == [1, 2]
    with pytest.raises(fe.errors.FailedPreconditionError, match="only while its loop runs"):
        hook.writer.add_text("note", "3", 3)


def test_bad_arguments_end_before_the_first_step(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="no step fetches 'los'"):
        run(tmp_path, 1, names=["los"])
    with pytest.raises(InvalidArgumentError, match="every_steps"):
        fe.train.Summaries(tmp_path, every_steps=0)
    with pytest.raises(InvalidArgumentError, match=r"write \['loss'\]"):
        fe.train.Summaries(tmp_path, names="loss")
    (tmp_path / "file").write_text("")
    with pytest.raises(fe.errors.OpError, match="file"):
        run(tmp_path / "file" / "logs", 1)
