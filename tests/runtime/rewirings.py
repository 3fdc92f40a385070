"""Loops with one edge led elsewhere: which edges are drawn, and the graph that they are drawn in.

`rewirings.json` has what TensorFlow answers; `rewire_in_tensorflow.py` writes it.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Final, NamedTuple

import flowengine as fe
from flowengine.graphs.tensor import Tensor
from flowengine.ir.names import ENTER_OPS, EXIT_OPS, MERGE_OPS, NEXT_ITERATION_OPS, SWITCH_OPS
from flowengine.testing.control import while_loop

RECORDED: Final = Path(__file__).with_suffix(".json")
#: What is asked for, one by one.
FETCHES: Final = ("number:0", "total:0", "other:0", "product:0", "last:0")
_CROSSINGS: Final = ENTER_OPS | EXIT_OPS


class Rewiring(NamedTuple):
    """Input `place` of `node` comes from `source` instead."""

    node: str
    place: int
    source: str


def loops() -> fe.Graph:
    """A loop within a loop, another beside them, and one that begins with what they give."""
    g = fe.Graph()
    ops = g.ops
    zero, one, three = (g.constant(float(n), name=f"n{n}") for n in (0, 1, 3))

    def inner(total: Tensor, upto: Tensor, step: Tensor) -> list[Tensor]:
        found = while_loop(
            g,
            lambda j, s, upto, step: ops.Less(j, upto),
            lambda j, s, upto, step: [ops.Add(j, step), ops.Add(s, ops.Mul(j, step))],
            [ops.Identity(step), ops.Identity(total)],
            invariants=[upto, step],
            name="inner",
        )
        return [ops.Identity(found[1])]

    def body(i: Tensor, total: Tensor, limit: Tensor, step: Tensor) -> list[Tensor]:
        return [ops.Add(i, step), *inner(total, limit, step)]

    number, total = while_loop(
        g,
        lambda i, t, limit, step: ops.Less(i, limit),
        body,
        [zero, one],
        invariants=[three, one],
        name="outer",
    )
    beside = while_loop(
        g,
        lambda k, p, limit, step: ops.Less(k, limit),
        lambda k, p, limit, step: [ops.Add(k, step), ops.Add(p, p)],
        [one, three],
        invariants=[three, one],
        name="beside",
    )
    last = while_loop(
        g,
        lambda m, step, low: ops.Less(low, m),
        lambda m, step, low: [ops.Sub(m, step)],
        [total],
        invariants=[one, beside[0]],
        name="behind",
    )
    for name, tensor in zip(FETCHES, (number, total, *beside, last[0]), strict=True):
        ops.Identity(tensor, name=name.removesuffix(":0"))
    return g


def draw(graph: fe.Graph, count: int, seed: int) -> list[Rewiring]:
    """So many rewirings that keep types as they are; Enters and Exits are in half of them."""
    rng = random.Random(seed)
    nodes = [node for node in graph if node.inputs]
    crossings = [node for node in nodes if node.op in _CROSSINGS]
    control = [node for node in nodes if node.op in MERGE_OPS | SWITCH_OPS | NEXT_ITERATION_OPS | _CROSSINGS]
    found: list[Rewiring] = []
    while len(found) < count:
        node = rng.choice(rng.choice((crossings, crossings, control, nodes)))
        index = rng.randrange(len(node.inputs))
        wanted = node.input_types()[index]
        sources = [
            f"{other.name}:{slot}"
            for other in graph
            for slot, dtype in enumerate(other.output_types)
            if dtype is wanted and str(node.inputs[index]) != f"{other.name}:{slot}"
        ]
        if sources:
            drawn = Rewiring(node.name, index, rng.choice(sources))
            if drawn not in found:
                found.append(drawn)
    return found


def rewired(graph_def: Any, rewiring: Rewiring) -> Any:
    """The GraphDef with that one edge led elsewhere; it is changed."""
    node = next(node for node in graph_def.node if node.name == rewiring.node)
    node.input[rewiring.place] = rewiring.source
    return graph_def
