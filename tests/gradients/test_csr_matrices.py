"""Gradients through sparse matrices by rows: every flag, batches, complex numbers, and sums of gradients."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import flowengine as fe
from tests.gradients.differences import check, numbers

_RANDOM: Final = np.random.default_rng(11)
_NUMBERS: Final = "complex128"
#: Entries of (3, 2), in no order of rows, one place twice.
_PLACES: Final = np.array([[2, 0], [0, 1], [1, 1], [0, 1], [2, 1]])


def _sparse(ops: Any, values: fe.Tensor, shape: tuple[int, ...], places: Any = _PLACES) -> Any:
    return ops.SparseTensorToCSRSparseMatrix(np.array(places, np.int64), values, np.array(shape, np.int64))


@pytest.mark.parametrize("of_a", [{}, {"transpose_a": True}, {"adjoint_a": True}], ids=str)
@pytest.mark.parametrize("of_b", [{}, {"transpose_b": True}, {"adjoint_b": True}], ids=str)
@pytest.mark.parametrize("of_output", [{}, {"transpose_output": True}, {"conjugate_output": True}], ids=str)
def test_a_product_with_a_dense_matrix(of_a: Any, of_b: Any, of_output: Any) -> None:
    inner = 3 if of_a else 2
    dense = numbers(_RANDOM, (4, inner) if of_b else (inner, 4), _NUMBERS)

    def build(ops: Any, xs: Any) -> Any:
        return ops.SparseMatrixMatMul(_sparse(ops, xs[0], (3, 2)), xs[1], **of_a, **of_b, **of_output)

    check(build, [numbers(_RANDOM, (5,), _NUMBERS), dense])


@pytest.mark.parametrize("of_a", [{}, {"transpose_a": True}, {"adjoint_a": True}], ids=str)
@pytest.mark.parametrize("of_b", [{}, {"transpose_b": True}, {"adjoint_b": True}], ids=str)
def test_a_product_of_two_sparse_matrices(of_a: Any, of_b: Any) -> None:
    """Sparse products whose inner sizes are three or two, each matrix turned as it has to be."""
    places = np.array([[0, 1], [1, 0], [1, 3], [0, 3]])
    inner = 3 if of_a else 2
    shape = (inner, 4)
    if of_b:
        shape, places = shape[::-1], places[:, ::-1]

    def build(ops: Any, xs: Any) -> Any:
        left, right = _sparse(ops, xs[0], (3, 2)), _sparse(ops, xs[1], shape, places)
        product = ops.SparseMatrixSparseMatMul(left, right, type=_NUMBERS, **of_a, **of_b)
        return ops.CSRSparseMatrixToDense(product, type=_NUMBERS)

    check(build, [numbers(_RANDOM, (5,), _NUMBERS), numbers(_RANDOM, (4,), _NUMBERS)])


@pytest.mark.parametrize("shapes", ["known", "unknown"])
def test_batches(shapes: str) -> None:
    places = np.array([[0, 1, 1], [1, 2, 0], [0, 0, 1]])

    def build(ops: Any, xs: Any) -> Any:
        scaled = ops.SparseMatrixMul(_sparse(ops, xs[0], (2, 3, 2), places), xs[1])
        turned = ops.SparseMatrixTranspose(scaled, conjugate=True, type=_NUMBERS)
        return ops.SparseMatrixMatMul(turned, xs[2], transpose_output=True)

    shaped = [(3,), (2, 1, 1), (2, 3, 4)]
    check(build, [numbers(_RANDOM, shape, _NUMBERS) for shape in shaped], shapes=shapes)


@pytest.mark.parametrize("uses", [2, 3])
def test_a_matrix_that_is_used_more_than_once(uses: int) -> None:
    def build(ops: Any, xs: Any) -> Any:
        matrix = ops.DenseToCSRSparseMatrix(xs[0], np.array([[0, 1], [2, 0]], np.int64))
        return [ops.SparseMatrixMatMul(matrix, dense) for dense in xs[1 : 1 + uses]]

    check(build, [numbers(_RANDOM, shape, "float64") for shape in [(3, 2), *[(2, 4)] * uses]])


def test_a_sum_with_complex_factors() -> None:
    def build(ops: Any, xs: Any) -> Any:
        one = ops.DenseToCSRSparseMatrix(xs[0], np.array([[0, 1], [2, 0]], np.int64))
        other = ops.DenseToCSRSparseMatrix(xs[1], np.array([[0, 0], [0, 1], [1, 1]], np.int64))
        added = ops.SparseMatrixAdd(one, other, xs[2], xs[3])
        return ops.CSRSparseMatrixToDense(added, type=_NUMBERS)

    check(build, [numbers(_RANDOM, shape, _NUMBERS) for shape in [(3, 2), (3, 2), (), ()]])


def test_nothing_at_all() -> None:
    """A matrix without entries takes no gradient, and gives the dense factor zeros."""
    graph = fe.Graph()
    dense = graph.constant(np.ones((2, 3)))
    values = graph.constant(np.zeros(0))
    matrix = _sparse(graph.ops, values, (4, 2), np.zeros((0, 2)))
    found = fe.gradients(graph.ops.SparseMatrixMatMul(matrix, dense), [values, dense])
    with fe.blocking.Session(graph) as session:
        of_values, of_dense = session.run(found)
    assert of_values.shape == (0,)
    np.testing.assert_array_equal(of_dense, np.zeros((2, 3)))
