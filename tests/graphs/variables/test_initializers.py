"""Initializers: their distributions by the Kolmogorov-Smirnov test, and what is told of shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import flowengine as fe


def value(initializer: Any, shape: list[int], dtype: str = "float64", seed: int | None = None) -> Any:
    graph = fe.Graph()
    graph.seed = seed
    v = graph.variable(initializer, shape=shape, dtype=dtype)
    with fe.blocking.Session(graph) as session:
        session.run(v.initializer)
        return session.run(v.value())


def cut(deviation: float) -> Any:
    """The distribution of a truncated normal whose standard deviation, when cut, is this."""
    scale = deviation / 0.87962566103423978
    return stats.truncnorm(-2, 2, scale=scale)


@pytest.mark.parametrize(
    ("initializer", "distribution"),
    [
        (fe.initializers.uniform(-1.0, 3.0, seed=1), stats.uniform(-1, 4)),
        (fe.initializers.uniform(seed=1), stats.uniform(0, 1)),
        (fe.initializers.normal(2.0, 3.0, seed=1), stats.norm(2, 3)),
        (fe.initializers.truncated_normal(2.0, 3.0, seed=1), stats.truncnorm(-2, 2, loc=2, scale=3)),
        (fe.initializers.glorot_uniform(seed=1), stats.uniform(-0.2, 0.4)),
        (fe.initializers.glorot_normal(seed=1), cut(np.sqrt(2 / 150))),
        (fe.initializers.he_uniform(seed=1), stats.uniform(-np.sqrt(6 / 50), 2 * np.sqrt(6 / 50))),
        (fe.initializers.he_normal(seed=1), cut(np.sqrt(2 / 50))),
        (fe.initializers.lecun_uniform(seed=1), stats.uniform(-np.sqrt(3 / 50), 2 * np.sqrt(3 / 50))),
        (fe.initializers.lecun_normal(seed=1), cut(np.sqrt(1 / 50))),
        (
            fe.initializers.variance_scaling(3.0, "fan_out", "untruncated_normal", seed=1),
            stats.norm(0, np.sqrt(3 / 100)),
        ),
    ],
)
def test_values_are_distributed_as_they_should(initializer: Any, distribution: Any) -> None:
    drawn = value(initializer, [50, 100]).reshape(-1)
    assert stats.kstest(drawn, distribution.cdf).pvalue > 0.01


def test_a_kernels_window_counts_for_inputs_and_outputs() -> None:
    drawn = value(fe.initializers.glorot_uniform(seed=1), [3, 3, 16, 32])
    limit = np.sqrt(6 / (9 * 48))
    assert 0.99 * limit < np.abs(drawn).max() <= limit
    assert np.abs(value(fe.initializers.he_uniform(seed=1), [600])).max() <= np.sqrt(6 / 600)


@pytest.mark.parametrize("shape", [[6, 4], [4, 6], [2, 3, 5]])
def test_an_orthogonal_matrix(shape: list[int]) -> None:
    drawn = value(fe.initializers.orthogonal(2.0, seed=4), shape).reshape(-1, shape[-1])
    rows, columns = drawn.shape
    product = drawn @ drawn.T if rows <= columns else drawn.T @ drawn
    assert np.allclose(product, 4 * np.eye(min(rows, columns)))


def test_constants() -> None:
    assert value(fe.initializers.zeros(), [2], "int32").tolist() == [0, 0]
    assert value(fe.initializers.ones(), [2], "float32").tolist() == [1, 1]
    assert value(fe.initializers.ones(), [2], "bool").tolist() == [True, True]
    assert value(fe.initializers.constant(7), [2, 1], "int64").tolist() == [[7], [7]]
    assert value(fe.initializers.constant([1, 2, 3, 4]), [2, 2], "float32").tolist() == [[1, 2], [3, 4]]
    assert value(fe.initializers.identity(2.0), [2, 3], "float32").tolist() == [[2, 0, 0], [0, 2, 0]]
    assert value(fe.initializers.zeros(), [1], "string").tolist() == [b""]


def test_integers_are_drawn_below_a_maximum() -> None:
    drawn = value(fe.initializers.uniform(2, 5, seed=1), [300], "int32")
    assert set(drawn.tolist()) == {2, 3, 4}


def test_what_does_not_fit_is_told() -> None:
    for initializer, shape, text in [
        (fe.initializers.constant([1, 2, 3]), [2], "3 values"),
        (fe.initializers.orthogonal(), [2], "two axes"),
        (fe.initializers.identity(), [2], "two axes"),
    ]:
        with pytest.raises(fe.errors.InvalidArgumentError, match=text):
            fe.Graph().variable(initializer, shape=shape)
    with pytest.raises(fe.errors.InvalidArgumentError, match="maximum"):
        fe.Graph().variable(fe.initializers.uniform(), shape=[2], dtype="int32")
    with pytest.raises(fe.errors.InvalidArgumentError, match="positive"):
        fe.initializers.variance_scaling(0)


def test_a_seed_of_the_graph_repeats_values_and_none_does_not() -> None:
    def drawn(seed: int | None) -> list[float]:
        found: list[float] = value(fe.initializers.normal(), [4], seed=seed).tolist()
        return found

    assert drawn(3) == drawn(3) != drawn(4)
    assert drawn(None) != drawn(None)


def test_a_large_variable_of_one_value_is_no_large_constant() -> None:
    for initializer, wanted in [
        (fe.initializers.zeros(), 0),
        (fe.initializers.ones(), 1),
        (fe.initializers.constant([[3.0]]), 3),
    ]:
        graph = fe.Graph()
        v = graph.variable(initializer, shape=[100, 200])
        assert len(graph.to_graph_def().SerializeToString()) < 3000
        with fe.blocking.Session(graph) as session:
            session.initialize()
            found = session.run(v.value())
        assert found.shape == (100, 200)
        assert np.all(found == wanted)


def test_lengths_of_what_is_filled_have_32_bits_where_these_suffice() -> None:
    """No more than the graph is made: the largest would take gigabytes."""
    for shape, wanted in (([2000, 2000], "int32"), ([1, 2**31 - 1], "int32"), ([1, 2**31], "int64")):
        graph = fe.Graph()
        graph.variable(fe.initializers.constant(3.0), shape=shape, dtype="float32", name="v")
        (fill,) = [node for node in graph if node.op == "Fill"]
        lengths = graph[fill.inputs[0].node].attrs["value"].value()
        assert lengths.tolist() == shape
        assert lengths.dtype == wanted
