"""The state machine alone, its ready items taken in any order: each order gives what the reference gives.

A real run takes them as they were constructed, but for those that threads finish late.
"""

from __future__ import annotations

import random
from heapq import heapify, heappush
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.arrays import to_array
from flowengine.graphs.tensor import Tensor
from flowengine.testing.control import while_loop
from flowengine.testing.reference import evaluate
from tests.runtime.test_loops_over_devices import GRAPHS
from tests.runtime.test_state import Hand


class Shuffled(Hand):
    """Takes any of the ready items, by chance."""

    chance: random.Random

    def step(self) -> bool:
        ready = self.state.ready
        if not ready:
            return False
        chosen = ready.pop(self.chance.randrange(len(ready)))
        rest = list(ready)
        ready.clear()
        heappush(ready, chosen)
        # The one that is chosen is all that the machine sees; the others come back behind it.
        more = super().step()
        ready += rest
        heapify(ready)
        return more


def check_orders(graph: fe.Graph, fetches: list[str], feeds: dict[str, Any], chance: random.Random) -> None:
    wanted = evaluate(graph, fetches, feeds)
    hand = Shuffled(
        graph,
        [graph.tensor(name) for name in fetches],
        {name.removesuffix(":0"): value for name, value in feeds.items()},
    )
    hand.chance = chance
    for got, want in zip(hand.all(), wanted, strict=True):
        left, right = to_array(got), to_array(want)
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)
    assert not hand.state.frames
    assert not hand.state.root.children


def siblings() -> fe.Graph:
    """A loop of whose body two loops of different lengths are all: one ends while the other goes on."""
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("int32", [], name="x")
    one = ops.Identity(graph.constant(1))

    def counted(start: Tensor, bound: Tensor, step: Tensor) -> Tensor:
        (end,) = while_loop(
            graph,
            lambda j, step, bound: ops.Less(j, bound),
            lambda j, step, bound: [ops.Add(j, step)],
            [start],
            invariants=[step, bound],
        )
        return end

    def body(a: Tensor, b: Tensor, step: Tensor) -> list[Tensor]:
        return [counted(a, ops.Add(a, step), step), counted(b, ops.Add(a, ops.Add(b, step)), step)]

    a, b = while_loop(
        graph,
        lambda a, b, step: ops.Less(a, ops.Add(step, ops.Add(step, step))),
        body,
        [graph.constant(0), x],
        invariants=[one],
    )
    ops.Add(a, b, name="y")
    return graph


SHAPES = {**GRAPHS, "siblings": siblings}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", SHAPES)
def test_loops_in_any_order(shape: str, seed: int) -> None:
    for x in (3, 0):
        check_orders(SHAPES[shape](), ["y:0"], {"x:0": np.int32(x)}, random.Random(seed))


@pytest.mark.parametrize("seed", range(6))
def test_a_value_that_one_merge_does_not_take_comes_to_the_others(seed: int) -> None:
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [], name="x")
    first, value = ops.Neg(x), ops.Square(x)
    early = ops.Merge([first, value])[0]
    off, on = ops.Switch(x, ops.Greater(x, x))
    late, which = ops.Merge([on, value])
    hand = Shuffled(graph, [early, late, which, off], {"x": np.float32(3)})
    hand.chance = random.Random(seed)
    got = hand.all()
    assert got[0] in (-3, 9)
    assert got[1:] == [9, 1, 3]
