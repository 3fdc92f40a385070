"""Planning and compiling share the event loop with steps, and heed what a step is told to heed.

Time is moved by what is folded alone: a fold of these tests takes a millisecond, and what is done in a pass
of the event loop is counted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core import work_pieces
from flowengine.ir.graph import OutputPort
from flowengine.ir.opdef import OpDef, OpRegistry
from flowengine.kernels.load import load_all
from flowengine.kernels.registry import KernelRegistry
from flowengine.ops.load import registry as op_registry
from flowengine.passes.simplify import fold
from flowengine.runtime.planning import session_plans, tiers
from flowengine.runtime.planning.tiers import TieredPlan
from flowengine.runtime.turn_queue import SLICE_SECONDS
from flowengine.runtime.turns import current_turns
from flowengine.testing.simulation.chance import seeded

FOLD_SECONDS = 0.001
#: A fold may outlast its slice.
FOLDS_IN_A_PASS = round(SLICE_SECONDS / FOLD_SECONDS) + 1


class Passes(trio.abc.Instrument):
    """How many folds are made in each pass."""

    def __init__(self) -> None:
        self.number = 0
        self.folds: dict[int, int] = {}

    def after_io_wait(self, timeout: float) -> None:
        self.number += 1


class Lab:
    """Graphs of constants, each node of which takes a millisecond to fold."""

    def __init__(self) -> None:
        self.clock = trio.testing.MockClock()
        self.passes = Passes()
        self.folded = 0
        self.ops = OpRegistry(parent=op_registry())
        self.ops.register(
            OpDef.build(
                "Probe", inputs=["x: float"], outputs=["y: float"], attrs=[], shape=lambda c: [c.input(0)]
            )
        )
        self.kernels = KernelRegistry(parent=load_all())
        self.kernels.kernel("Probe")(self.fold)
        self.graph = fe.Graph(registry=self.ops)

    def fold(self, x: Any) -> Any:
        self.clock.jump(FOLD_SECONDS)
        self.folded += 1
        number = self.passes.number
        self.passes.folds[number] = self.passes.folds.get(number, 0) + 1
        return x + np.float32(1)

    def chain(self, name: str, length: int) -> str:
        """A node that gives as many as it takes milliseconds to plan."""
        value = self.graph.constant(np.float32(0))
        for index in range(length):
            value = self.graph.ops["Probe"](value, name=f"{name}/{index}")
        return f"{name}/{length - 1}:0"

    def session(self, **config: Any) -> fe.Session:
        return fe.Session(self.graph, kernels=self.kernels, config=fe.Config(**config))

    def play(self, main: Callable[[], Awaitable[None]], seed: int = 0) -> None:
        async def marked() -> None:
            trio.lowlevel.add_instrument(self.passes)
            await main()
            assert current_turns().line.is_quiet
            assert not current_turns()._tickets

        with seeded(seed):
            trio.run(marked, clock=self.clock)


def test_the_host_has_its_turn_while_a_first_step_is_planned() -> None:
    lab = Lab()
    fetch = lab.chain("a", 40)

    async def main() -> None:
        async with lab.session() as session:
            assert await session.run(fetch) == 40
            assert lab.folded == 40
            assert await session.run(fetch) == 40
            assert lab.folded == 40, "the plan is kept"

    lab.play(main)
    assert max(lab.passes.folds.values()) <= FOLDS_IN_A_PASS


@settings(max_examples=20)
@given(seed=st.integers(0, 1 << 30), lengths=st.lists(st.integers(1, 30), min_size=2, max_size=6))
def test_plans_that_are_made_at_the_same_time_share_the_slice(seed: int, lengths: list[int]) -> None:
    lab = Lab()
    fetches = [lab.chain(f"n{number}", length) for number, length in enumerate(lengths)]

    async def main() -> None:
        async with lab.session() as session, trio.open_nursery() as nursery:

            async def ask(fetch: str, length: int) -> None:
                assert await session.run(fetch) == length

            for fetch, length in zip(fetches, lengths, strict=True):
                nursery.start_soon(ask, fetch, length)

    lab.play(main, seed)
    assert lab.folded == sum(lengths)
    # One more by each whose turn came as the slice was spent is not there: turns are given by what is left.
    assert max(lab.passes.folds.values()) <= FOLDS_IN_A_PASS + 1


@settings(max_examples=20)
@given(
    seed=st.integers(0, 1 << 30),
    asking=st.integers(1, 5),
    cancelled=st.lists(st.integers(0, 30), max_size=5),
)
def test_one_plan_is_made_by_all_who_ask_for_it(seed: int, asking: int, cancelled: list[int]) -> None:
    """Whoever is cancelled leaves the rest to the others, or to who asks next."""
    lab = Lab()
    fetch = lab.chain("a", 40)
    found: list[float] = []

    async def main() -> None:
        async with lab.session() as session, trio.open_nursery() as nursery:

            async def ask(passes: int | None) -> None:
                with trio.CancelScope() as scope:
                    if passes is not None:
                        nursery.start_soon(give_up, scope, passes)
                    found.append(await session.run(fetch))

            async def give_up(scope: trio.CancelScope, passes: int) -> None:
                for _ in range(passes):
                    await trio.lowlevel.checkpoint()
                scope.cancel()

            for passes in cancelled:
                nursery.start_soon(ask, passes)
            for _ in range(asking):
                nursery.start_soon(ask, None)

    lab.play(main, seed)
    assert found.count(40.0) >= asking
    assert lab.folded == 40


def test_a_plan_that_several_ask_for_takes_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that are kept it displaces the oldest, and no more."""
    monkeypatch.setattr(session_plans, "PLANS_MAX", 2)
    lab = Lab()
    oldest, older, fetch = (lab.chain(name, length) for name, length in (("a", 1), ("b", 1), ("c", 40)))

    async def main() -> None:
        async with lab.session() as session:
            await session.run(oldest)
            await session.run(older)
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(session.run, fetch)
            assert [ports for _, ports, _ in session._plans] == [
                ((each.removesuffix(":0"), 0),) for each in (older, fetch)
            ]

    lab.play(main)


