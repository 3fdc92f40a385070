"""Sparse matrices by rows: what their dense forms would give, alone and in batches, and what is refused."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import flowengine as fe
from flowengine.core.arrays import Array
from flowengine.kernels.sparse.csr_value import SparseMatrix, gathered

_TYPES = ["float32", "float64", "complex64", "complex128"]


def _numbers(draw: Any, shape: tuple[int, ...], dtype: str) -> Array:
    """Small whole numbers, a third of them 0, so that sums are exact."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = random.integers(-4, 5, shape) * (random.random(shape) < 0.66)
    if dtype.startswith("complex"):
        values = values + 1j * random.integers(-2, 3, shape) * (values != 0)
    return values.astype(dtype)


@st.composite
def _dense(draw: Any, *, square: bool = False) -> Array:
    batch = draw(st.sampled_from([(), (1,), (3,)]))
    rows = draw(st.integers(0, 6))
    columns = rows if square else draw(st.integers(0, 6))
    return _numbers(draw, (*batch, rows, columns), draw(st.sampled_from(_TYPES)))


class _Built:
    """A graph, in which `sparse` makes a matrix of a dense one's entries."""

    def __init__(self) -> None:
        self.graph = fe.Graph()
        self.ops = self.graph.ops

    def sparse(self, dense: Array) -> Any:
        places = np.argwhere(dense).astype(np.int64).reshape(-1, dense.ndim)
        return self.ops.DenseToCSRSparseMatrix(self.graph.constant(dense), self.graph.constant(places))

    def dense(self, matrix: Any, like: Array) -> Any:
        return self.ops.CSRSparseMatrixToDense(matrix, type=str(like.dtype))

    def run(self, *fetches: Any) -> list[Array]:
        with fe.blocking.Session(self.graph) as session:
            return [np.asarray(value) for value in session.run(list(fetches))]


@given(_dense())
def test_comes_back_in_every_form(dense: Array) -> None:
    built = _Built()
    matrix, dtype = built.sparse(dense), str(dense.dtype)
    indices, values, shape = built.ops.CSRSparseMatrixToSparseTensor(matrix, type=dtype)
    again = built.ops.SparseTensorToCSRSparseMatrix(indices, values, shape)
    got = built.run(
        built.dense(matrix, dense),
        indices,
        values,
        shape,
        built.dense(again, dense),
        built.ops.SparseMatrixNNZ(matrix),
    )
    places = np.argwhere(dense)
    np.testing.assert_array_equal(got[0], dense)
    np.testing.assert_array_equal(got[1], places)
    np.testing.assert_array_equal(got[2], dense[tuple(places.T)])
    assert got[3].tolist() == list(dense.shape)
    np.testing.assert_array_equal(got[4], dense)
    assert got[5].dtype == np.int32
    np.testing.assert_array_equal(got[5], np.count_nonzero(dense, axis=(-2, -1)))


@given(_dense(), st.booleans())
def test_transposes(dense: Array, conjugate: bool) -> None:
    built = _Built()
    turned = built.ops.SparseMatrixTranspose(built.sparse(dense), conjugate=conjugate, type=str(dense.dtype))
    (got,) = built.run(built.dense(turned, dense))
    np.testing.assert_array_equal(got, np.swapaxes(np.conj(dense) if conjugate else dense, -1, -2))


_TURNS = st.sampled_from(["as it is", "transpose", "adjoint"])


def _turned(dense: Array, turn: str) -> Array:
    if turn == "as it is":
        return dense
    return np.swapaxes(np.conj(dense) if turn == "adjoint" else dense, -1, -2)


def _attrs(a: str, b: str) -> dict[str, Any]:
    return {
        f"{turn}_{side}": chosen == turn
        for side, chosen in (("a", a), ("b", b))
        for turn in ("transpose", "adjoint")
    }


@given(st.data(), _dense(), _TURNS, _TURNS, st.booleans(), st.booleans())
def test_multiplies_dense_and_sparse_ones(
    data: Any, left: Array, a: str, b: str, transpose: bool, conjugate: bool
) -> None:
    inner = _turned(left, a).shape[-1]
    sizes = (inner, data.draw(st.integers(0, 5)))
    shape = sizes if b == "as it is" else sizes[::-1]
    right = _numbers(data.draw, (*left.shape[:-2], *shape), str(left.dtype))
    built = _Built()
    product = built.ops.SparseMatrixMatMul(
        built.sparse(left),
        built.graph.constant(right),
        transpose_output=transpose,
        conjugate_output=conjugate,
        **_attrs(a, b),
    )
    sparse = built.ops.SparseMatrixSparseMatMul(
        built.sparse(left), built.sparse(right), type=str(left.dtype), **_attrs(a, b)
    )
    got, other = built.run(product, built.dense(sparse, left))
    expected = _turned(left, a) @ _turned(right, b)
    np.testing.assert_array_equal(other, expected)
    expected = np.conj(expected) if conjugate else expected
    np.testing.assert_array_equal(got, np.swapaxes(expected, -1, -2) if transpose else expected)


