"""A hot step makes few Python calls, in few files: its plan prepares the rest, or it comes on first use."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.runtime.executor import Executor
from flowengine.runtime.step import StepRunner

CALLS_MAX = 30
FILES_MAX = 12


async def calls_of(session: fe.Session, fetches: Any, feeds: dict[str, Any]) -> list[tuple[str, str]]:
    """(file, function) of each Python call that a hot step makes."""
    for _ in range(20):
        await session.run(fetches, feeds)
    fewest: list[tuple[str, str]] | None = None
    for _ in range(5):  # a step that is a region's fastest so far makes a call more
        made: list[tuple[str, str]] = []

        def note(frame: FrameType, event: str, _: object, made: list[tuple[str, str]] = made) -> None:
            if event == "call":
                made.append((frame.f_code.co_filename, frame.f_code.co_qualname))

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            await session.run(fetches, feeds)
        finally:
            sys.setprofile(before)
        fewest = made if fewest is None or len(made) < len(fewest) else fewest
    assert fewest is not None
    return fewest


async def test_a_hot_step_of_three_nodes_is_thirty_calls_in_twelve_files() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [2], name="x")
    g.ops.Tanh(g.ops.Neg(g.ops.Square(x)), name="y")
    async with fe.Session(g) as session:
        made = await calls_of(session, "y:0", {"x:0": np.ones(2, np.float32)})
    listed = "\n".join(f"{file}: {function}" for file, function in made)
    assert len(made) <= CALLS_MAX, listed
    assert len({file for file, _ in made}) <= FILES_MAX, listed


async def test_a_step_whose_kernels_ask_for_no_context_makes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    new_context = StepRunner.new_context

    def counted(self: Any, plan: Any, *rest: Any) -> Any:
        asked.extend(item.name for item in plan.items)
        return new_context(self, plan, *rest)

    monkeypatch.setattr(StepRunner, "new_context", counted)
    g = fe.Graph()
    x = g.placeholder("float32", [], name="x")
    g.ops.Neg(x, name="y")
    g.ops.RandomUniform(g.constant(np.array([2], np.int32)), dtype="float32", seed=1, name="random")
    async with fe.Session(g) as session:
        for _ in range(10):
            assert await session.run("y:0", {"x:0": 2.0}) == -2.0
        assert not asked
        await session.run("random:0")
        assert asked == ["random"]


async def test_tables_go_from_step_to_step_and_keep_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also beside other steps, after steps that failed, and where a branch was not taken."""
    tables: list[int] = []
    results = Executor.results

    def noted(self: Executor) -> list[Any]:
        tables.append(id(self.state))
        return results(self)

    monkeypatch.setattr(Executor, "results", noted)
    g = fe.Graph()
    x = g.placeholder("int32", [], name="x")
    g.ops.Neg(g.ops.FloorDiv(g.constant(np.int32(6)), x), name="y")
    below, above = g.ops.Switch(x, g.ops.Greater(x, g.constant(np.int32(0))))
    g.ops.Merge([g.ops.Neg(below), g.ops.Square(above)], name="merged")
    async with fe.Session(g, config=fe.Config(compile_hot_plans=False)) as session:
        for number in (1, 2, 3):
            assert await session.run("y:0", {"x:0": number}) == -(6 // number)
        assert len(set(tables)) == 1
        with pytest.raises(fe.errors.InvalidArgumentError):
            await session.run("y:0", {"x:0": 0})
        assert await session.run("y:0", {"x:0": 6}) == -1
        for number in (3, -2, 0, 5):
            wanted = number**2 if number > 0 else -number
            assert await session.run("merged:0", {"x:0": number}) == wanted
