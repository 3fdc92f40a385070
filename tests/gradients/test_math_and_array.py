"""Gradients of arithmetic and of rows in cases that samples and differences do not cover.

Zeros among factors, ties, rows written twice, slices that stay slices, and ops whose records cannot tell.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.gradients.values import IndexedSlices


def evaluate(graph: fe.Graph, fetches: Any, feeds: Any = None) -> Any:
    with fe.blocking.Session(graph) as session:
        return session.run(fetches, feeds)


def the_gradient(y: fe.Tensor, x: fe.Tensor, weights: Any = None) -> fe.Tensor:
    (found,) = fe.gradients(y, x, weights)
    assert isinstance(found, fe.Tensor)
    return found


def the_slices(y: fe.Tensor, x: fe.Tensor, weights: Any = None) -> IndexedSlices:
    (found,) = fe.gradients(y, x, weights)
    assert isinstance(found, IndexedSlices)
    return found


@pytest.mark.parametrize("zeros", [[], [1], [0], [3], [1, 2], [0, 3]])
@pytest.mark.parametrize("op", ["Cumprod", "Prod", "SegmentProd"])
def test_products_with_zeros_among_the_factors(op: str, zeros: list[int]) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [4], name="x")
    if op == "Cumprod":
        y = graph.ops.Cumprod(x, 0)
    elif op == "Prod":
        y = graph.ops.Prod(x, [0], keep_dims=True)
    else:
        y = graph.ops.SegmentProd(x, [0, 0, 0, 0])
    value = np.array([2.0, 3.0, -5.0, 7.0])
    value[zeros] = 0
    weights = np.arange(1.0, 5.0)[: 4 if op == "Cumprod" else 1]
    expected = []
    for i in range(4):
        # A product is linear in each of its factors.
        with_one, with_zero = value.copy(), value.copy()
        with_one[i], with_zero[i] = 1, 0
        change = np.cumprod(with_one) - np.cumprod(with_zero)
        expected.append((weights * (change if op == "Cumprod" else change[-1:])).sum())
    found = evaluate(graph, the_gradient(y, x, weights), {x: value})
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("zeros", [[0], [3], [1, 2], [0, 3]])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_running_products_from_either_end_with_zeros(
    exclusive: bool, reverse: bool, zeros: list[int]
) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [4], name="x")
    y = graph.ops.Cumprod(x, 0, exclusive=exclusive, reverse=reverse)
    value, weights = np.array([2.0, 3.0, -5.0, 7.0]), np.arange(1.0, 5.0)
    value[zeros] = 0

    def products(factors: Any) -> Any:
        ordered = factors[::-1] if reverse else factors
        found = np.cumprod([1.0, *ordered[:-1]] if exclusive else ordered)
        return found[::-1] if reverse else found

    expected = []
    for i in range(4):
        # A product is linear in each of its factors.
        with_one, with_zero = value.copy(), value.copy()
        with_one[i], with_zero[i] = 1, 0
        expected.append((weights * (products(with_one) - products(with_zero))).sum())
    found = evaluate(graph, the_gradient(y, x, weights), {x: value})
    np.testing.assert_allclose(found, expected)


#: (op, inputs, the gradient of the output, the gradients of the inputs) where differences say nothing.
EDGES: list[tuple[str, list[Any], list[Any], list[list[Any] | None]]] = [
    # No logarithm of what is not positive.
    ("Pow", [[0.0, -2.0, 4.0], [2.0, 3.0, 1.0]], [1, 1, 1], [[0, 12, 1], [0, 0, 4 * np.log(4)]]),
    # To the first where both are the same.
    ("Maximum", [[1.0, 2.0, 3.0], [1.0, 3.0, 2.0]], [5, 6, 7], [[5, 0, 7], [0, 6, 0]]),
    ("Minimum", [[1.0, 2.0, 3.0], [1.0, 3.0, 2.0]], [5, 6, 7], [[5, 6, 0], [0, 0, 7]]),
    # At a bound, as between them.
    (
        "ClipByValue",
        [[1.0, 2.0, 0.0, 3.0], [1.0] * 4, [2.0] * 4],
        [5, 6, 7, 8],
        [[5, 6, 0, 0], [0, 0, 7, 0], [0, 0, 0, 8]],
    ),
    # Nothing comes back where nothing arrives, whatever the other factor is.
    ("MulNoNan", [[np.inf, np.nan, 3.0], [1.0, 2.0, 0.0]], [0, 0, 1], [[0, 0, 0], [0, 0, 3]]),
    # Zero by zero is zero.
    ("Xdivy", [[0.0, 6.0], [0.0, 2.0]], [1, 1], [[0, 0.5], [0, -1.5]]),
    ("Xlogy", [[0.0, 6.0], [0.0, 2.0]], [1, 1], [[0, np.log(2)], [0, 3]]),
    # No direction at zero.
    ("ComplexAbs", [[0j, 3 + 4j]], [1, 5], [[0, 3 + 4j]]),
    ("Sign", [[0j, 3 + 4j]], [1, 4 - 3j], [[0, (4 - 3j) / 5]]),
    ("Abs", [[0.0, -0.0, -2.0]], [1, 1, 1], [[0, 0, -1]]),
    ("EuclideanNorm", [[[0.0, 0.0], [3.0, 4.0]], [1]], [1, 5], [[[0, 0], [3, 4]], None]),
    # Rows that count nowhere get nothing, though they be as great as the greatest.
    ("UnsortedSegmentMax", [[5.0, 1.0, 5.0], [0, 0, -1], 2], [6, 7], [[6, 0, 0], None, None]),
    ("UnsortedSegmentMin", [[1.0, 5.0, 1.0], [0, 0, -1], 2], [6, 7], [[6, 0, 0], None, None]),
]


@pytest.mark.parametrize(("op", "inputs", "weights", "expected"), EDGES, ids=[each[0] for each in EDGES])
def test_slopes_where_differences_say_nothing(
    op: str, inputs: list[Any], weights: list[Any], expected: list[Any]
) -> None:
    graph = fe.Graph()
    values = [np.array(each, np.int32 if expected[i] is None else None) for i, each in enumerate(inputs)]
    given = [
        graph.constant(each) if like is None else graph.placeholder(each.dtype.name, each.shape)
        for each, like in zip(values, expected, strict=True)
    ]
    y = getattr(graph.ops, op)(*given)
    arrives = graph.placeholder(y.dtype.name, y.shape)
    feeds = {each: value for each, value in zip(given, values, strict=True) if each.op.type == "Placeholder"}
    wanted = [each for each in given if each in feeds]
    found = evaluate(graph, fe.gradients(y, wanted, arrives), {**feeds, arrives: weights})
    for got, each in zip(found, [each for each in expected if each is not None], strict=True):
        np.testing.assert_allclose(got, each)


@pytest.mark.parametrize("op", ["Sum", "Mean", "Max", "Prod"])
@pytest.mark.parametrize("dims", [[None, 0, 3], [None, None, 3], None])
def test_reductions_of_nothing_have_gradients_of_nothing(op: str, dims: list[int | None] | None) -> None:
    """A dimension of none beside one that the graph does not tell: neither can be found from the other."""
    graph = fe.Graph()
    x = graph.placeholder("float64", dims, name="x")
    found = the_gradient(getattr(graph.ops, op)(x, [2]), x)
    assert evaluate(graph, found, {x: np.zeros((2, 0, 3))}).shape == (2, 0, 3)


def test_indices_that_are_passed_over_get_no_gradient() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [3, 2], name="x")
    y = graph.ops.GatherNd(x, [[1], [7], [-1], [1]], bad_indices_policy="IGNORE")
    weights = np.arange(8.0).reshape(4, 2)
    found = evaluate(graph, the_gradient(y, x, weights), {x: np.zeros((3, 2))})
    np.testing.assert_array_equal(found, [[0, 0], weights[0] + weights[3], [0, 0]])


@pytest.mark.parametrize("axes", [[0, 1], [1, 0, 2], [-1, 0], [2, -1, 1], []])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_products_along_several_axes(axes: list[int], known: bool, dtype: str) -> None:
    random = np.random.default_rng(3)
    value = random.uniform(0.5, 2, (2, 3, 4)).astype(dtype)
    if dtype == "complex128":
        value *= np.exp(1j * random.uniform(-1, 1, value.shape))
    value[0, 1, 2] = value[1, 1, 0] = value[1, 2, 0] = 0
    graph = fe.Graph()
    x = graph.placeholder(dtype, value.shape if known else None, name="x")
    y = graph.ops.Prod(x, axes)
    along = tuple({axis % 3 for axis in axes})
    weights = random.uniform(1, 2, value.prod(along).shape).astype(dtype)
    expected = np.empty_like(value)
    for place in np.ndindex(*value.shape):
        # A product is linear in each of its factors.
        with_one, with_zero = value.copy(), value.copy()
        with_one[place], with_zero[place] = 1, 0
        expected[place] = (weights * np.conj(with_one.prod(along) - with_zero.prod(along))).sum()
    np.testing.assert_allclose(evaluate(graph, the_gradient(y, x, weights), {x: value}), expected)


@pytest.mark.parametrize("op", ["Max", "Min"])
def test_equal_extremes_share(op: str) -> None:
    graph = fe.Graph()
    x = graph.constant([[1.0, 5.0, 1.0], [5.0, 5.0, 1.0]], "float64")
    y = getattr(graph.ops, op)(x, [1])
    expected = {"Max": [[0, 6, 0], [6, 6, 0]], "Min": [[3, 0, 3], [0, 0, 12]]}[op]
    np.testing.assert_allclose(evaluate(graph, the_gradient(y, x, np.array([6.0, 12.0]))), expected)


def test_the_last_of_several_rows_for_one_place_gets_the_gradient() -> None:
    graph = fe.Graph()
    first = graph.constant([1.0, 2.0], "float64")
    second = graph.constant([[3.0], [4.0]], "float64")
    indices = graph.placeholder("int32", [2], name="indices")
    y = graph.ops.DynamicStitch([indices, [[1], [2]]], [first, second])
    of_first, of_second = fe.gradients(y, [first, second], np.array([10.0, 20.0, 30.0]))
    found = evaluate(graph, [of_first, of_second], {indices: [0, 1]})
    np.testing.assert_allclose(found[0], [10.0, 0.0])
    np.testing.assert_allclose(found[1], [[20.0], [30.0]])


def test_picked_rows_have_slices() -> None:
    graph = fe.Graph()
    table = graph.placeholder("float64", [5, 2], name="table")
    y = graph.ops.GatherV2(table, [[3, 1], [3, 0]], 0)
    found = the_slices(y, table)
    values, indices, shape = evaluate(graph, [found.values, found.indices, found.dense_shape])
    np.testing.assert_array_equal(indices, [3, 1, 3, 0])
    np.testing.assert_array_equal(values, np.ones((4, 2)))
    np.testing.assert_array_equal(shape, [5, 2])


@pytest.mark.parametrize("known", [True, False])
def test_slices_stay_slices_through_casts_signs_biases_and_shards(known: bool) -> None:
    graph = fe.Graph()
    shards = [
        graph.placeholder("float32", [rows if known else None, 4], name=f"shard{rows}") for rows in (2, 3)
    ]
    table = graph.ops.ConcatV2(shards, 0)
    wide = graph.ops.Cast(graph.ops.Identity(table), DstT="float64")
    turned, bias = graph.ops.Neg(-wide), graph.constant(np.ones(4))
    y = graph.ops.GatherV2(graph.ops.BiasAdd(turned, bias), [4, 1, 1, 2], 0)
    *found, of_bias = fe.gradients(y, [*shards, bias])
    assert isinstance(of_bias, fe.Tensor)
    assert all(isinstance(each, IndexedSlices) for each in found)
    dense = [np.zeros((2, 4)), np.zeros((3, 4))]
    for each, whole in zip(found, dense, strict=True):
        assert isinstance(each, IndexedSlices)
        feeds = {shard: np.zeros((rows, 4)) for shard, rows in zip(shards, (2, 3), strict=True)}
        values, indices, sums = evaluate(graph, [each.values, each.indices, of_bias], feeds)
        np.add.at(whole, indices, values)
        np.testing.assert_array_equal(sums, [4.0] * 4)
    np.testing.assert_array_equal(dense[0], [[0] * 4, [2] * 4])
    np.testing.assert_array_equal(dense[1], [[1] * 4, [0] * 4, [1] * 4])


def test_slices_become_dense_through_other_shapes_and_axes_that_are_not_written_as_0() -> None:
    """As in TensorFlow 1.15, so that norms agree: see `test_tied.py`."""
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float64", [4, 6], name="x")
    two = graph.placeholder("int32", [], name="two")
    by_rank = ops.GatherV2(x, [1, 1], -2)
    squeezed = ops.GatherV2(ops.Squeeze(ops.ExpandDims(x, 1)), [1, 1], 0)
    in_pairs = ops.GatherV2(ops.Reshape(x, [4, 2, 3]), [1, 1], 0)
    unlike_rows = ops.GatherV2(ops.Reshape(x, ops.Pack([two, two, graph.constant(6)])), [1], 0)
    row, half = np.zeros((4, 6)), np.repeat([[0.0], [0.0], [1.0], [1.0]], 6, axis=1)
    row[1] = 2.0
    for y, expected in ((by_rank, row), (squeezed, row), (in_pairs, row), (unlike_rows, half)):
        found = the_gradient(y, x)
        assert isinstance(found, fe.Tensor)
        np.testing.assert_array_equal(evaluate(graph, found, {x: np.zeros((4, 6)), two: 2}), expected)


@pytest.mark.parametrize("dims", [[None, 2], [5, None], [5, 0], None])
def test_picked_rows_of_any_shape_have_slices(dims: list[int | None] | None) -> None:
    """However little the graph tells of the rows and of how many are picked."""
    graph = fe.Graph()
    table = graph.placeholder("float64", dims, name="table")
    picked = graph.placeholder("int32", [2, None], name="picked")
    found = the_slices(graph.ops.GatherV2(table, picked, 0), table)
    width = 0 if dims == [5, 0] else 2
    feeds = {table: np.zeros((5, width)), picked: [[3, 1], [3, 0]]}
    values, indices = evaluate(graph, [found.values, found.indices], feeds)
    np.testing.assert_array_equal(indices, [3, 1, 3, 0])
    np.testing.assert_array_equal(values, np.ones((4, width)))


def test_slices_of_columns_put_together() -> None:
    graph = fe.Graph()
    parts = [graph.placeholder("float64", [3, columns], name=f"part{columns}") for columns in (1, 2)]
    y = graph.ops.GatherV2(graph.ops.ConcatV2(parts, -1), [2, 2], 0)
    found = fe.gradients(y, parts, np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    for each, expected in zip(found, [[[1], [4]], [[2, 3], [5, 6]]], strict=True):
        assert isinstance(each, IndexedSlices)
        np.testing.assert_array_equal(evaluate(graph, each.values), expected)


def test_what_hands_several_tensors_on() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [], name="x")
    z = graph.placeholder("float32", [2], name="z")
    count = graph.constant(3)
    y = graph.ops.IdentityN([x, count, z])
    of_x, of_z = fe.gradients(y[0], [x, z], 5.0)
    np.testing.assert_array_equal(evaluate(graph, of_x), 5.0)
    np.testing.assert_array_equal(evaluate(graph, of_z), [0.0, 0.0])


def test_a_reference_hands_its_gradient_on() -> None:
    graph = fe.Graph()
    variable = graph.ops.VariableV2(dtype="float32", shape=[2])
    y = graph.ops.Mul(graph.ops.RefIdentity(variable), 3.0)
    np.testing.assert_array_equal(evaluate(graph, the_gradient(y, variable)), [3.0, 3.0])


def test_a_gradient_that_is_prevented() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [], name="x")
    y = graph.ops.PreventGradient(x, message="the table is fixed", name="fixed")
    with pytest.raises(LookupError, match=r"'fixed'.*the table is fixed"):
        fe.gradients(y, x)


def test_what_is_printed_has_the_gradient_of_what_is_handed_on() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [2], name="x")
    data = graph.placeholder("float64", [], name="data")
    y = graph.ops.Print(x, [data], message="x: ")
    of_x, of_data = fe.gradients(y, [x, data])
    assert of_data is None
    np.testing.assert_array_equal(evaluate(graph, of_x, {x: [1.0, 2.0], data: 1.0}), [1.0, 1.0])


@pytest.mark.parametrize("op", ["RandomGamma", "StatelessRandomGammaV2"])
def test_gamma_numbers_by_their_parameter(op: str) -> None:
    graph = fe.Graph()
    alpha = graph.placeholder("float64", [2], name="alpha")
    if op == "RandomGamma":
        sample = graph.ops.RandomGamma([3], alpha, seed=1)
        whole = sample
    else:
        sample = whole = graph.ops.StatelessRandomGammaV2([3, 2], [1, 2], alpha)
    found = the_gradient(whole, alpha)
    value = np.array([0.5, 4.0])
    drawn, got = evaluate(graph, [sample, found], {alpha: value})
    slopes = evaluate(graph, graph.ops.RandomGammaGrad(value, drawn))
    np.testing.assert_allclose(got, slopes.sum(axis=0))


def test_rows_of_different_length_as_variants_and_back_to_any_order() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [5], name="x")
    rows = graph.ops.RaggedTensorToVariant([[0, 2, 2, 5]], x, batched_input=True, Tsplits="int64")
    back = graph.ops.RaggedTensorFromVariant(
        rows, input_ragged_rank=0, output_ragged_rank=1, Tvalues="float64", Tsplits="int64"
    )
    values = back[-1]
    first = the_gradient(graph.ops.Mul(values, graph.ops.Mul(values, values)), x)
    second = the_gradient(first, x)
    value = np.array([1.0, -2.0, 3.0, 4.0, 0.5])
    got = evaluate(graph, [first, second], {x: value})
    np.testing.assert_allclose(got[0], 3 * value**2)
    np.testing.assert_allclose(got[1], 6 * value)


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
@pytest.mark.parametrize("known", [True, False])
def test_rows_of_batches_along_any_axis(axis: int, known: bool) -> None:
    graph = fe.Graph()
    params = np.arange(24.0).reshape(2, 3, 4)
    indices = np.array([[2, 0], [1, 1]])
    batch = 1 if axis in (-1, -2, 1) else 0
    x = graph.placeholder("float64", params.shape if known else None, name="x")
    i = graph.placeholder("int64", indices.shape if known else None, name="i")
    where = graph.constant(axis) if known else graph.placeholder("int32", [], name="where")
    places = indices % params.shape[axis]
    y = graph.ops.GatherV2(x, i, where, batch_dims=batch)
    weights = graph.placeholder("float64", name="weights")
    feeds: dict[fe.Tensor, Any] = {x: params, i: places} | ({} if known else {where: axis})
    picked = evaluate(graph, y, feeds)
    drawn = np.random.default_rng(axis % 3).normal(size=picked.shape)
    (found,) = fe.gradients(y, x, weights)
    assert found is not None
    if isinstance(found, IndexedSlices):
        expected = np.zeros_like(params)
        values, rows = evaluate(graph, [found.values, found.indices], {**feeds, weights: drawn})
        got = np.zeros_like(params)
        np.add.at(got, rows, values)
    else:
        got = evaluate(graph, found, {**feeds, weights: drawn})
    expected = np.zeros_like(params)
    for position in np.ndindex(*params.shape):
        unit = np.zeros_like(params)
        unit[position] = 1
        expected[position] = (evaluate(graph, y, {**feeds, x: unit}) * drawn).sum()
    np.testing.assert_allclose(got, expected)


def test_batches_that_are_counted_from_behind_and_turn_out_to_be_none() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [3, 2], name="x")
    indices = graph.placeholder("int32", None, name="indices")
    y = graph.ops.GatherV2(x, indices, 0, batch_dims=-1)
    weights = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    found = evaluate(graph, the_gradient(y, x, weights), {x: np.zeros((3, 2)), indices: [2, 0, 2]})
    np.testing.assert_array_equal(found, [[3.0, 4.0], [0.0, 0.0], [6.0, 8.0]])


def test_a_tile_of_unknown_shape_tells_no_wrong_rank() -> None:
    graph = fe.Graph()
    shape = graph.placeholder("int32", [2], name="shape")
    pairs = graph.ops.Reshape(graph.ops.Pack([shape, shape], axis=1), [-1])
    assert graph.ops.Fill(pairs, 0.0).shape.rank == 4
