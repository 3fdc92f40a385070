"""Batched signatures of several inputs: each array stays with its input, and each row with its call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.core.errors import ResourceExhaustedError
from flowengine.saved_model.batching import BatchedSignature
from flowengine.saved_model.model_signature import ModelSignature
from flowengine.saved_model.signatures import SignatureFacts, SignatureTensor


@asynccontextmanager
async def two_inputs(**options: Any) -> AsyncIterator[tuple[fe.Session, BatchedSignature]]:
    """A signature of inputs `b` and `a`, outputs `z` = b and `y` = a; its steps take a token."""
    graph = fe.Graph()
    queue = graph.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], shared_name="gate", name="gate")
    graph.ops.QueueEnqueueV2(queue, [graph.placeholder("float32", [], name="token")], name="open")
    taken = graph.ops.QueueDequeueV2(queue, component_types=["float32"], name="taken")
    free = fe.TensorShape([None, None])
    b, a = (graph.placeholder("float32", [None, None], name=name) for name in ("b", "a"))
    with graph.control_dependencies([taken[0].op]):
        fe.identity(b, name="z")
        fe.identity(a, name="y")
    tensors = {name: SignatureTensor((f"{name}:0",), fe.dtypes.float32, free) for name in "bazy"}
    facts = SignatureFacts(
        "two", {name: tensors[name] for name in "ba"}, {name: tensors[name] for name in "zy"}
    )
    async with fe.Session(graph) as session:
        yield session, ModelSignature(facts, session).batched(**{"max_rows": 8} | options)


async def answers(
    session: fe.Session, signature: BatchedSignature, calls: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Call while a batch is being computed, so that the calls may share the next one."""
    found: list[Any] = [None] * len(calls)

    async def ask(place: int) -> None:
        found[place] = await signature.call(calls[place])

    async with trio.open_nursery() as nursery:
        for place in range(len(calls)):
            nursery.start_soon(ask, place)
            await trio.testing.wait_all_tasks_blocked()
        for _ in calls:
            await session.run("open", {"token": 0.0})
            await trio.testing.wait_all_tasks_blocked()
    return found


def array(value: float, length: int = 1) -> Any:
    return np.full((1, length), value, np.float32)


async def test_inputs_may_be_given_in_any_order() -> None:
    async with two_inputs() as (session, signature):
        calls = [
            {"a": array(1), "b": array(-1)},
            {"b": array(-2), "a": array(2)},
            {"a": array(3), "b": array(-3)},
        ]
        for number, outputs in enumerate(await answers(session, signature, calls), 1):
            assert (outputs["y"].tolist(), outputs["z"].tolist()) == ([[number]], [[-number]])
            assert list(outputs) == ["z", "y"]


async def test_shapes_of_each_input_count() -> None:
    async with two_inputs() as (session, signature):
        calls = [
            {"b": array(1), "a": array(1)},
            {"b": array(2), "a": array(2, 3)},
            {"b": array(3), "a": array(3)},
        ]
        found = await answers(session, signature, calls)
        assert [each["y"].tolist() for each in found] == [[[1.0]], [[2.0] * 3], [[3.0]]]


async def test_an_input_is_filled_up_with_its_own_value() -> None:
    async with two_inputs(pad={"a": -1.0}) as (session, signature):
        calls = [{"b": array(n, n), "a": array(n, n)} for n in (1, 2, 3)]
        _, short, _ = await answers(session, signature, calls)
        assert short["y"].tolist() == [[2.0, 2.0, -1.0]]
        assert short["z"].tolist()[0][:2] == [2.0, 2.0]
        assert short["z"].tolist()[0][2] != -1.0


async def test_the_rows_of_a_call_count_for_the_bound() -> None:
    async with two_inputs(max_waiting_rows=3) as (session, signature), trio.open_nursery() as nursery:
        nursery.start_soon(signature.call, {"b": array(1), "a": array(1)})
        await trio.testing.wait_all_tasks_blocked()
        three = np.zeros((3, 1), np.float32)
        with trio.fail_after(10), pytest.raises(ResourceExhaustedError):
            await signature.call({"b": three, "a": three})
        await session.run("open", {"token": 0.0})
