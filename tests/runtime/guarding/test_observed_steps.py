"""An observer sees the values that steps fetch, in the order of their dependences, and changes none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import trio
from hypothesis import given

import flowengine as fe
from flowengine.runtime import lanes
from flowengine.runtime.planning import signatures
from flowengine.testing.strategies import GraphCase, graphs
from tests.runtime.test_against_reference import check, opened, same_bits

Seen = list[tuple[str, tuple[tuple[str, int], ...], list[Any]]]


def observing(seen: Seen) -> fe.RunOptions:
    """Return options that copy all that a step shows into `seen`."""

    def observe(node: str, tag: tuple[tuple[str, int], ...], outputs: Sequence[Any]) -> None:
        seen.append((node, tag, [None if each is None else np.array(each) for each in outputs]))

    return fe.RunOptions(observe=observe)


async def observed(graph: fe.Graph, fetches: Any, feeds: Any = None, **config: Any) -> tuple[Any, Seen]:
    """Run a few steps, and then one with an observer."""
    seen: Seen = []
    async with fe.Session(graph, config=fe.Config(**config)) as session:
        for _ in range(6):
            await session.run(fetches, feeds)
        return await session.run(fetches, feeds, options=observing(seen)), seen


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@given(case=graphs())
def test_observed_values_are_those_that_are_fetched(tier: str, case: GraphCase) -> None:
    steps: list[Seen] = []

    async def main() -> list[list[Any]]:
        found = []
        async with opened(case.graph, tier) as session:
            await session.run([], targets=case.setup)
            for fetches, feeds in case.runs:
                steps.append([])
                options = observing(steps[-1])
                found.append(
                    [*await session.run(list(fetches), feeds, targets=case.targets, options=options)]
                )
        return found

    got = trio.run(main)
    check(case, got)
    for (fetches, feeds), values, seen in zip(case.runs, got, steps, strict=True):
        outputs = {f"{node}:{slot}": each for node, _, made in seen for slot, each in enumerate(made)}
        for name, value in zip(fetches, values, strict=True):
            if outputs.get(name) is not None and name not in feeds:
                assert same_bits(outputs[name], value), name


async def test_each_iteration_is_seen_with_its_number() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [], name="x")
    _, grown = g.while_loop(
        lambda i, v: g.ops.Less(i, g.constant(3)),
        lambda i, v: [g.ops.AddV2(i, g.constant(1)), g.ops.Mul(v, v, name="grow")],
        [g.constant(0), x],
    )
    value, seen = await observed(g, grown, {"x:0": 2.0})
    assert value == 256.0
    grows = [(tag, made[0].item()) for node, tag, made in seen if node.endswith("grow")]
    assert [(tag[-1][1], number) for tag, number in grows] == [(0, 4.0), (1, 16.0), (2, 256.0)]


async def test_the_side_that_is_not_taken_is_not_seen() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [], name="x")
    y = g.cond(g.ops.Less(x, 0.0), lambda: g.ops.Neg(x, name="then"), lambda: g.ops.Exp(x, name="other"))
    _, seen = await observed(g, y, {"x:0": -2.0})
    names = [node for node, _, _ in seen]
    assert sum(name.endswith("then") for name in names) == 1
    assert not any(name.endswith("other") for name in names)


@pytest.mark.parametrize("opens", [True, False])
async def test_the_body_of_a_function_is_seen(opens: bool) -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [2], name="x")

    @fe.function(g, ["float32"])
    def body(v: fe.Tensor) -> fe.Tensor:
        return v.graph.ops.Neg(v.graph.ops.Exp(v, name="inner"), name="out")

    _, seen = await observed(g, body(x), {"x:0": [0.0, 0.0]}, open_calls=opens)
    inner = [made[0] for node, _, made in seen if node.endswith("inner")]
    assert [each.tolist() for each in inner] == [[1.0, 1.0]]


async def test_a_kernel_on_a_thread_and_on_another_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "HEAVY_MICROSECONDS", -1.0)
    monkeypatch.setattr(signatures, "INLINE_BYTES", -1)
    monkeypatch.setattr(signatures, "ESTIMATE_BYTES", -1)
    g = fe.Graph()
    with g.device("/cpu:0"):
        product = g.ops.MatMul(
            g.placeholder("float32", [8, 8], name="x"), np.eye(8, dtype=np.float32), name="p"
        )
    with g.device("/cpu:1"):
        y = g.ops.Exp(product, name="y")
    value, seen = await observed(g, y, {"x:0": np.zeros((8, 8))}, device_count={"CPU": 2})
    assert value.sum() == 64.0
    order = [node for node, _, _ in seen if node in ("p", "y")]
    assert order == ["p", "y"]


@pytest.mark.parametrize("other", [{"guard": True}, {"trace": "nodes"}])
def test_one_step_has_one_of_them(other: dict[str, Any]) -> None:
    with pytest.raises(fe.errors.InvalidArgumentError, match="one step has one of them"):
        fe.RunOptions(observe=print, **other)
    with pytest.raises(fe.errors.InvalidArgumentError, match="observe is 3: it must be a function"):
        fe.RunOptions(observe=3)  # type: ignore[arg-type]


async def test_an_error_of_the_function_ends_the_step_and_names_the_node() -> None:
    def observe(node: str, tag: object, outputs: object) -> None:
        raise LookupError("no room")

    g = fe.Graph()
    y = g.ops.Exp(g.placeholder("float32", [], name="x"), name="y")
    async with fe.Session(g) as session:
        with pytest.raises(fe.errors.OpError, match="no room") as caught:
            await session.run(y, {"x:0": 1.0}, options=fe.RunOptions(observe=observe))
        assert await session.run(y, {"x:0": 0.0}) == 1.0
    assert caught.value.node_name == "y"
