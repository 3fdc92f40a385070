"""States to which an interrupted run is put back, and interruptions in a row that end it."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe


def counting() -> fe.Graph:
    graph = fe.Graph()
    w = graph.ops.VariableV2(shape=[], dtype="int64", name="w")
    graph.ops.Assign(w, np.int64(0), name="init")
    graph.ops.AssignAdd(w, np.int64(1), name="train")
    return graph


class Fed:
    """State that a run takes from, and a step that is interrupted at some of its calls."""

    def __init__(self, interrupted: set[int]) -> None:
        self.random = np.random.default_rng(3)
        self.interrupted = interrupted
        self.calls = 0
        self.drawn: list[tuple[int, int]] = []

    async def step(self, session: fe.Session, number: int) -> Any:
        self.calls += 1
        self.drawn.append((number, int(self.random.integers(0, 10**9))))
        if self.calls in self.interrupted:
            raise fe.errors.UnavailableError("lost")
        return await session.run("train:0")

    async def run(self, folder: Path, **options: Any) -> fe.train.RecoveredRun:
        return await fe.train.run_with_recovery(
            counting(),
            self.step,
            directory=folder,
            state={"random": self.random},
            config=fe.Config(sync_checkpoints=False),
            **options,
        )


async def test_interruptions_with_checkpoints_between_are_not_in_a_row(tmp_path: Path) -> None:
    """Ten in all, two more than once in a row are allowed, none without a checkpoint between."""
    trainer = Fed(set(range(2, 22, 2)))
    result = await trainer.run(tmp_path, steps=15, save_steps=1, max_restarts=1)
    assert (result.step, len(result.restarts)) == (15, 10)
    assert {restart.attempts for restart in result.restarts} == {1}
    stubborn = Fed({1, 2})
    with pytest.raises(fe.errors.AbortedError, match="2 times without a new checkpoint"):
        await stubborn.run(tmp_path / "stubborn", steps=3, save_steps=1, max_restarts=1)
    assert stubborn.calls == 2


async def test_pauses_between_interruptions_in_a_row_double_up_to_a_bound(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """None before it tries again for the first time; by the clock of the steps, which take no time."""
    moments: list[float] = []

    async def step(session: fe.Session, number: int) -> None:
        moments.append(trio.current_time())
        if len(moments) < 9:
            raise fe.errors.UnavailableError("lost")

    await fe.train.run_with_recovery(
        counting(),
        step,
        steps=1,
        directory=tmp_path,
        max_restarts=8,
        config=fe.Config(sync_checkpoints=False, worker_threads=False),
    )
    pauses = [after - before for before, after in pairwise(moments)]
    assert pauses == pytest.approx([0, 0.1, 0.2, 0.4, 0.8, 1, 1, 1])


async def test_a_run_from_anothers_checkpoint_begins_again_with_its_first_state(tmp_path: Path) -> None:
    """The checkpoint holds no state of this run: what was drawn before the interruption is drawn again."""
    theirs = tmp_path / "theirs"
    async with fe.Session(counting()) as session:
        await session.run((), targets=["init"])
        await fe.train.Saver(sync=False).save(session, theirs / "other.ckpt", global_step=5)
    ours = tmp_path / "ours"
    shutil.copytree(theirs, ours)
    trainer = Fed({3})
    result = await trainer.run(ours, steps=9, save_steps=100)
    assert [number for number, _ in trainer.drawn] == [5, 6, 7, 5, 6, 7, 8]
    assert trainer.drawn[:3] == trainer.drawn[3:6]
    assert int(result.value) == 4
    undisturbed = Fed(set())
    shutil.rmtree(ours)
    shutil.copytree(theirs, ours)
    await undisturbed.run(ours, steps=9, save_steps=100)
    assert undisturbed.drawn == trainer.drawn[3:]


async def test_what_initialization_took_of_the_state_is_put_back(tmp_path: Path) -> None:
    trainer = Fed(set())
    attempts = 0

    async def init(session: fe.Session) -> None:
        nonlocal attempts
        attempts += 1
        trainer.random.standard_normal(attempts)
        if attempts < 3:
            raise fe.errors.UnavailableError("not yet")
        await session.run((), targets=["init"])

    await trainer.run(tmp_path, steps=2, init=init)
    assert attempts == 3
    first = np.random.default_rng(3)
    assert trainer.drawn == [(0, int(first.integers(0, 10**9))), (1, int(first.integers(0, 10**9)))]


class Live:
    """State that says of itself what it is, and not a copy of it."""

    def __init__(self) -> None:
        self.held = {"steps": [7]}

    def state_dict(self) -> dict[str, list[int]]:
        return self.held

    def load_state_dict(self, state: dict[str, list[int]]) -> None:
        self.held = state


async def test_what_becomes_of_the_state_is_not_what_it_was_at_first(tmp_path: Path) -> None:
    """From another's checkpoint, which has no state, each beginning has the first one anew."""
    async with fe.Session(counting()) as session:
        await session.run((), targets=["init"])
        await fe.train.Saver(sync=False).save(session, tmp_path / "other.ckpt", global_step=5)
    live = Live()
    seen: list[list[int]] = []

    async def step(session: fe.Session, number: int) -> None:
        live.held["steps"].append(number)
        seen.append(list(live.held["steps"]))
        if len(seen) in (1, 3):
            raise fe.errors.UnavailableError("lost")

    config = fe.Config(sync_checkpoints=False)
    await fe.train.run_with_recovery(
        counting(), step, steps=7, directory=tmp_path, state={"live": live}, config=config
    )
    assert seen == [[7, 5], [7, 5], [7, 5, 6], [7, 5], [7, 5, 6]]