def test_a_plan_that_was_left_is_gone_on_with() -> None:
    lab = Lab()
    fetch = lab.chain("a", 40)

    async def main() -> None:
        async with lab.session() as session:
            for _ in range(3):
                with pytest.raises(fe.errors.DeadlineExceededError, match=r"within 0\.01 s"):
                    await session.run(fetch, options=fe.RunOptions(timeout_seconds=0.01))
                assert lab.folded % 40, "it ends soon after its time"
            assert await session.run(fetch, options=fe.RunOptions(timeout_seconds=0.1)) == 40

    lab.play(main)
    assert lab.folded == 40


def test_time_that_planning_took_counts_for_a_timeout() -> None:
    """The last piece may be the one that takes too long."""
    lab = Lab()
    fetch = lab.chain("a", 1)

    async def main() -> None:
        async with lab.session() as session:
            with pytest.raises(fe.errors.DeadlineExceededError, match=r"within 0\.0005 s"):
                await session.run(fetch, options=fe.RunOptions(timeout_seconds=0.0005))
            assert await session.run(fetch, options=fe.RunOptions(timeout_seconds=0.0005)) == 1

    lab.play(main)


def test_what_the_graph_gets_while_a_plan_is_made_is_not_in_it() -> None:
    lab = Lab()
    fetch = lab.chain("a", 20)

    async def main() -> None:
        async with lab.session() as session, trio.open_nursery() as nursery:
            found: list[float] = []

            async def ask() -> None:
                found.append(await session.run(fetch))

            nursery.start_soon(ask)
            while not lab.folded:
                await trio.lowlevel.checkpoint()
            other = lab.chain("b", 3)
            assert await session.run(other) == 3
            assert await session.run(fetch) == 20
        assert found == [20]

    lab.play(main)


def test_a_fault_is_told_to_all_who_ask() -> None:
    lab = Lab()
    fetch = lab.chain("a", 5)
    lab.ops.register(OpDef.build("Odd", inputs=["x: float"], outputs=["y: float"], attrs=[], shape=None))
    lab.graph.ops["Odd"](lab.graph.tensor(fetch), name="odd")
    errors: list[str] = []

    async def main() -> None:
        async with lab.session() as session, trio.open_nursery() as nursery:

            async def ask() -> None:
                with pytest.raises(fe.errors.NotFoundError) as caught:
                    await session.run("odd:0")
                errors.append(str(caught.value))

            for _ in range(3):
                nursery.start_soon(ask)

    lab.play(main)
    assert len(errors) == 3
    assert len(set(errors)) == 1


def test_a_session_that_closes_ends_what_is_planned() -> None:
    lab = Lab()
    fetch = lab.chain("a", 100)

    async def main() -> None:
        session = lab.session()
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                with pytest.raises(fe.errors.CancelledError):
                    await session.run(fetch)

            nursery.start_soon(ask)
            while not lab.folded:
                await trio.lowlevel.checkpoint()
            await session.close()
        with pytest.raises(fe.errors.FailedPreconditionError, match="closed"):
            await session.run(fetch)

    lab.play(main)
    assert lab.folded < 20


def test_an_op_whose_folds_take_long_is_left_to_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab()
    fetch = lab.chain("a", 40)
    monkeypatch.setattr(fold, "FOLDED_MICROSECONDS_MAX", FOLD_SECONDS * 0.5e6)

    async def main() -> None:
        async with lab.session(compile_hot_plans=False) as session:
            assert await session.run(fetch) == 40
            assert lab.folded == 40
            assert await session.run(fetch) == 40
            assert lab.folded == 80 - fold.SLOW_FOLDS_MAX

    lab.play(main)


def tanhs(count: int) -> fe.Graph:
    graph = fe.Graph()
    y = graph.placeholder("float32", [2], name="x")
    for _ in range(count):
        y = graph.ops.Tanh(y)
    graph.ops.Neg(y, name="y")
    return graph


