"""Derivatives of linear algebra: real and complex, first and second, of shapes known and unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import UnimplementedError
from tests.gradients.differences import check, numbers

_TYPES: Final = pytest.mark.parametrize("dtype", ["float64", "complex128"])
_SHAPES: Final = pytest.mark.parametrize("shapes", ["known", "unknown"])


def _some(*shape: int, dtype: str, seed: int = 1) -> Any:
    return numbers(np.random.default_rng((seed, *shape)), shape, dtype)


def _adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2))


def _positive(*shape: int, dtype: str) -> Any:
    matrix = _some(*shape, dtype=dtype)
    return (matrix @ _adjoint(matrix) + 3 * np.eye(shape[-1])).astype(dtype)


def _hermitian_direction(*shape: int, dtype: str) -> Callable[[], Any]:
    random = np.random.default_rng(5)

    def direction() -> Any:
        matrix = numbers(random, shape, dtype)
        return (matrix + _adjoint(matrix)) / 2

    return direction


def _real(ops: Any, x: fe.Tensor) -> fe.Tensor:
    result: fe.Tensor = ops.Real(x, Tout="float64") if x.dtype.is_complex else x
    return result


def _weighted(ops: Any, left: fe.Tensor, right: fe.Tensor, *, adjoint: bool = True) -> fe.Tensor:
    """L diag(1, 2, 3) R^H: of vectors, something that their phases do not change."""
    weights = np.array([1.0, 2.0, 3.0], left.dtype.as_numpy_dtype)
    result: fe.Tensor = ops.BatchMatMulV2(ops.Mul(left, weights), right, adj_y=adjoint)
    return result


@pytest.mark.parametrize("turn_x", [False, True])
@pytest.mark.parametrize("turn_y", [False, True])
@_TYPES
def test_products(dtype: str, turn_x: bool, turn_y: bool) -> None:
    x, y = (3, 2) if turn_x else (2, 3), (4, 3) if turn_y else (3, 4)
    flags = {"adj_x": turn_x, "adj_y": turn_y}
    check(
        lambda ops, v: ops.MatMul(*v, transpose_a=turn_x, transpose_b=turn_y),
        [_some(*x, dtype=dtype), _some(*y, dtype=dtype)],
    )
    for shapes in ("known", "unknown"):
        check(
            lambda ops, v: [
                ops.BatchMatMul(
                    ops.BroadcastTo(v[0], (2, 5, *x)), ops.BroadcastTo(v[1], (2, 5, *y)), **flags
                ),
                ops.BatchMatMulV2(*v, **flags),
                ops.BatchMatMulV3(*v, **flags, Tout=dtype),
            ],
            [_some(2, 1, *x, dtype=dtype), _some(5, *y, dtype=dtype)],
            shapes=shapes,
        )


def test_the_cross_product() -> None:
    check(lambda ops, v: ops.Cross(*v), [_some(2, 3, dtype="float64", seed=s) for s in (1, 2)])


@_SHAPES
@_TYPES
def test_diagonals_and_bands(dtype: str, shapes: str) -> None:
    def build(ops: Any, v: Any) -> Any:
        matrix, diagonal = v
        zero = np.zeros((), dtype)
        made = [
            ops.MatrixBandPart(matrix, np.int64(1), np.int64(0)),
            ops.MatrixDiag(diagonal),
            ops.MatrixDiagPart(matrix),
            ops.MatrixSetDiag(matrix, diagonal),
            ops.Diag(diagonal),
            ops.DiagPart(ops.Diag(diagonal)),
            ops.MatrixDiagV2(diagonal, 1, -1, -1, zero),
            ops.MatrixDiagPartV2(matrix, [-1, 2], zero),
            ops.MatrixSetDiagV2(matrix, diagonal, 1),
        ]
        for align in ("LEFT_RIGHT", "RIGHT_LEFT"):
            rows = ops.MatrixDiagPartV3(matrix, [-1, 2], zero, align=align)
            made += [rows, ops.MatrixDiagV3(rows, [-1, 2], 3, 4, zero, align=align)]
            made.append(ops.MatrixSetDiagV3(ops.Mul(matrix, matrix), rows, [-1, 2], align=align))
        return made

    check(build, [_some(2, 3, 4, dtype=dtype), _some(2, 3, dtype=dtype)], shapes=shapes)


@_SHAPES
@_TYPES
def test_functions_of_square_matrices(dtype: str, shapes: str) -> None:
    def build(ops: Any, v: Any) -> Any:
        (x,) = v
        _, logarithm = ops.LogMatrixDeterminant(x)
        made = [
            ops.MatrixInverse(x),
            ops.MatrixInverse(x, adjoint=True),
            ops.MatrixDeterminant(ops.Mul(x, 0.3)),
            _real(ops, logarithm),
            ops.MatrixExponential(ops.Mul(x, 0.2)),
            ops.MatrixSquareRoot(x),
        ]
        return [*made, ops.MatrixLogarithm(x)] if dtype == "complex128" else made

    check(build, [_positive(2, 3, 3, dtype=dtype) + 0.3 * _some(2, 3, 3, dtype=dtype)], shapes=shapes)


@pytest.mark.parametrize("adjoint", [False, True])
@_TYPES
def test_solutions(dtype: str, adjoint: bool) -> None:
    matrix, right = _positive(2, 1, 3, 3, dtype=dtype), _some(4, 3, 2, dtype=dtype)
    bands = _some(2, 1, 2, 3, dtype=dtype) + 4

    def build(ops: Any, v: Any) -> Any:
        both = [(ops.MatrixTriangularSolve, v[0]), (ops.BandedTriangularSolve, v[2])]
        return [
            ops.MatrixSolve(
                ops.BroadcastTo(v[0], [2, 4, 3, 3]), ops.BroadcastTo(v[1], [2, 4, 3, 2]), adjoint=adjoint
            ),
            *(solve(a, v[1], adjoint=adjoint, lower=lower) for solve, a in both for lower in (False, True)),
        ]

    for shapes in ("known", "unknown"):
        check(build, [matrix, right, bands], shapes=shapes)


@pytest.mark.parametrize(("rows", "columns"), [(4, 2), (2, 4), (3, 3)])
@pytest.mark.parametrize("weight", [0.0, 0.3])
@_TYPES
def test_least_squares(dtype: str, weight: float, rows: int, columns: int) -> None:
    arrays = [_some(2, rows, columns, dtype=dtype), _some(2, rows, 3, dtype=dtype)]
    for shapes in ("known", "unknown"):
        check(lambda ops, v: ops.MatrixSolveLs(*v, np.float64(weight)), arrays, shapes=shapes)


def test_a_single_band() -> None:
    arrays = [_some(2, 1, 3, dtype="float64") + 4, _some(5, 2, 3, 2, dtype="float64")]
    for shapes in ("known", "unknown"):
        check(lambda ops, v: ops.BandedTriangularSolve(*v), arrays, shapes=shapes)


def test_the_shortest_solution_has_no_gradient() -> None:
    graph = fe.Graph()
    matrix = graph.placeholder("float64", [3, 2], name="matrix")
    found = graph.ops.MatrixSolveLs(matrix, np.ones((3, 1)), np.float64(0), fast=False, name="least")
    with pytest.raises(ValueError, match=r"'least' has no gradient with fast=False.*use fast=True"):
        fe.gradients(found, matrix)


@_SHAPES
@_TYPES
def test_cholesky(dtype: str, shapes: str) -> None:
    way = {0: _hermitian_direction(2, 3, 3, dtype=dtype)}
    check(lambda ops, v: ops.Cholesky(v[0]), [_positive(2, 3, 3, dtype=dtype)], directions=way, shapes=shapes)


def test_the_gradient_of_cholesky_itself() -> None:
    factor = np.linalg.cholesky(_positive(2, 3, 3, dtype="float64"))
    check(lambda ops, v: ops.CholeskyGrad(*v), [factor, _some(2, 3, 3, dtype="float64")])


@_SHAPES
@_TYPES
def test_eigenvalues_and_vectors(dtype: str, shapes: str) -> None:
    def build(ops: Any, v: Any) -> Any:
        values, vectors = ops.SelfAdjointEigV2(v[0])
        alone, _ = ops.SelfAdjointEigV2(v[0], compute_v=False)
        made = [_real(ops, values), _real(ops, alone), _weighted(ops, vectors, vectors)]
        return made if dtype == "complex128" else [*made, ops.SelfAdjointEig(v[0])]

    way = {0: _hermitian_direction(2, 3, 3, dtype=dtype)}
    check(build, [_positive(2, 3, 3, dtype=dtype)], directions=way, shapes=shapes)
    if dtype == "float64":
        # The upper triangle is not read: it has no gradient, and the lower one has that of both.
        check(build, [_positive(2, 3, 3, dtype=dtype)], shapes=shapes)


@_SHAPES
@_TYPES
def test_eigenvalues_of_any_matrix(dtype: str, shapes: str) -> None:
    def build(ops: Any, v: Any) -> Any:
        values, vectors = ops.Eig(v[0], Tout="complex128")
        alone, _ = ops.Eig(v[0], compute_v=False, Tout="complex128")
        return [values, alone, ops.Mul(vectors, ops.Conj(vectors)), _weighted(ops, vectors, vectors)]

    check(build, [_some(2, 3, 3, dtype=dtype)], shapes=shapes)


@pytest.mark.parametrize(("rows", "columns"), [(4, 3), (3, 4), (3, 3), (3, 6)])
@_SHAPES
@_TYPES
def test_singular_values_and_vectors(dtype: str, rows: int, columns: int, shapes: str) -> None:
    def build(ops: Any, v: Any) -> Any:
        s, left, right = ops.Svd(v[0])
        made = [
            _real(ops, s),
            _real(ops, ops.Svd(v[0], compute_uv=False)[0]),
            *(_weighted(ops, *pair) for pair in ((left, left), (right, right), (left, right))),
        ]
        return made if dtype == "complex128" else [*made, left, right]

    check(build, [_some(2, rows, columns, dtype=dtype)], shapes=shapes)


@pytest.mark.parametrize(("rows", "columns"), [(4, 3), (3, 4), (3, 3)])
def test_one_vector_more_than_singular_values(rows: int, columns: int) -> None:
    matrix = _some(2, rows, columns, dtype="float64")
    check(lambda ops, v: list(ops.Svd(v[0], full_matrices=True)), [matrix])


@pytest.mark.parametrize(("op", "rows", "columns"), [("Svd", 5, 3), ("Svd", 3, 5), ("Qr", 5, 3)])
def test_an_arbitrary_basis_has_no_gradient(op: str, rows: int, columns: int) -> None:
    graph = fe.Graph()
    matrix = graph.placeholder("float64", [rows, columns])
    found = getattr(graph.ops, op)(matrix, full_matrices=True, name="parts")
    with pytest.raises(UnimplementedError, match=r"'parts' with full_matrices=True.*use full_matrices=False"):
        fe.gradients(found[0], matrix)


@pytest.mark.parametrize(("rows", "columns"), [(4, 3), (3, 4), (3, 3)])
@_SHAPES
@_TYPES
def test_qr(dtype: str, rows: int, columns: int, shapes: str) -> None:
    def build(ops: Any, v: Any) -> Any:
        q, r = ops.Qr(v[0])
        if dtype == "complex128":
            return [_weighted(ops, q, q), _weighted(ops, q, r, adjoint=False)]
        return [q, r]

    check(build, [_some(2, rows, columns, dtype=dtype)], shapes=shapes)


@pytest.mark.parametrize("columns", [3, 5])
@_TYPES
def test_a_whole_basis_of_no_fewer_columns_than_rows(dtype: str, columns: int) -> None:
    def build(ops: Any, v: Any) -> Any:
        q, r = ops.Qr(v[0], full_matrices=True)
        return _weighted(ops, q, r, adjoint=False) if dtype == "complex128" else [q, r]

    check(build, [_some(3, columns, dtype=dtype)])


@_SHAPES
@_TYPES
def test_lu(dtype: str, shapes: str) -> None:
    check(lambda ops, v: ops.Lu(v[0])[0], [_some(2, 4, 4, dtype=dtype)], shapes=shapes)


@_SHAPES
@_TYPES
def test_three_diagonals(dtype: str, shapes: str) -> None:
    def build(ops: Any, v: Any) -> Any:
        diagonals, right = v
        rows = ops.Split(np.int32(-2), diagonals, num_split=3)
        return [ops.TridiagonalSolve(diagonals, right), ops.TridiagonalMatMul(*rows, right)]

    strong = _some(2, 3, 4, dtype=dtype) + np.array([0, 5, 0])[:, None]
    check(build, [strong, _some(2, 4, 2, dtype=dtype)], shapes=shapes)


@pytest.mark.parametrize(
    ("equation", "sizes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij->j", [(2, 3)]),
        ("ij->", [(2, 3)]),
        ("i->ii", [(3,)]),
        ("iij->j", [(3, 3, 2)]),
        ("ii->", [(3, 3)]),
        ("iij,jkk->i", [(3, 3, 2), (2, 4, 4)]),
        ("...ij,...jk->...ik", [(2, 1, 2, 3), (4, 3, 2)]),
        ("i...j,jk->...ki", [(2, 4, 1, 3), (3, 2)]),
        ("ij,...jk->...i", [(2, 3), (4, 1, 3, 2)]),
        ("ij,...->...i", [(2, 3), (4, 1)]),
        ("...,...->...", [(2, 1), (3,)]),
        ("ab,cd->ad", [(2, 3), (4, 5)]),
        ("aab,...bcc->a...", [(2, 2, 3), (5, 3, 2, 2)]),
    ],
)
@_SHAPES
def test_einsum(equation: str, sizes: Any, shapes: str) -> None:
    for dtype in ("float64", "complex128"):
        arrays = [_some(*size, dtype=dtype) for size in sizes]
        check(lambda ops, v: ops.Einsum(list(v), equation=equation), arrays, shapes=shapes)


@pytest.mark.parametrize(
    ("equation", "sizes"),
    [("ij,...jk->...ik", [(2, 3), (4, 1, 3, 2)]), ("i...,...->i...", [(3,), (2, 4)])],
)
def test_what_shapes_tell_is_not_found_out_by_the_step(equation: str, sizes: Any) -> None:
    """The axes along which the first operand was repeated are known: no node computes them."""
    graph = fe.Graph()
    operands = [graph.placeholder("float64", size) for size in sizes]
    (found,) = fe.gradients(graph.ops.Einsum(operands, equation=equation), operands[0])
    assert isinstance(found, fe.Tensor)
    assert found.shape.as_tuple() == sizes[0]
    assert "BroadcastGradientArgs" not in {node.op for node in graph}
