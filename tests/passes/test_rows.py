"""Rows of one elementwise function: one line of the compiled tier, with the interpreter's bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import flowengine as fe
from flowengine.core.arrays import to_array
from flowengine.kernels.load import registry
from flowengine.passes.blocks.codegen_rows import Row
from flowengine.runtime import tiers
from flowengine.testing.control import conditional, while_loop

_OPS = ("Tanh", "Neg", "Sqrt", "Exp", "Sin", "Floor", "Sigmoid", "Square", "Rint", "Cos", "Abs")


@pytest.fixture(autouse=True)
def _compiled_from_the_first_run() -> Iterator[None]:
    before = tiers.HOT_RUNS
    tiers.HOT_RUNS = 0
    yield
    tiers.HOT_RUNS = before


def row(graph: fe.Graph, op: str, x: Any, count: int) -> list[Any]:
    """The values of a row, that before it included."""
    values = [x]
    for _ in range(count):
        values.append(getattr(graph.ops, op)(values[-1]))
    return values


def in_both(graph: fe.Graph, fetches: list[Any], feeds: dict[str, Any]) -> tuple[list[Any], str]:
    """(what is fetched, the same in both tiers; the source of the compiled plan)"""
    results = []
    source = ""
    for compiled in (True, False):
        with fe.blocking.Session(graph, config=fe.Config(compile_hot_plans=compiled)) as session:
            results.append([to_array(value) for value in session.run(fetches, feeds)])
            if compiled:
                source = session.explain(fetches, list(feeds), source=True)
    for got, want in zip(*results, strict=True):
        assert (got.dtype, got.shape, got.strides) == (want.dtype, want.shape, want.strides)
        assert got.tobytes("A") == want.tobytes("A")
    return results[0], source


@given(
    op=st.sampled_from(_OPS),
    count=st.integers(1, 30),
    x=st.sampled_from(["float32", "float64"]).flatmap(
        lambda kind: hnp.arrays(kind, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    ),
    turned=st.booleans(),
    watched=st.lists(st.integers(0, 30), max_size=2),
)
def test_a_row_has_the_interpreters_bits(
    op: str, count: int, x: Any, turned: bool, watched: list[int]
) -> None:
    graph = fe.Graph()
    values = row(graph, op, graph.placeholder(x.dtype.name, None, name="x"), count)
    fetches = [values[index] for index in {count, *(w for w in watched if 0 < w <= count)}]
    in_both(graph, fetches, {"x:0": x.T if turned else x})


@pytest.mark.parametrize("size", [1, 4, 6, 7, 100])
def test_a_row_is_one_line(size: int) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [size], name="x")
    end = row(graph, "Tanh", x, 300)[-1]
    numbers = np.linspace(-3, 3, size, dtype=np.float32)
    (result,), source = in_both(graph, [end], {"x:0": numbers})
    for _ in range(300):
        numbers = np.tanh(numbers)
    assert result.tobytes() == numbers.tobytes()
    assert source.count("# Tanh") == 1


def test_what_is_taken_twice_or_fetched_ends_a_row() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [2], name="x")
    first = row(graph, "Neg", x, 10)
    second = row(graph, "Neg", first[-1], 10)
    third = row(graph, "Tanh", second[-1], 10)
    total = graph.ops.Add(first[-1], third[-1])
    fetches = [total, second[-1]]
    _, source = in_both(graph, fetches, {"x:0": np.array([1.5, -0.0], np.float32)})
    assert source.count("# Neg") == 2
    assert source.count("# Tanh") == 1


def test_rows_on_the_sides_of_a_conditional_and_in_a_loop() -> None:
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [3], name="x")
    way = graph.placeholder("bool", [], name="way")
    chosen = conditional(
        graph, way, lambda v: [row(graph, "Tanh", v, 9)[-1]], lambda v: [row(graph, "Neg", v, 9)[-1]], [x]
    )[0]
    n = graph.constant(5)
    _, looped = while_loop(
        graph,
        lambda i, v, n: ops.Less(i, n),
        lambda i, v, n: [ops.Add(i, 1), row(graph, "Sin", v, 12)[-1]],
        [graph.constant(0), chosen],
        invariants=[n],
    )
    numbers = np.array([0.1, np.nan, -np.inf], np.float32)
    for side in (True, False):
        in_both(graph, [looped, chosen], {"x:0": numbers, "way:0": np.array(side)})


def test_control_edges_around_a_row() -> None:
    """What waits for a node in the midst of a row, and what such a node waits for."""
    graph = fe.Graph()
    ops = graph.ops
    variable = ops.VariableV2(dtype="float32", shape=[2], name="v")
    start = ops.Assign(variable, np.zeros(2, np.float32))
    x = graph.placeholder("float32", [2], name="x")
    before = row(graph, "Tanh", x, 10)[-1]
    with graph.control_dependencies([ops.AssignAdd(variable, before)]):
        middle = ops.Tanh(before)
    after = row(graph, "Tanh", middle, 10)[-1]
    with graph.control_dependencies([middle]):
        read = ops.Identity(variable)
    found = []
    for compiled in (True, False):
        with fe.blocking.Session(graph, config=fe.Config(compile_hot_plans=compiled)) as session:
            session.run([], targets=[start])
            found.append(session.run([read, after], {"x:0": np.array([0.5, -2.0], np.float32)}))
    for got, want in zip(*found, strict=True):
        assert to_array(got).tobytes() == to_array(want).tobytes()
    assert (to_array(found[0][0]) != 0).all()


def test_functions_without_a_fast_way_are_called_one_by_one() -> None:
    """A function that `at` cannot apply, and numbers of rank 0."""
    divmod_free = Row(np.conjugate, 3)
    assert divmod_free(np.array([1 + 2j])).tobytes() == np.array([1 - 2j]).tobytes()
    number = Row(np.tanh, 4)(np.float32(0.5))
    assert number == np.tanh(np.tanh(np.tanh(np.tanh(np.float32(0.5)))))


def test_every_function_of_one_operand() -> None:
    """`at` and a call agree for the kernels that are NumPy's own functions."""
    registered = registry()
    registered.candidates("Tanh")
    numbers = np.array([-4.5, -1.0, -0.0, 0.3, 1.0, 77.0], np.float32)
    for op in _OPS:
        for kernel in registered.candidates(op):
            if not isinstance(kernel.function, np.ufunc):
                continue
            with np.errstate(all="ignore"):
                expected = numbers
                for _ in range(5):
                    expected = kernel.function(expected)
                got = Row(kernel.function, 5)(numbers)
            assert got.tobytes() == expected.tobytes(), op