@given(st.data(), _dense())
def test_adds_and_scales(data: Any, left: Array) -> None:
    right = _numbers(data.draw, left.shape, str(left.dtype))
    built = _Built()
    of = left.dtype.type
    numbers = [built.graph.constant(np.array(value, left.dtype)) for value in (2, -1)]
    total = built.ops.SparseMatrixAdd(built.sparse(left), built.sparse(right), *numbers)
    scaled = built.ops.SparseMatrixMul(built.sparse(left), numbers[0])
    fetches = [built.dense(total, left), built.dense(scaled, left)]
    by: Array = np.arange(1, 4)
    if left.ndim == 3:
        by = np.arange(1, len(left) + 1).astype(left.dtype).reshape(-1, 1, 1)
        fetches.append(
            built.dense(built.ops.SparseMatrixMul(built.sparse(left), built.graph.constant(by)), left)
        )
    got = built.run(*fetches, built.ops.SparseMatrixNNZ(total))
    np.testing.assert_array_equal(got[0], left * of(2) - right)
    np.testing.assert_array_equal(got[1], left * of(2))
    if left.ndim == 3:
        np.testing.assert_array_equal(got[2], left * by)
    np.testing.assert_array_equal(got[-1], np.count_nonzero((left != 0) | (right != 0), axis=(-2, -1)))


def _softmax(dense: Array) -> Array:
    powers = np.where(dense != 0, np.exp(dense - dense.max(-1, initial=0, keepdims=True)), 0)
    return powers / np.where(powers.any(-1, keepdims=True), powers.sum(-1, keepdims=True), 1)


@given(st.data(), _dense())
def test_softmax_and_its_gradient(data: Any, logits: Array) -> None:
    logits = logits.real.astype(np.float64)
    grads = _numbers(data.draw, logits.shape, "float64")
    built = _Built()
    softmax = built.ops.SparseMatrixSoftmax(built.sparse(logits), type="float64")
    gradient = built.ops.SparseMatrixSoftmaxGrad(softmax, built.sparse(grads), type="float64")
    got, slope = built.run(built.dense(softmax, logits), built.dense(gradient, logits))
    expected = _softmax(logits)
    np.testing.assert_allclose(got, expected, 1e-12)
    shared = (expected * grads).sum(-1, keepdims=True)
    np.testing.assert_allclose(slope, expected * (grads - shared), 1e-9, 1e-12)


@given(_dense(square=True))
def test_an_order_and_the_factor_of_what_is_in_it(root: Array) -> None:
    size = root.shape[-1]
    # Of what is above the diagonal nothing may be seen.
    positive = _turned(root, "adjoint") @ root + np.eye(size, dtype=root.dtype) * 3
    read = np.tril(positive) + np.triu(np.full_like(positive, 7), 1)
    built = _Built()
    matrix = built.sparse(read)
    order = built.ops.SparseMatrixOrderingAMD(matrix)
    factor = built.ops.SparseMatrixSparseCholesky(matrix, order, type=str(root.dtype))
    p, lower = built.run(order, built.dense(factor, root))
    assert p.dtype == np.int32
    np.testing.assert_array_equal(np.sort(p, axis=-1), np.broadcast_to(np.arange(size), p.shape))
    wanted = np.take_along_axis(np.take_along_axis(positive, p[..., None], -2), p[..., None, :], -1)
    np.testing.assert_allclose(np.triu(lower, 1), 0)
    np.testing.assert_allclose(lower @ _turned(lower, "adjoint"), wanted, 2e-4, 2e-3)


def test_a_good_order_keeps_a_factor_sparse() -> None:
    size = 40
    arrow = np.eye(size) * size
    arrow[0], arrow[:, 0] = 1, 1
    arrow[0, 0] = size
    built = _Built()
    matrix = built.sparse(arrow)
    counts = [
        built.ops.SparseMatrixNNZ(built.ops.SparseMatrixSparseCholesky(matrix, order, type="float64"))
        for order in (
            built.graph.constant(np.arange(size, dtype=np.int32)),
            built.ops.SparseMatrixOrderingAMD(matrix),
        )
    ]
    full, sparse = (int(count) for count in built.run(*counts))
    assert full == size * (size + 1) // 2
    assert sparse == 2 * size - 1


