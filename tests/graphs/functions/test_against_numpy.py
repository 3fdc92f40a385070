"""The functions of tensors beside NumPy's, on one small matrix; those that draw, by their seeds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import flowengine as fe

X = np.array([[0.5, -1.5, 2.0], [3.0, 0.25, -0.75]], np.float32)
Y = np.array([[2.0, 1.0, 4.0], [0.5, 3.0, 1.5]], np.float32)


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_a_shape_that_the_step_gives() -> None:
    """A length stands for a vector of it; axes are turned around, however many there are."""
    graph = fe.Graph()
    length, x = graph.placeholder("int32", []), graph.placeholder("float32")
    assert fe.transpose(graph.placeholder("float32", [2, None, 4])).shape.as_list() == [4, None, 2]
    with fe.blocking.Session(graph) as session:
        ones = session.run(fe.ones(length), {length: np.int32(3)})
        assert ones.tolist() == [1, 1, 1]
        for rank in range(4):
            dims = tuple(range(1, rank + 1))
            value = np.arange(math.prod(dims), dtype=np.float32).reshape(dims)
            assert np.array_equal(session.run(fe.transpose(x), {x: value}), value.T)


def test_functions_compute_what_numpy_does() -> None:
    graph = fe.Graph()
    x, y = graph.placeholder("float32", [None, 3]), graph.constant(Y)
    cases: list[tuple[Any, Any]] = [
        (fe.abs(x), abs(X)),
        (fe.square(x), X**2),
        (fe.sqrt(y), np.sqrt(Y)),
        (fe.log1p(y), np.log1p(Y)),
        (fe.maximum(x, 0.0), np.maximum(X, 0)),
        (fe.squared_difference(x, y), (X - Y) ** 2),
        (fe.divide(x, y), X / Y),
        (fe.clip_by_value(x, -1.0, 1.0), X.clip(-1, 1)),
        (fe.cumsum(x, 1, reverse=True), X[:, ::-1].cumsum(1)[:, ::-1]),
        (fe.cast(x, "int32"), X.astype(np.int32)),
        (fe.where(x > 0, x, y), np.where(X > 0, X, Y)),
        (fe.where(x > 0), np.argwhere(X > 0)),
        (fe.logical_xor(x > 0, y > 1), (X > 0) ^ (Y > 1)),
        (fe.reduce_sum(x), X.sum()),
        (fe.reduce_mean(x, 0), X.mean(0)),
        (fe.reduce_max(x, [0, 1], keepdims=True), X.max(keepdims=True)),
        (fe.reduce_prod(y, -1), Y.prod(-1)),
        (fe.reduce_std(x, 1), X.std(1)),
        (fe.reduce_logsumexp(x, 1), np.log(np.exp(X).sum(1))),
        (fe.count_nonzero(fe.nn.relu(x), 1), (X > 0).sum(1)),
        (fe.argmax(x, 1), X.argmax(1)),
        (fe.matmul(x, y, transpose_b=True), X @ Y.T),
        (fe.tensordot(y, y, [[0], [0]]), np.tensordot(Y, Y, ([0], [0]))),
        (fe.einsum("ij,kj->ik", x, y), X @ Y.T),
        (fe.norm(x, axis=1), np.linalg.norm(X, axis=1)),
        (fe.norm(x, 1), abs(X).sum()),
        (fe.trace(fe.matmul(y, y, transpose_b=True)), np.trace(Y @ Y.T)),
        (fe.eye(2, 3, graph=graph), np.eye(2, 3)),
        (fe.zeros_like(x), np.zeros_like(X)),
        (fe.ones_like(x, "int32"), np.ones_like(X, np.int32)),
        (fe.zeros([2], graph=graph), np.zeros(2)),
        (fe.range(1, 7, 2, graph=graph), np.arange(1, 7, 2)),
        (fe.reshape(x, [-1]), X.reshape(-1)),
        (fe.transpose(x), X.T),
        (fe.concat([x, y], 1), np.concatenate([X, Y], 1)),
        (fe.stack([x, y], axis=1), np.stack([X, Y], 1)),
        (fe.split(y, [1, 2], 1)[1], Y[:, 1:]),
        (fe.unstack(y)[1], Y[1]),
        (fe.tile(x, [2, 1]), np.tile(X, [2, 1])),
        (fe.pad(x, [[1, 0], [0, 2]], constant_values=9.0), np.pad(X, [[1, 0], [0, 2]], constant_values=9)),
        (fe.pad(y, [[0, 0], [1, 1]], "REFLECT"), np.pad(Y, [[0, 0], [1, 1]], "reflect")),
        (fe.reverse(x, 1), X[:, ::-1]),
        (fe.roll(x, 1, 1), np.roll(X, 1, 1)),
        (
            fe.meshgrid(fe.range(2, graph=graph), fe.range(3, graph=graph))[0],
            np.meshgrid([0, 1], [0, 1, 2])[0],
        ),
        (fe.gather(x, [1, 0, 1]), X[[1, 0, 1]]),
        (fe.one_hot([1, 2], fe.size(y[0])), np.eye(3)[[1, 2]]),
        (fe.boolean_mask(x, x > 0), X[X > 0]),
        (fe.boolean_mask(y, y[:, 0] > 1), Y[Y[:, 0] > 1]),
        (fe.sequence_mask(graph.constant([1, 3])), [[1, 0, 0], [1, 1, 1]]),
        (fe.sort(y, 0), np.sort(Y, 0)),
        (fe.sort(y, direction="DESCENDING"), -np.sort(-Y)),
        (fe.argsort(y), Y.argsort()),
        (fe.top_k(y, 2)[0], -np.sort(-Y)[:, :2]),
        (fe.searchsorted(fe.sort(y), [[1.0], [1.0]], "right"), [[1], [1]]),
        (fe.bincount(graph.constant([1, 1, 3])), [0, 2, 0, 1]),
        (fe.unsorted_segment_mean(y, [1, 1], 2), [[0, 0, 0], Y.mean(0)]),
        (fe.imag(fe.complex(x, y)), Y),
        (fe.string_join([fe.as_string(fe.cast(y[0], "int32")), "!"]), [b"2!", b"1!", b"4!"]),
        (fe.nn.softmax(x), softmax(X)),
        (fe.nn.softmax(y, axis=0), softmax(Y.T).T),
        (fe.nn.leaky_relu(x, 0.1), np.where(X > 0, X, 0.1 * X)),
        (fe.nn.swish(x), X / (1 + np.exp(-X))),
        (fe.nn.l2_normalize(x, 1), X / np.linalg.norm(X, axis=1, keepdims=True)),
        (fe.nn.moments(x, [0])[1], X.var(0)),
        (fe.nn.sigmoid_cross_entropy_with_logits(y, x), np.log1p(np.exp(X)) - X * Y),
        (
            fe.nn.sparse_softmax_cross_entropy_with_logits(labels=[2, 0], logits=x),
            -np.log(softmax(X)[[0, 1], [2, 0]]),
        ),
        (
            fe.nn.softmax_cross_entropy_with_logits(labels=y, logits=x, axis=0),
            -(Y * np.log(softmax(X.T).T)).sum(0),
        ),
        (fe.nn.max_pool(y[None, :, :, None], 2, 1, "VALID")[0, ..., 0], [[3.0, 4.0]]),
    ]
    with fe.blocking.Session(graph) as session:
        found = session.run([tensor for tensor, _ in cases], {x: X})
    for (tensor, expected), got in zip(cases, found, strict=True):
        if np.asarray(got).dtype == object:
            assert list(got) == list(expected)
        else:
            np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-6, err_msg=tensor.name)


def test_seeds_follow_tensorflows_rule() -> None:
    graph = fe.Graph()
    free = fe.random_normal([2], graph=graph)
    own = fe.random_uniform([2], seed=3, graph=graph)
    graph.seed = 5
    given = fe.random_uniform([2], graph=graph)
    nodes = [each.op.inputs[0].op.inputs[0].op for each in (free, own, given)]
    pairs = [(op.get_attr("seed"), op.get_attr("seed2")) for op in nodes]
    assert pairs[:2] == [(0, 0), (87654321, 3)]
    assert pairs[2][0] == 5


def test_the_graph_must_be_found() -> None:
    with pytest.raises(ValueError, match="give graph="):
        fe.reduce_sum([1.0, 2.0])
    with pytest.raises(ValueError, match="how long axis 0 is"):
        fe.unstack(fe.Graph().placeholder("float32", [None]))
    with pytest.raises(ValueError, match="keep_prob or rate"):
        fe.nn.dropout(fe.Graph().constant([1.0]))


def test_strings_are_joined_along_all_axes_the_last_first() -> None:
    graph = fe.Graph()
    known = graph.constant(np.array([[b"a", b"b"], [b"c", b"d"]], object))
    unknown = graph.placeholder("string", name="x")
    joined = [fe.reduce_join(known), fe.reduce_join(unknown), fe.reduce_join(known, [0, 1])]
    with fe.blocking.Session(graph) as session:
        value = np.array([[b"a", b"b"], [b"c", b"d"]], object)
        assert session.run(joined, {"x:0": value}) == [b"abcd", b"abcd", b"acbd"]


@pytest.mark.parametrize(
    ("axis", "is_one"),
    [(1, True), ([1], True), (np.array(1), True), ((0, 1), False), (range(2), False), (np.arange(2), False)],
)
def test_axes_may_be_given_in_many_ways(axis: Any, is_one: bool) -> None:
    graph = fe.Graph()
    x = np.arange(12.0).reshape(3, 4)
    constant = graph.constant(x)
    read = graph.constant(np.array(1 if is_one else [0, 1], np.int32))
    sums = [fe.reduce_sum(constant, axis), fe.reduce_sum(constant, read)]
    with fe.blocking.Session(graph) as session:
        for found in session.run(sums):
            np.testing.assert_array_equal(found, x.sum(1) if is_one else x.sum())
