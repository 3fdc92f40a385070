"""Random graphs, their copies with one planted change, and records of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import flowengine as fe
from flowengine.core.arrays import Array
from flowengine.ir.attrs import TensorAttr
from flowengine.tools.compare import StepRecord, plain_config, record_step

WIDTH = 4


def network(layers: int, seed: int = 0, *, dtype: str = "float32") -> fe.Graph:
    """Build a net of `layers` layers with seven nodes each, whose values stay of the order of one."""
    random = np.random.default_rng(seed)
    graph = fe.Graph()
    hidden = graph.placeholder(dtype, [None, WIDTH], name="x")
    for number in range(layers):
        with graph.name_scope(f"layer_{number}"):
            weights = (np.eye(WIDTH) + 0.05 * random.standard_normal((WIDTH, WIDTH))).astype(np.float32)
            bias = (0.05 * random.standard_normal(WIDTH)).astype(np.float32)
            product = graph.ops.MatMul(
                hidden, graph.constant(weights.astype(dtype), name="weights"), name="product"
            )
            biased = graph.ops.BiasAdd(
                product, graph.constant(bias.astype(dtype), name="bias"), name="biased"
            )
            active = graph.ops.LeakyRelu(biased, alpha=0.2, name="active")
            hidden = graph.ops.Tanh(active, name="squashed")
            hidden = graph.ops.Add(hidden, active, name="sum") if number % 3 == 0 else hidden
    graph.ops.Identity(hidden, name="y")
    return graph


def changed(graph: fe.Graph, name: str, op: str | None = None, **attrs: Any) -> fe.Graph:
    """Return a copy of a graph with another op, or other attributes, at one node."""
    copy = fe.Graph()
    for node in graph:
        if node.name != name:
            copy.add(node)
            continue
        made = {**node.attrs, **attrs}
        definition = node.op_def
        if op is not None:
            definition = copy.registry.get(op)
            assert definition is not None
            made = {each.name: made[each.name] for each in definition.attrs if each.name in made}
        copy.add(replace(node, op=op or node.op, attrs=made, op_def=definition))
    return copy


def with_weight(graph: fe.Graph, name: str, place: int, factor: float = 1.5) -> fe.Graph:
    """Return a copy of a graph with one element of a constant multiplied, or set if it is zero."""
    attr = graph[name].attrs["value"]
    value = np.array(attr.value())
    old = value.reshape(-1)[place]
    value.reshape(-1)[place] = old * factor if old else 1
    return changed(graph, name, value=TensorAttr.of(value, attr.dtype))


def feeds(seed: int = 1, rows: int = 3) -> dict[str, Array]:
    """Return a batch for `network`."""
    return {"x:0": np.random.default_rng(seed).standard_normal((rows, WIDTH)).astype(np.float32)}


async def recorded(
    graph: fe.Graph, fed: Mapping[str, Any], fetches: list[str] | None = None, **options: Any
) -> StepRecord:
    """Record a step of a graph."""
    async with fe.Session(graph, config=plain_config()) as session:
        return (await record_step(session, fetches or ["y:0"], fed, **options))[1]
