"""Random nodes get the seeds that TensorFlow 1.15 gives them, by the graph's seed and their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

import flowengine as fe

RECORDED: Final = json.loads(Path(__file__).with_name("seeds_of_tensorflow.json").read_text())


def build(graph: fe.Graph) -> None:
    """As in `record_seeds.py`."""
    x = graph.placeholder("float32", [4, 3], name="x")
    fe.random_uniform([2, 3], name="uniform", graph=graph)
    fe.random_normal([2, 3], name="normal", graph=graph)
    fe.truncated_normal([2], seed=7, name="truncated", graph=graph)
    fe.random_shuffle(x, name="shuffle")
    fe.random_uniform([2], maxval=9, dtype="int32", name="integers", graph=graph)
    fe.multinomial(x, 3, name="multinomial")
    fe.random_gamma([2], 1.5, name="gamma", graph=graph)
    fe.random_gamma([2], [1.5, 2.0], [[1.0], [2.0]], seed=0, name="gammas", graph=graph)
    fe.random_poisson(2.0, [2], name="poisson", graph=graph)
    fe.random_normal([2, 3], seed=-1, name="negative", graph=graph)
    fe.random_uniform([2, 3], seed=2147483647, name="largest", graph=graph)
    graph.get_variable("w", [3, 2])
    graph.get_variable("v", [3, 2], initializer=fe.initializers.normal(seed=3))
    graph.get_variable("t", [3, 2], initializer=fe.initializers.truncated_normal())
    graph.get_variable("o", [3, 3], initializer=fe.initializers.orthogonal())


@pytest.mark.parametrize(("seed", "known"), RECORDED)
def test_seeds_of_nodes(seed: int | None, known: list[list[Any]]) -> None:
    graph = fe.Graph()
    graph.seed = seed
    build(graph)
    found = [[node.name, node.attrs["seed"], node.attrs["seed2"]] for node in graph if "seed2" in node.attrs]
    assert found == known