async def test_the_first_state_is_not_what_became_of_it(tmp_path: Path) -> None:
    """Interrupted twice before the first checkpoint: what was added to the state meanwhile is forgotten."""
    live = Live()
    begun: list[list[int]] = []

    async def init(session: fe.Session) -> None:
        live.held["steps"].append(len(begun))
        begun.append(list(live.held["steps"]))
        if len(begun) < 3:
            raise fe.errors.UnavailableError("not yet")
        await session.run((), targets=["init"])

    async def step(session: fe.Session, number: int) -> None:
        assert live.held == {"steps": [7]}

    config = fe.Config(sync_checkpoints=False)
    await fe.train.run_with_recovery(
        counting(), step, steps=1, directory=tmp_path, state={"live": live}, init=init, config=config
    )
    assert len(begun) == 3


def test_the_time_between_saves_begins_anew_with_a_process_that_goes_on(tmp_path: Path) -> None:
    async def run(steps: int) -> None:
        await Fed(set()).run(tmp_path, steps=steps, save_seconds=3600.0)

    for steps in (2, 5):
        trio.run(run, steps)
    saved = sorted(path.stem for path in tmp_path.glob("*.index"))
    assert saved == ["model.ckpt-0", "model.ckpt-2", "model.ckpt-5"]


async def test_a_wait_of_just_the_time_that_is_left_is_made(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """The first pause is as long as the whole wait may be: it is tried once more behind it."""
    tried: list[float] = []

    @asynccontextmanager
    async def around(session: fe.Session) -> AsyncIterator[None]:
        tried.append(trio.current_time())
        raise fe.errors.UnavailableError("nobody is there")
        yield

    async def step(session: fe.Session, number: int) -> None:
        raise AssertionError("it cannot begin")

    graph = fe.Graph()
    graph.group(graph.variable(0.0, name="w").initializer, name="init")
    nodes = len(graph)
    with pytest.raises(fe.errors.UnavailableError, match="in 2 attempts"):
        await fe.train.run_with_recovery(
            graph, step, steps=1, directory=tmp_path, around=around, max_wait_seconds=0.1
        )
    assert tried == [0, pytest.approx(0.1)]
    assert len(graph) == nodes, "a run in this process needs no nodes that save"
