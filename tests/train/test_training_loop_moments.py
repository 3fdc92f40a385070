"""`fe.train.loop` at drawn moments: what cancellation and errors leave, restarts, evaluation, stopping."""

from __future__ import annotations

import math
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from tests.effort import examples

STEPS = 9


def built() -> tuple[fe.Graph, fe.GraphVariable, fe.Operation]:
    """A graph whose step moves a variable by what is fed and by chance: no two steps are alike."""
    graph = fe.Graph()
    x = graph.placeholder("float32", [], name="x")
    place = graph.variable(np.zeros(3, np.float32), name="place")
    drawn = fe.random_normal([3], seed=4, graph=graph)
    return (
        graph,
        place,
        fe.optimizers.Momentum(0.1, 0.9).minimize(fe.reduce_sum(fe.square(place.value() - x * drawn))),
    )


class Places(fe.train.Hook):
    """Notes where the variable is after each step, {steps: place}, and calls a function then."""

    def __init__(self, place: fe.GraphVariable, then: Callable[[int], None] = lambda step: None) -> None:
        self._place, self._then = place, then
        self.seen: dict[int, bytes] = {}

    async def begin(self, state: fe.train.LoopState) -> None:
        await self.after_step(state)

    async def after_step(self, state: fe.train.LoopState) -> None:
        self.seen[state.step] = (await state.session.run(self._place.value())).tobytes()
        self._then(state.step)


async def trained(session: fe.Session, made: Any, every: int, folder: Path, hooks: Any = ()) -> Any:
    _, _, step = made
    keeping = fe.train.Checkpoints(folder, every_steps=every)
    return await fe.train.loop(
        session, step, steps=STEPS, feeds=lambda number: {"x:0": number + 1.0}, hooks=[keeping, *hooks]
    )


async def uninterrupted(folder: Path) -> dict[int, bytes]:
    made = built()
    places = Places(made[1])
    async with fe.Session(made[0]) as session:
        await trained(session, made, STEPS, folder, [places])
    return places.seen


class Cancelling(trio.abc.Instrument):
    """Cancels a scope before the n-th step of any task."""

    def __init__(self, scope: trio.CancelScope, moment: int) -> None:
        self._scope, self._left = scope, moment

    def before_task_step(self, task: Any) -> None:
        self._left -= 1
        if self._left == 0:
            self._scope.cancel()


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(1, 4), st.integers(1, 150))
def test_cancelled_at_any_moment_it_goes_on_as_if_it_had_not_been(every: int, moment: int) -> None:
    async def main(folder: Path) -> None:
        wanted = await uninterrupted(folder / "whole")
        made = built()
        places = Places(made[1])
        async with fe.Session(made[0]) as session:
            with trio.CancelScope() as scope:
                cancelling = Cancelling(scope, moment)
                trio.lowlevel.add_instrument(cancelling)
                await trained(session, made, every, folder / "run", [places])
            trio.lowlevel.remove_instrument(cancelling)
            assert places.seen.items() <= wanted.items()
            if places.seen:
                # The session is as the last step has left it, or the one that was cancelled late.
                now = (await session.run(made[1].value())).tobytes()
                assert now in [wanted[number] for number in wanted if number >= max(places.seen)][:2]
        made = built()
        places = Places(made[1])
        async with fe.Session(made[0]) as session:
            result = await trained(session, made, every, folder / "run", [places])
        assert places.seen.items() <= wanted.items()
        assert (result.steps, places.seen[STEPS]) == (STEPS, wanted[STEPS])

    with tempfile.TemporaryDirectory() as folder:
        trio.run(main, Path(folder))


@settings(max_examples=examples(15), deadline=None)
@given(st.integers(1, 5), st.integers(1, STEPS))
def test_stopped_after_any_step_it_goes_on_from_the_checkpoint_before(every: int, stop: int) -> None:
    def fail(step: int) -> None:
        if step == stop:
            raise KeyError(step)

    async def main(folder: Path) -> None:
        wanted = await uninterrupted(folder / "whole")
        made = built()
        async with fe.Session(made[0]) as session:
            with pytest.raises(KeyError):
                await trained(session, made, every, folder / "run", [Places(made[1], fail)])
        made = built()
        places = Places(made[1])
        async with fe.Session(made[0]) as session:
            await trained(session, made, every, folder / "run", [places])
        # The hook that fails comes after the one that saves.
        assert places.seen == {number: wanted[number] for number in range(stop - stop % every, STEPS + 1)}

    with tempfile.TemporaryDirectory() as folder:
        trio.run(main, Path(folder))


