"""Gradients of tables that are read by rows, whole, or both: their values, and whether they are dense.

A table that is looked up has the gradient of the product of one-hot rows with it. It is `IndexedSlices` if
all reads are of rows, and a `Tensor` if any is of the whole, wherever in the graph the reads are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import flowengine as fe
from tests.effort import examples

ROWS, COLUMNS = 4, 3
START: Any = np.random.RandomState(5).uniform(0.5, 1.5, [ROWS, COLUMNS])
#: Where a read can be: a branch that is taken or not, each round of a loop, the body of a function.
PLACES = ("straight", "taken", "not taken", "loop", "called")

#: (whether rows are read, where, which rows)
Read = tuple[bool, str, list[int]]
reads = st.tuples(
    st.booleans(), st.sampled_from(PLACES), st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=4)
)


def read_of(graph: fe.Graph, table: Any, read: Read, by_product: bool) -> fe.Tensor:
    """A number made of the rows or the whole of a table."""
    is_rows, place, rows = read

    def value(graph: fe.Graph, source: Any) -> fe.Tensor:
        ops = graph.ops
        if not is_rows:
            return fe.reduce_sum(ops.Square(source.value() if hasattr(source, "value") else source))
        if by_product:
            chosen: Any = fe.matmul(np.eye(ROWS)[rows], source)
        elif hasattr(source, "value"):
            chosen = fe.embedding.lookup(source, rows)
        else:
            chosen = ops.GatherV2(source, rows, 0)
        weights = np.arange(1.0, len(rows) + 1)[:, None]
        return fe.reduce_sum(fe.sin(chosen) * weights)

    if place == "straight":
        return value(graph, table)
    if place == "loop":
        start = (graph.constant(0), graph.constant(0.0, "float64"))
        found: fe.Tensor = graph.while_loop(
            lambda count, total: count < 3,
            lambda count, total: (count + 1, total + value(graph, table)),
            start,
        )[1]
        return found
    if place == "called":

        @fe.function(graph, ["float64"])
        def called(source: fe.Tensor) -> fe.Tensor:
            return value(source.graph, source)

        result: fe.Tensor = called(table.value() if hasattr(table, "value") else table)
        return result
    taken = graph.constant(place == "taken")
    chosen: fe.Tensor = graph.cond(taken, lambda: value(graph, table), lambda: graph.constant(1.0, "float64"))
    return chosen


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    wanted=st.lists(reads, min_size=1, max_size=5),
    kind=st.sampled_from(["resource", "reference", "tensor"]),
    aggregation=st.sampled_from(["add", "tree", "accumulate"]),
)
def test_the_gradient_is_that_of_products_and_dense_if_any_read_is_of_the_whole(
    wanted: list[Read], kind: str, aggregation: str
) -> None:
    graph = fe.Graph()
    if kind == "tensor":
        table: Any = graph.constant(START)
    else:
        table = graph.variable(START, name="table", use_resource=kind == "resource")
    found = []
    for by_product in (False, True):
        total = fe.add_n([read_of(graph, table, read, by_product) for read in wanted])
        found += fe.gradients(total, table, aggregation=aggregation)
    assert isinstance(found[0], fe.IndexedSlices) == all(is_rows for is_rows, _, _ in wanted)
    assert isinstance(found[1], fe.Tensor)
    with fe.blocking.Session(graph) as session:
        session.initialize()
        dense, expected = session.run([fe.identity(found[0]), found[1]])
    np.testing.assert_allclose(dense, expected, rtol=1e-12, atol=1e-12)


def test_branches_that_read_rows_or_the_whole_have_a_dense_gradient() -> None:
    graph = fe.Graph()
    table = graph.variable(START, name="table")
    is_rows = graph.placeholder("bool", [])
    read = graph.cond(
        is_rows,
        lambda: fe.reduce_sum(fe.embedding.lookup(table, [1, 1])),
        lambda: fe.reduce_sum(table.value()),
    )
    (found,) = fe.gradients(read, table)
    assert isinstance(found, fe.Tensor)
    with fe.blocking.Session(graph) as session:
        session.initialize()
        rows, whole = (session.run(found, {is_rows: value}) for value in (True, False))
    np.testing.assert_array_equal(rows, [[0.0] * 3, [2.0] * 3, [0.0] * 3, [0.0] * 3])
    np.testing.assert_array_equal(whole, np.ones([ROWS, COLUMNS]))


@fe.custom_gradient
def total_of_rows(x: fe.Tensor) -> Any:
    """The sum of x, with a gradient of which the dense shape is not known."""

    def backward(grad: fe.Tensor) -> fe.IndexedSlices:
        return fe.IndexedSlices(grad * np.ones([2, COLUMNS]), x.graph.constant([2, 2]))

    return fe.reduce_sum(x), backward


@pytest.mark.parametrize("shape", [[ROWS, COLUMNS], [None, COLUMNS], None])
def test_slices_of_unknown_shape_take_that_of_the_dense_gradient_beside_them(shape: Any) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", shape)
    (found,) = fe.gradients([total_of_rows(x), fe.reduce_sum(x)], x)
    with fe.blocking.Session(graph) as session:
        value = session.run(found, {x: START})
    np.testing.assert_array_equal(value, [[1.0] * 3, [1.0] * 3, [3.0] * 3, [1.0] * 3])


def test_slices_beside_the_gradient_of_a_scalar_are_refused() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [])
    with pytest.raises(fe.errors.InvalidArgumentError, match="a scalar has no rows; return a Tensor from"):
        fe.gradients([total_of_rows(x), x * 2.0], x)


@pytest.mark.parametrize("order", [1, -1])
def test_summed_slices_have_the_shape_that_any_of_them_has(order: int) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", None)
    reads = (total_of_rows, lambda x: fe.reduce_sum(fe.gather(x, [0, 2])))
    (found,) = fe.gradients([read(x) for read in reads[::order]], x)
    assert isinstance(found, fe.IndexedSlices)
    assert found.dense_shape is not None
    with fe.blocking.Session(graph) as session:
        shape, value = session.run([found.dense_shape, fe.identity(found)], {x: START})
    assert list(shape) == [ROWS, COLUMNS]
    np.testing.assert_array_equal(value, [[1.0] * 3, [0.0] * 3, [3.0] * 3, [0.0] * 3])


def switched_reads(graph: fe.Graph, table: Any, taken: Any) -> Any:
    """Rows that are read of the outputs of one Switch, by indices from outside of it."""
    otherwise, chosen = graph.ops.Switch(table, taken)
    rows = fe.gather(chosen, graph.constant([0, 1])), fe.gather(otherwise, graph.constant([3, 2])) * 2.0
    return graph.ops.Merge(rows).output


def reads_in_a_loop(graph: fe.Graph, table: Any, taken: Any) -> Any:
    """The same in one round of a loop, whose constants are the indices."""

    def body(count: Any, total: Any) -> Any:
        rows = graph.cond(
            taken,
            lambda: fe.gather(table, graph.constant([0, 1])),
            lambda: fe.gather(table, graph.constant([3, 2])) * 2.0,
        )
        return count + 1, total + rows

    start = (graph.constant(0), graph.constant(np.zeros([2, COLUMNS])))
    return graph.while_loop(lambda count, total: count < 1, body, start)[1]


@pytest.mark.parametrize("read", [switched_reads, reads_in_a_loop])
def test_indices_of_a_branch_are_alive_only_where_it_is_taken(read: Any) -> None:
    graph = fe.Graph()
    table = graph.constant(START)
    taken = graph.placeholder("bool", [])
    (found,) = fe.gradients(fe.reduce_sum(read(graph, table, taken)), table)
    assert isinstance(found, fe.IndexedSlices)
    with fe.blocking.Session(graph) as session:
        values = [session.run(fe.identity(found), {taken: which}) for which in (True, False)]
    np.testing.assert_array_equal(values[0], [[1.0] * 3, [1.0] * 3, [0.0] * 3, [0.0] * 3])
    np.testing.assert_array_equal(values[1], [[0.0] * 3, [0.0] * 3, [2.0] * 3, [2.0] * 3])
