"""Calls of a signature that are computed together give each caller what a call of its own gives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core.errors import (
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
    ResourceExhaustedError,
)
from flowengine.saved_model.model_signature import ModelSignature
from flowengine.saved_model.signatures import SignatureFacts, SignatureTensor


def doubling(*, gated: bool = False) -> tuple[fe.Graph, SignatureFacts]:
    """A graph of y = 2 x for rows of any length, and the rows of its batch; a step takes a token if gated."""
    graph = fe.Graph()
    x = graph.placeholder("float32", [None, None], name="x")
    queue = graph.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], shared_name="gate", name="gate")
    graph.ops.QueueEnqueueV2(queue, [graph.placeholder("float32", [], name="token")], name="open")
    graph.ops.QueueCloseV2(queue, name="shut")
    taken = graph.ops.QueueDequeueV2(queue, component_types=["float32"], name="taken")
    with graph.control_dependencies([taken[0].op] if gated else []):
        fe.add(x, x, name="y")
    fe.add(x * 0.0, fe.cast(fe.shape(x)[0], "float32"), name="size")
    free = fe.TensorShape([None, None])
    tensors = {name: SignatureTensor((f"{name}:0",), fe.dtypes.float32, free) for name in ("x", "y", "size")}
    facts = SignatureFacts("double", {"x": tensors["x"]}, {"y": tensors["y"], "size": tensors["size"]})
    return graph, facts


def rows(*values: float, length: int = 1) -> Any:
    return np.repeat(np.array(values, np.float32)[:, np.newaxis], length, axis=1)


class Calls:
    """Calls of one batched signature, and what became of each: {value: its outputs, or its error}."""

    def __init__(self, session: fe.Session, facts: SignatureFacts, **options: Any) -> None:
        self.session = session
        self.signature = ModelSignature(facts, session).batched(**{"max_rows": 8} | options)
        self.outcomes: dict[float, Any] = {}
        self.scopes: dict[float, trio.CancelScope] = {}

    async def ask(self, *values: float, length: int = 1, seconds: float | None = None) -> None:
        options = None if seconds is None else fe.RunOptions(timeout_seconds=seconds)
        with trio.CancelScope() as self.scopes[values[0]]:
            try:
                outputs = await self.signature.call({"x": rows(*values, length=length)}, options=options)
            except fe.errors.OpError as error:
                self.outcomes[values[0]] = error
            else:
                self.outcomes[values[0]] = outputs

    async def open(self, steps: int = 1) -> None:
        """Let so many steps go on."""
        for _ in range(steps):
            await self.session.run("open", {"token": 0.0})
        await trio.testing.wait_all_tasks_blocked()

    def sizes(self) -> dict[float, float]:
        """{value of a call: the rows of the batch that it was computed in}."""
        return {value: float(outcome["size"][0, 0]) for value, outcome in self.outcomes.items()}


@asynccontextmanager
async def gated_calls(**options: Any) -> AsyncIterator[Calls]:
    graph, facts = doubling(gated=True)
    async with fe.Session(graph) as session:
        yield Calls(session, facts, **options)


async def start(nursery: trio.Nursery, calls: Calls, *values: float, **arguments: Any) -> None:
    """Begin a call and wait until it waits."""
    nursery.start_soon(lambda: calls.ask(*values, **arguments))
    await trio.testing.wait_all_tasks_blocked()


async def test_calls_that_come_during_a_batch_are_the_next_one() -> None:
    async with gated_calls() as calls, trio.open_nursery() as nursery:
        for value in (1.0, 2.0, 3.0, 4.0):
            await start(nursery, calls, value)
        assert calls.signature.waiting_rows == 4
        await calls.open()
        assert list(calls.outcomes) == [1.0]
        await calls.open()
    assert calls.sizes() == {1.0: 1, 2.0: 3, 3.0: 3, 4.0: 3}
    assert {value: float(each["y"][0, 0]) for value, each in calls.outcomes.items()} == {
        1: 2,
        2: 4,
        3: 6,
        4: 8,
    }
    assert calls.signature.waiting_rows == 0


async def test_a_lone_call_waits_for_nobody(autojump_clock: trio.testing.MockClock) -> None:
    graph, facts = doubling()
    async with fe.Session(graph) as session:
        began = trio.current_time()
        signature = ModelSignature(facts, session).batched(max_rows=8)
        assert (await signature(rows(3.0)))["y"].tolist() == [[6.0]]
        assert (await signature(x=rows(4.0)))["y"].tolist() == [[8.0]]
        assert trio.current_time() == began
    assert autojump_clock.autojump_threshold == 0


async def test_the_first_rows_wait_for_others_if_asked_to(autojump_clock: trio.testing.MockClock) -> None:
    graph, facts = doubling()
    async with fe.Session(graph) as session:
        calls = Calls(session, facts, wait_seconds=5.0)
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            await start(nursery, calls, 1.0)
            await start(nursery, calls, 2.0)
        assert trio.current_time() - began == pytest.approx(5.0)
        assert calls.sizes() == {1.0: 2, 2.0: 2}
    assert autojump_clock.autojump_threshold == 0


async def test_a_cancelled_call_takes_its_waiting_rows_along() -> None:
    async with gated_calls() as calls, trio.open_nursery() as nursery:
        for value in (1.0, 2.0, 3.0):
            await start(nursery, calls, value)
        calls.scopes[2.0].cancel()
        await calls.open(2)
    assert calls.sizes() == {1.0: 1, 3.0: 1}
    assert calls.signature.waiting_rows == 0


async def test_a_cancelled_call_leaves_the_others_of_its_batch_their_results() -> None:
    async with gated_calls() as calls, trio.open_nursery() as nursery:
        for value in (1.0, 2.0, 3.0):
            await start(nursery, calls, value)
        await calls.open()  # the batch of 2 and 3 is being computed
        calls.scopes[2.0].cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert calls.scopes[2.0].cancelled_caught
        await calls.open()
    assert calls.sizes() == {1.0: 1, 3.0: 2}


@pytest.mark.parametrize("first", [True, False])
async def test_a_step_that_nobody_waits_for_is_cancelled(first: bool) -> None:
    async with gated_calls() as calls, trio.open_nursery() as nursery:
        await start(nursery, calls, 1.0)
        if not first:
            await start(nursery, calls, 2.0)
            await calls.open()
        calls.scopes[1.0 if first else 2.0].cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert calls.session.statistics().running_steps == 0
        # The token that comes now is for the next call.
        await start(nursery, calls, 5.0)
        await calls.open()
        assert calls.sizes()[5.0] == 1


async def test_a_failed_step_fails_for_its_batch_only() -> None:
    async with gated_calls() as calls, trio.open_nursery() as nursery:
        for value in (1.0, 2.0, 3.0):
            await start(nursery, calls, value)
        await calls.open()
        await calls.session.run("shut")  # no token comes any more
        await trio.testing.wait_all_tasks_blocked()
        assert isinstance(calls.outcomes[2.0], fe.errors.OutOfRangeError)
        assert isinstance(calls.outcomes[3.0], fe.errors.OutOfRangeError)
        assert calls.outcomes[2.0] is not calls.outcomes[3.0]
        assert calls.outcomes[1.0]["size"].tolist() == [[1.0]]
        assert calls.signature.waiting_rows == 0


async def test_a_call_that_does_not_fit_harms_no_other() -> None:
    async with gated_calls() as calls, trio.open_nursery() as nursery:
        await start(nursery, calls, 1.0)
        await start(nursery, calls, 2.0)
        with pytest.raises(InvalidArgumentError, match="for input 'x', which has shape"):
            await calls.signature(x=[1.0])
        with pytest.raises(InvalidArgumentError, match="it has no input 'z'"):
            await calls.signature(z=rows(1.0))
        assert calls.signature.waiting_rows == 2
        await calls.open(2)
    assert calls.sizes() == {1.0: 1, 2.0: 1}


async def test_rows_beyond_the_bound_are_refused() -> None:
    async with gated_calls(max_waiting_rows=3) as calls, trio.open_nursery() as nursery:
        await start(nursery, calls, 1.0)
        await start(nursery, calls, 2.0, 2.5)
        with pytest.raises(ResourceExhaustedError, match=r"3 rows of signature 'double' wait .*rows=3"):
            await calls.signature(x=rows(9.0))
        await calls.open(2)
    assert calls.sizes() == {1.0: 1, 2.0: 2}


async def test_a_call_ends_with_its_time(autojump_clock: trio.testing.MockClock) -> None:
    async with gated_calls() as calls, trio.open_nursery() as nursery:
        nursery.start_soon(lambda: calls.ask(1.0))
        nursery.start_soon(lambda: calls.ask(2.0, seconds=3.0))
        await trio.sleep(4.0)
        assert isinstance(calls.outcomes[2.0], DeadlineExceededError)
        assert "within 3 s" in str(calls.outcomes[2.0])
        assert calls.signature.waiting_rows == 1
        await calls.session.run("open", {"token": 0.0})
    assert calls.outcomes[1.0]["size"].tolist() == [[1.0]]
    assert autojump_clock.autojump_threshold == 0


async def test_closing_the_session_ends_calls() -> None:
    async with gated_calls() as calls, trio.open_nursery() as nursery:
        for value in (1.0, 2.0):
            await start(nursery, calls, value)
        await calls.session.close()
    assert all(isinstance(each, CancelledError) for each in calls.outcomes.values()), calls.outcomes
    assert len(calls.outcomes) == 2


async def test_rows_of_another_shape_wait_in_a_line_of_their_own() -> None:
    async with gated_calls() as calls, trio.open_nursery() as nursery:
        await start(nursery, calls, 1.0)
        await start(nursery, calls, 2.0, length=3)
        await start(nursery, calls, 3.0, length=3)
        await start(nursery, calls, 4.0)
        await calls.open(4)
    assert calls.sizes() == {1.0: 1, 2.0: 1, 3.0: 1, 4.0: 1}
    assert calls.outcomes[3.0]["y"].tolist() == [[6.0, 6.0, 6.0]]


@pytest.mark.parametrize(("pad", "filled"), [(True, 4.0), ({"x": -1}, -2.0)])
async def test_padded_rows_share_a_batch(pad: Any, filled: float) -> None:
    async with gated_calls(pad=pad) as calls, trio.open_nursery() as nursery:
        await start(nursery, calls, 1.0)
        await start(nursery, calls, 2.0, length=1)
        await start(nursery, calls, 3.0, length=3)
        await calls.open(2)
    assert calls.sizes() == {1.0: 1, 2.0: 2, 3.0: 2}
    assert calls.outcomes[1.0]["y"].tolist() == [[2.0]]
    assert calls.outcomes[2.0]["y"].tolist() == [[4.0, filled, filled]]
    assert calls.outcomes[3.0]["y"].tolist() == [[6.0, 6.0, 6.0]]


async def test_a_batch_is_filled_up_to_an_allowed_size() -> None:
    async with gated_calls(allowed_rows=(1, 4, 8)) as calls, trio.open_nursery() as nursery:
        await start(nursery, calls, 1.0)
        await start(nursery, calls, 2.0)
        await start(nursery, calls, 3.0)
        await calls.open(2)
    assert calls.sizes() == {1.0: 1, 2.0: 4, 3.0: 4}
    assert calls.outcomes[3.0]["y"].tolist() == [[6.0]]


async def test_a_long_call_is_split_and_joined() -> None:
    graph, facts = doubling()
    async with fe.Session(graph) as session:
        signature = ModelSignature(facts, session).batched(max_rows=4)
        outputs = await signature(x=rows(*range(10)))
        assert outputs["y"].ravel().tolist() == [2.0 * each for each in range(10)]
        assert outputs["size"].ravel().tolist() == [4.0] * 8 + [2.0] * 2
        whole = ModelSignature(facts, session).batched(max_rows=4, split=False)
        with pytest.raises(InvalidArgumentError, match=r"10 rows in one call: .* at most 4"):
            await whole(x=rows(*range(10)))


async def test_several_batches_at_once() -> None:
    async with gated_calls(batches_at_once=2) as calls, trio.open_nursery() as nursery:
        for value in (1.0, 2.0, 3.0, 4.0):
            await start(nursery, calls, value)
        await calls.open(3)
    assert calls.sizes() == {1.0: 1, 2.0: 1, 3.0: 2, 4.0: 2}


def _facts(x: SignatureTensor, y: SignatureTensor) -> SignatureFacts:
    return SignatureFacts("s", {"x": x}, {"y": y})


FREE = SignatureTensor(("x:0",), fe.dtypes.float32, fe.TensorShape([None]))


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (_facts(SignatureTensor(("x:0",), fe.dtypes.float32, fe.TensorShape([3])), FREE), "input 'x'"),
        (_facts(FREE, SignatureTensor(("y:0",), fe.dtypes.float32, fe.TensorShape([]))), "output 'y'"),
        (_facts(FREE, SignatureTensor(("y:0",), fe.dtypes.float32, fe.TensorShape(None))), "output 'y'"),
        (_facts(FREE, SignatureTensor(("a:0", "b:0", "c:0"), FREE.dtype, FREE.shape, True)), "output 'y'"),
        (SignatureFacts("s", {}, {"y": FREE}), "it has no inputs"),
    ],
)
def test_a_signature_without_rows_is_not_batched(facts: SignatureFacts, reason: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"signature 's' cannot be batched: {reason}"):
        ModelSignature(facts, None).batched(max_rows=8)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"max_rows": 0}, "must be at least 1"),
        ({"max_rows": 4, "wait_seconds": -1.0}, "wait_seconds=-1.0 at least 0"),
        ({"max_rows": 4, "allowed_rows": (1, 2)}, "end with max_rows=4"),
        ({"max_rows": 4, "allowed_rows": (2, 2, 4)}, "must rise"),
        ({"max_rows": 4, "pad": {"z": 0}}, "has no input 'z'"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidArgumentError, match=reason):
        ModelSignature(_facts(FREE, FREE), None).batched(**options)


async def test_other_options_of_a_step_are_refused() -> None:
    async with gated_calls() as calls:
        with pytest.raises(InvalidArgumentError, match="no RunOptions but timeout_seconds"):
            calls.signature.call({"x": rows(1.0)}, options=fe.RunOptions(trace="nodes"))


@given(st.data())
def test_random_calls_give_what_each_gives_alone(data: st.DataObject) -> None:
    """Whatever sizes, shapes, bounds and cancellations there are."""
    requests = data.draw(
        st.lists(st.tuples(st.integers(0, 6), st.integers(1, 2), st.booleans(), st.booleans()), max_size=12)
    )
    sizes = data.draw(st.sampled_from([(), (1, 5), (2, 3, 5)]))
    at_once = data.draw(st.integers(1, 3))

    async def run() -> None:
        async with gated_calls(max_rows=5, allowed_rows=sizes, batches_at_once=at_once) as calls:
            found: dict[int, Any] = {}
            scopes = [trio.CancelScope() for _ in requests]

            async def ask(place: int) -> None:
                count, length, _, _ = requests[place]
                values = np.random.default_rng(place).random((count, length)).astype(np.float32)
                with scopes[place]:
                    found[place] = ((await calls.signature(values))["y"], values)

            async with trio.open_nursery() as nursery:
                for place, (_, _, cancels, opens) in enumerate(requests):
                    nursery.start_soon(ask, place)
                    await trio.testing.wait_all_tasks_blocked()
                    if cancels:
                        scopes[place].cancel()
                    if opens:
                        await calls.open()
                for _ in range(3 * len(requests) + 20):
                    await calls.open()
            assert len(found) == len(requests) - sum(scope.cancelled_caught for scope in scopes)
            for outputs, values in found.values():
                np.testing.assert_array_equal(outputs, values + values)
            assert calls.signature.waiting_rows == 0

    trio.run(run)


def _exported(path: Path) -> Path:
    graph, facts = doubling()
    x, y = graph.tensor("x:0"), graph.tensor("y:0")
    with fe.blocking.Session(graph) as session:
        session.call(fe.saved_model.save, path, signatures={facts.name: ({"x": x}, {"y": y})})
    return path


def test_models_of_asyncio_programs_batch(tmp_path: Path) -> None:
    path = _exported(tmp_path / "export")

    async def main() -> None:
        async with await fe.asyncio.load_saved_model(path) as model:
            signature = model.signature.batched(max_rows=8)
            found = await asyncio.gather(*[signature(rows(float(each))) for each in range(20)])
            assert [each["y"].tolist() for each in found] == [[[2.0 * each]] for each in range(20)]

    asyncio.run(main())


def test_models_of_scripts_batch_over_threads(tmp_path: Path) -> None:
    with fe.blocking.load_saved_model(_exported(tmp_path / "export")) as model:
        signature = model.signature.batched(max_rows=8)
        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(lambda each: signature(rows(float(each))), range(50)))
        assert [each["y"].tolist() for each in found] == [[[2.0 * each]] for each in range(50)]


async def test_a_prepared_call_plans_nothing_more() -> None:
    graph, facts = doubling()
    async with fe.Session(graph) as session:
        signature = ModelSignature(facts, session)
        await signature.prepare()
        assert session.statistics().plans == 1
        await signature(x=rows(1.0))
        await signature.batched(max_rows=8)(x=rows(1.0))
        assert session.statistics().plans == 1