class Failing(fe.train.Hook):
    """Notes that it was left; raises where it is told to, with its name."""

    def __init__(self, name: str, place: str) -> None:
        self.name, self._place = name, place
        self.left = False

    def around(self, state: fe.train.LoopState) -> AbstractAsyncContextManager[Any]:
        @asynccontextmanager
        async def context() -> AsyncGenerator[None, None]:
            self._at("around")
            try:
                yield
            finally:
                self.left = True

        return context()

    def _at(self, place: str) -> None:
        if place == self._place:
            raise RuntimeError(self.name)

    async def begin(self, state: fe.train.LoopState) -> None:
        self._at("begin")

    async def before_step(self, state: fe.train.LoopState) -> None:
        self._at("before_step")

    async def after_step(self, state: fe.train.LoopState) -> None:
        self._at("after_step")

    async def end(self, state: fe.train.LoopState) -> None:
        self._at("end")


@pytest.mark.parametrize("place", ["around", "begin", "before_step", "after_step", "end"])
async def test_an_error_of_a_hook_is_the_loops_and_all_contexts_are_left(place: str) -> None:
    graph, _, step = built()
    hooks = [Failing("first", ""), Failing("second", place), Failing("third", place)]
    async with fe.Session(graph) as session:
        with pytest.raises(RuntimeError, match="second"):
            await fe.train.loop(session, step, steps=2, feeds=lambda _: {"x:0": 1.0}, hooks=hooks)
        entered = [True, place != "around", place != "around"]
        assert [hook.left for hook in hooks] == entered
        # Nothing that was begun is left over: the session takes steps.
        await session.initialize()
        await session.run([], {"x:0": 1.0}, targets=[step])


def stopped_at(scores: list[float], patience: int, sign: float, min_delta: float) -> tuple[int, float, int]:
    """(steps made, best score, after how many steps it came), by the definition of early stopping."""
    best, best_step = math.inf * sign, 0
    for count, score in enumerate(scores, 1):
        if sign * (best - score) > min_delta:
            best, best_step = score, count
        elif count - best_step >= patience:
            return count, best, best_step
    return len(scores), best, best_step


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=12),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from([0.0, 1.0, 2.5]),
)
def test_it_stops_when_there_was_nothing_better_for_so_long(
    scores: list[float], patience: int, lowest: bool, min_delta: float
) -> None:
    async def main() -> None:
        graph, _, step = built()
        given = iter(scores)

        async def evaluate(session: fe.Session) -> float:
            return next(given)

        stopping = fe.train.EarlyStopping(
            "score", patience=patience, best="lowest" if lowest else "highest", min_delta=min_delta
        )
        hooks = [fe.train.Evaluation(evaluate, every_steps=1, name="score"), stopping]
        async with fe.Session(graph) as session:
            result = await fe.train.loop(
                session, step, steps=len(scores), feeds=lambda _: {"x:0": 1.0}, hooks=hooks
            )
        wanted = stopped_at(scores, patience, 1.0 if lowest else -1.0, min_delta)
        assert (result.steps, stopping.best, stopping.best_step) == wanted
        assert result.metrics == {"score": scores[result.steps - 1]}

    trio.run(main)


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(1, 12), st.integers(1, 12))
def test_it_evaluates_every_so_many_steps_and_at_the_end_once(steps: int, every: int) -> None:
    async def main() -> None:
        graph, _, step = built()
        made = 0
        seen = []

        async def evaluate(session: fe.Session) -> float:
            seen.append(made)
            return 0.0

        def feeds(number: int) -> dict[str, float]:
            nonlocal made
            made = number + 1
            return {"x:0": 1.0}

        async with fe.Session(graph) as session:
            hooks = [fe.train.Evaluation(evaluate, every_steps=every)]
            await fe.train.loop(session, step, steps=steps, feeds=feeds, hooks=hooks)
        assert seen == sorted({*range(every, steps + 1, every), steps})

    trio.run(main)