async def test_compiling_takes_turns_and_its_results_are_not_lost() -> None:
    """A caller who is cancelled while the plan is compiled has the values; the next step goes on."""
    x = np.ones(2, np.float32)
    with pytest.MonkeyPatch.context() as patch:
        # Each look at the clock says that the slice is over.
        patch.setattr(work_pieces, "perf_counter", lambda: float("inf"))
        async with fe.Session(tanhs(300)) as session:
            want = await session.run("y:0", {"x:0": x})
            (kept,) = session._plans.values()
            plan = kept.plan
            assert isinstance(plan, TieredPlan)
            for _ in range(tiers.HOT_RUNS - 2):
                await session.run("y:0", {"x:0": x})
            advanced: list[int] = []
            for _ in range(200):
                with trio.CancelScope() as scope:
                    trio.lowlevel.current_trio_token().run_sync_soon(scope.cancel)
                    np.testing.assert_array_equal(await session.run("y:0", {"x:0": x}), want)
                    advanced.append(plan.learned.runs)
                if plan.compiled is not None:
                    break
            assert plan.compiled is not None
            assert 2 < len(advanced) < 200
            np.testing.assert_array_equal(await session.run("y:0", {"x:0": x}), want)


@settings(max_examples=20)
@given(seed=st.integers(0, 1 << 30), calls=st.integers(1, 4))
def test_a_callable_is_planned_in_turns_by_its_first_calls(seed: int, calls: int) -> None:
    """No pass of the event loop does more for a callable than for a run; several calls make one plan."""
    lab = Lab()
    fetch = lab.chain("a", 40)

    async def main() -> None:
        async with lab.session() as session:
            call = session.make_callable(fetch)
            assert lab.folded == 0

            async def ask() -> None:
                assert await call() == 40

            async with trio.open_nursery() as nursery:
                for _ in range(calls):
                    nursery.start_soon(ask)
            assert lab.folded == 40
            await ask()
            assert lab.folded == 40, "the plan is kept"

    lab.play(main, seed)
    assert max(lab.passes.folds.values()) <= FOLDS_IN_A_PASS


def test_a_callable_is_of_the_graph_as_it_was() -> None:
    lab = Lab()
    fetch = lab.chain("a", 5)

    async def main() -> None:
        async with lab.session() as session:
            call = session.make_callable(fetch)
            later = lab.chain("b", 5)
            lab.graph.put(replace(lab.graph["a/4"], inputs=(OutputPort("a/2", 0),)))
            assert await call() == 5
            assert await session.run([fetch, later]) == [4, 5]
            assert await call() == 5

    lab.play(main)


def test_a_callable_checks_its_arguments_at_once() -> None:
    lab = Lab()
    fetch = lab.chain("a", 5)

    async def main() -> None:
        async with lab.session() as session:
            with pytest.raises(fe.errors.NotFoundError, match="nothing"):
                session.make_callable("nothing:0")
            with pytest.raises(fe.errors.NotFoundError, match="nobody"):
                session.make_callable(fetch, ["nobody:0"])
            with pytest.raises(fe.errors.InvalidArgumentError, match="twice"):
                session.make_callable(fetch, ["a/1:0", "a/1:0"])
            assert lab.folded == 0

    lab.play(main)


def test_a_first_call_that_is_cancelled_leaves_the_rest_to_the_next() -> None:
    lab = Lab()
    fetch = lab.chain("a", 40)

    async def main() -> None:
        async with lab.session() as session:
            call = session.make_callable(fetch)
            with trio.move_on_after(10 * FOLD_SECONDS) as scope:
                await call()
            assert scope.cancelled_caught
            begun = lab.folded
            assert 0 < begun < 40
            assert await call() == 40
            assert lab.folded == 40

    lab.play(main)


def test_every_call_is_told_why_there_is_no_plan() -> None:
    lab = Lab()
    lab.graph.ops.Add(lab.graph.placeholder("float32", [], name="x"), 1.0, name="y")
    lab.graph.create_op("Probe", [lab.graph.tensor(lab.chain("a", 20))], name="last")
    unknown = OpDef.build("Unknown", inputs=["x: float"], outputs=["y: float"], attrs=[])
    lab.ops.register(unknown)
    lab.graph.create_op("Unknown", [lab.graph.tensor("last:0")], name="bad")

    async def main() -> None:
        async with lab.session() as session:
            call = session.make_callable("bad:0")
            told = []

            async def ask() -> None:
                with pytest.raises(fe.errors.OpError, match="Unknown") as caught:
                    await call()
                told.append(type(caught.value))

            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(ask)
            await ask()
            assert len(told) == 4
            assert len(set(told)) == 1

    lab.play(main)


def test_closing_ends_the_first_call_and_refuses_the_next() -> None:
    lab = Lab()
    fetch = lab.chain("a", 40)

    async def main() -> None:
        session = lab.session()
        call, other = session.make_callable(fetch), session.make_callable(fetch)

        async def ask() -> None:
            with pytest.raises(fe.errors.CancelledError):
                await call()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            while not lab.folded:
                await trio.lowlevel.checkpoint()
            await session.close()
        assert lab.folded < 40
        for each in (call, other):
            with pytest.raises(fe.errors.FailedPreconditionError, match="closed"):
                await each()

    lab.play(main)
