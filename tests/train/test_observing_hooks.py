"""The hooks that look at steps while they run: `Profile` traces some, `StepGuard` guards them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.runtime.tracing.timeline import read_timeline
from tests.runtime.tracing.waiting_steps import until_one_waits
from tests.tools.summaries.events import events

InvalidArgumentError = fe.errors.InvalidArgumentError


def quadratic(rate: float = 0.25) -> tuple[fe.Graph, Any, Any]:
    graph = fe.Graph()
    w = graph.variable(5.0, name="w")
    loss = fe.square(w, name="loss")
    return graph, loss, fe.optimizers.SGD(rate).minimize(loss)


def run(steps: int, *hooks: Any, **more: Any) -> fe.train.LoopResult:
    graph, loss, step = quadratic()
    with fe.blocking.Session(graph) as session:
        return fe.blocking.loop(session, step, steps=steps, fetches=loss, hooks=hooks, quiet=True, **more)


def timelines(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def logarithm() -> tuple[fe.Graph, Any, Any]:
    """A training whose variable becomes negative in its second step, so that its third has log(-0.03)."""
    graph = fe.Graph()
    loss = fe.log(graph.variable(1.0, name="w"), name="loss")
    return graph, loss, fe.optimizers.SGD(0.6).minimize(loss)


@pytest.mark.parametrize("with_summaries", [False, True])
def test_one_step_in_so_many_is_traced(with_summaries: bool, tmp_path: Path) -> None:
    hook = fe.train.Profile(tmp_path / "steps", every_steps=4, first=3)
    summaries = [fe.train.Summaries(tmp_path / "logs")] if with_summaries else []
    assert run(12, *summaries, hook).steps == 12
    found = sorted((tmp_path / "steps").iterdir(), key=lambda path: int(path.stem.split("-")[1]))
    assert [path.name for path in found] == ["timeline-3.json", "timeline-7.json", "timeline-11.json"]
    names = {event.name for event in read_timeline(found[-1].read_text()) if event.kind in {"kernel", "node"}}
    assert "loss" in names
    assert hook.latest is not None
    assert {event.name for event in hook.latest.events} >= names
    if with_summaries:
        assert [event[2] for event in events(tmp_path / "logs") if 8 in event] == [3, 7, 11]


def test_the_newest_timelines_stay_and_those_of_others(tmp_path: Path) -> None:
    (tmp_path / "timeline-1.json").write_text("of an earlier loop")
    run(10, fe.train.Profile(tmp_path, every_steps=2, first=2, keep=2))
    assert timelines(tmp_path) == [f"timeline-{step}.json" for step in (1, 10, 8)]
    assert (tmp_path / "timeline-1.json").read_text() == "of an earlier loop"


def test_a_step_that_fails_leaves_the_part_that_ran(tmp_path: Path) -> None:
    graph = fe.Graph()
    w = graph.variable(0.0, name="w")
    checked = graph.ops.CheckNumerics(1.0 / w, message="inverse", name="checked")
    hook = fe.train.Profile(tmp_path, first=1)
    with (
        fe.blocking.Session(graph) as session,
        pytest.raises(InvalidArgumentError, match="inverse"),
    ):
        fe.blocking.loop(session, checked, steps=3, hooks=[hook], quiet=True)
    (path,) = tmp_path.iterdir()
    assert path.name == "timeline-1.json"
    found = {event.name: event for event in read_timeline(path.read_text())}
    assert "inverse" in found["checked"].detail["error"]


async def test_a_cancelled_step_leaves_its_timeline(tmp_path: Path) -> None:
    graph = fe.Graph()
    queue = graph.ops.FIFOQueueV2(component_types=["float32"], name="queue")
    graph.ops.QueueDequeueV2(queue, component_types=["float32"], name="take")
    hook = fe.train.Profile(tmp_path, first=1)
    async with fe.Session(graph) as session, trio.open_nursery() as nursery:

        async def train() -> None:
            await fe.train.loop(session, "take", hooks=[hook], quiet=True)

        nursery.start_soon(train)
        await until_one_waits(session)
        nursery.cancel_scope.cancel()
    assert hook.latest is not None
    assert "take" in {event.name for event in hook.latest.events}
    assert timelines(tmp_path) == ["timeline-1.json"]


def test_an_error_of_another_hook_writes_no_timeline_twice(tmp_path: Path) -> None:
    class Fails(fe.train.Hook):
        async def before_step(self, state: fe.train.LoopState) -> None:
            if state.step == 3:
                raise ValueError("another hook")

    with pytest.raises(ValueError, match="another hook"):
        run(5, fe.train.Profile(tmp_path, first=2), Fails())
    assert timelines(tmp_path) == ["timeline-2.json"]


def test_an_error_behind_a_traced_step_leaves_the_timeline_of_that_step_alone(tmp_path: Path) -> None:
    class Fails(fe.train.Hook):
        async def after_step(self, state: fe.train.LoopState) -> None:
            if state.step == 2:
                raise ValueError("another hook")

    with pytest.raises(ValueError, match="another hook"):
        run(5, fe.train.Profile(tmp_path, first=2), Fails())
    assert timelines(tmp_path) == ["timeline-2.json"]


def test_a_step_that_is_traced_again_is_one_of_the_timelines_that_stay(tmp_path: Path) -> None:
    hook = fe.train.Profile(tmp_path, first=2, every_steps=2, keep=2)
    run(2, hook)
    run(4, hook)
    assert timelines(tmp_path) == ["timeline-2.json", "timeline-4.json"]


def test_the_guard_names_the_node_and_keeps_its_values(tmp_path: Path) -> None:
    graph, loss, step = logarithm()
    file = tmp_path / "found.npz"
    hooks = [fe.train.StepGuard(file=file)]
    with (
        fe.blocking.Session(graph) as session,
        pytest.raises(InvalidArgumentError, match="guard: output 0 has") as raised,
    ):
        fe.blocking.loop(session, step, steps=9, fetches=loss, hooks=hooks, quiet=True)
    assert raised.value.node_name == "loss"
    assert np.load(file)["input_0"] < 0


def test_bounds_count_from_the_step_that_is_named() -> None:
    assert run(4).steps == 4
    with pytest.raises(InvalidArgumentError, match="guard"):
        run(4, fe.train.StepGuard({"loss": (0.0, 10.0)}))
    assert run(4, fe.train.StepGuard({"loss": (0.0, 10.0)}, first=3)).steps == 4


def test_guarded_and_traced_steps_train_as_others(tmp_path: Path) -> None:
    plain = run(6).values
    assert run(6, fe.train.StepGuard()).values == plain
    assert run(6, fe.train.Profile(tmp_path, every_steps=1, first=1)).values == plain


def test_options_hold_for_each_step() -> None:
    """The timeout of each step, also where a hook replaces the options of one."""

    class Once(fe.train.Hook):
        async def before_step(self, state: fe.train.LoopState) -> None:
            seen.append(state.options.timeout_seconds)
            if state.step == 1:
                state.options = fe.RunOptions(timeout_seconds=7.0)

    seen: list[float | None] = []
    run(4, Once(), options=fe.RunOptions(timeout_seconds=30.0))
    assert seen == [30.0] * 4
    graph = fe.Graph()
    queue = graph.ops.FIFOQueueV2(component_types=["float32"], name="queue")
    graph.ops.QueueDequeueV2(queue, component_types=["float32"], name="take")
    options = fe.RunOptions(timeout_seconds=0.001)
    with fe.blocking.Session(graph) as session, pytest.raises(fe.errors.DeadlineExceededError):
        fe.blocking.loop(session, "take", steps=1, options=options, quiet=True)


def test_requests_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    async def step(session: fe.Session, number: int) -> None:
        raise AssertionError

    profile, guard = fe.train.Profile(tmp_path / "steps", first=1), fe.train.StepGuard()
    graph, *_ = quadratic()
    for hook in (profile, guard):
        with (
            fe.blocking.Session(graph) as session,
            pytest.raises(InvalidArgumentError, match="a function runs the steps"),
        ):
            fe.blocking.loop(session, step, steps=1, hooks=[hook], quiet=True)
    for hooks in ([profile, guard], [guard, profile]):
        with pytest.raises(InvalidArgumentError, match="so that it cannot be"):
            run(1, *hooks)
    with pytest.raises(InvalidArgumentError, match="every_steps is at least 1, not 0"):
        fe.train.Profile(tmp_path, every_steps=0)
    with pytest.raises(InvalidArgumentError, match="trace is 'all'"):
        run(1, fe.train.Profile(tmp_path, level="all"))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"needs \(least, largest value\)"):
        run(1, fe.train.StepGuard({"loss": (3.0, 1.0)}))
    with pytest.raises(InvalidArgumentError, match="first is at least 1"):
        fe.train.StepGuard(first=0)
    with (
        fe.blocking.Session(graph) as session,
        pytest.raises(InvalidArgumentError, match="and options= out"),
    ):
        fe.blocking.loop(session, step, steps=1, options=fe.RunOptions())
    with pytest.raises(InvalidArgumentError, match="options is a int"):
        run(1, options=3)


def test_a_folder_that_cannot_be_made_ends_the_loop_before_its_first_step(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result: list[int] = []

    class Count(fe.train.Hook):
        async def after_step(self, state: fe.train.LoopState) -> None:
            result.append(state.step)

    with pytest.raises(fe.errors.OpError, match="file"):
        run(3, fe.train.Profile(tmp_path / "file" / "steps"), Count())
    assert result == []


def test_a_timeline_that_cannot_be_written_hides_no_error_of_the_step(tmp_path: Path) -> None:
    graph = fe.Graph()
    w = graph.variable(0.0, name="w")
    checked = graph.ops.CheckNumerics(1.0 / w, message="inverse", name="checked")
    (tmp_path / "timeline-1.json").mkdir()  # a folder where the file is to be
    with (
        fe.blocking.Session(graph) as session,
        pytest.raises(InvalidArgumentError, match="inverse") as raised,
    ):
        fe.blocking.loop(session, checked, steps=3, hooks=[fe.train.Profile(tmp_path, first=1)], quiet=True)
    assert any("timeline could not be written" in note for note in raised.value.__notes__)


def test_a_full_disk_leaves_a_timeline_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, text: str, **_: Any) -> int:
        path.write_bytes(text[:9].encode())
        raise OSError(28, os.strerror(28))

    (tmp_path / "timeline-2.json").write_text("of an earlier loop")
    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(fe.errors.ResourceExhaustedError, match=r"timeline-2\.json.*No space left on device"):
        run(3, fe.train.Profile(tmp_path, first=2))
    assert timelines(tmp_path) == ["timeline-2.json"]
    assert (tmp_path / "timeline-2.json").read_bytes() == b"of an earlier loop"
