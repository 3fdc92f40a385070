"""A small model for the tests of `fe.train.fit`, its data and its variables."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import flowengine as fe


class Model(NamedTuple):
    """A small regression: what a test needs of its graph."""

    graph: fe.Graph
    x: Any
    y: Any
    weight: Any
    loss: Any
    error: Any
    step: Any


def model(rate: float = 0.05) -> Model:
    graph = fe.Graph()
    x = graph.placeholder("float32", [None, 2], name="x")
    y = graph.placeholder("float32", [None, 1], name="y")
    weight = graph.variable(np.array([[0.5], [-0.25]], np.float32), name="weight")
    found = x @ weight
    loss = fe.reduce_mean(fe.square(found - y), name="loss")
    error = fe.metrics.mean_absolute_error(y, found)
    return Model(graph, x, y, weight, loss, error, fe.optimizers.Adam(rate).minimize(loss))


def points(count: int, seed: int = 0) -> tuple[Any, Any]:
    numbers = np.random.default_rng(seed)
    x = numbers.normal(size=[count, 2]).astype(np.float32)
    return x, (x @ np.array([[1.0], [2.0]], np.float32) + 0.1).astype(np.float32)


def variables_of(graph: fe.Graph, session: fe.blocking.Session) -> dict[str, Any]:
    """Every variable's value, by name; those of metrics apart."""
    return {each.name: session.run(each.value()) for each in graph.collection("variables")}