def test_components_are_those_of_one_matrix() -> None:
    dense = np.array([[[0, 1.0], [2, 0]], [[0, 0], [3, 4]]])
    built = _Built()
    matrix = built.sparse(dense)
    parts = [
        each
        for index in (0, 1)
        for each in built.ops.CSRSparseMatrixComponents(matrix, built.graph.constant(index), type="float64")
    ]
    got = [value.tolist() for value in built.run(*parts)]
    assert got == [[0, 1, 2], [1, 0], [1.0, 2.0], [0, 0, 2], [0, 1], [3.0, 4.0]]


def test_a_batch_of_zeros() -> None:
    built = _Built()
    zeros = built.ops.SparseMatrixZeros(built.graph.constant(np.array([2, 3, 4])), type="float32")
    (got,) = built.run(built.ops.CSRSparseMatrixToDense(zeros, type="float32"))
    np.testing.assert_array_equal(got, np.zeros((2, 3, 4), np.float32))


def test_entries_in_any_order_are_sorted_by_rows() -> None:
    matrix = gathered([2, 2], np.array([[1, 0], [0, 1]]), np.array([5.0, 6.0]))
    assert isinstance(matrix, SparseMatrix)
    assert matrix.parts[0].toarray().tolist() == [[0, 6], [5, 0]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda b: b.ops.CSRSparseMatrixToDense(b.sparse(np.eye(2)), type="float32"), "saw dtype: float64"),
        (lambda b: b.ops.CSRSparseMatrixToDense(b.ops.EmptyTensorMap(), type="float32"), "TensorMap"),
        (
            lambda b: b.ops.CSRSparseMatrixComponents(
                b.sparse(np.eye(2)), b.graph.constant(1), type="float64"
            ),
            r"index \(1\) not in \[0, 1\)",
        ),
        (
            lambda b: b.ops.SparseMatrixSparseCholesky(
                b.sparse(-np.eye(2)), b.graph.constant(np.array([0, 1], np.int32)), type="float64"
            ),
            "failed for batch index 0",
        ),
        (
            lambda b: b.ops.SparseMatrixSparseCholesky(
                b.sparse(np.eye(2)), b.graph.constant(np.array([1, 1], np.int32)), type="float64"
            ),
            "each row once",
        ),
        (lambda b: b.ops.SparseMatrixOrderingAMD(b.sparse(np.ones((2, 3)))), "must be square"),
        (
            lambda b: b.ops.SparseMatrixMatMul(b.sparse(np.ones((2, 3))), b.graph.constant(np.ones((2, 3)))),
            "Inner dimensions",
        ),
        (
            lambda b: b.ops.SparseMatrixAdd(
                b.sparse(np.ones((2, 3))), b.sparse(np.ones((3, 2))), *[b.graph.constant(np.float64(1))] * 2
            ),
            "one shape",
        ),
        (
            lambda b: b.ops.SparseTensorToCSRSparseMatrix(
                b.graph.constant(np.array([[0, 2]])),
                b.graph.constant(np.ones(1)),
                b.graph.constant(np.array([2, 2])),
            ),
            r"\[0, 2\] \(entry 0\)",
        ),
        (lambda b: b.ops.SparseMatrixZeros(b.graph.constant(np.array([2, -2])), type="float32"), "negative"),
    ],
)
def test_what_does_not_fit_is_told(make: Any, message: str) -> None:
    built = _Built()
    made = make(built)
    first = made[0] if isinstance(made, tuple | list) else made
    with pytest.raises(fe.errors.InvalidArgumentError, match=message):
        built.run(first if first.dtype.name != "variant" else built.ops.SparseMatrixNNZ(first))


def test_is_added_like_any_tensor() -> None:
    """AddN of matrices with other entries each, of two and of more; of other shapes it says so."""
    built = _Built()
    given = [np.array([[1.0, 0, k], [0, k, 0]]) for k in range(4)]
    sparse = [built.sparse(each) for each in given]
    sums = [built.dense(built.ops.AddN(sparse[:count]), given[0]) for count in (1, 2, 4)]
    for count, found in zip((1, 2, 4), built.run(*sums), strict=True):
        np.testing.assert_array_equal(found, sum(given[:count]))
    wide = built.sparse(np.ones((2, 4)))
    with pytest.raises(fe.errors.InvalidArgumentError, match=r"one shape, not \[2, 3\] and \[2, 4\]"):
        built.run(built.dense(built.ops.AddN([sparse[0], wide]), given[0]))
