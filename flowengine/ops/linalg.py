"""Factorisations and solvers of (batches of) matrices."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import SCALAR, UNKNOWN_SHAPE, Dimension, TensorShape, broadcast_shapes
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    add_dims,
    like_input,
    merge_dims,
    prefix,
    ranked_at_least,
    replace_dim,
    smaller,
    vector,
)


def square(c: ShapeContext) -> Sequence[TensorShape]:
    """(..., M, M) -> (..., M, M)"""
    return [_square(c, 0)]


def _square(c: ShapeContext, index: int) -> TensorShape:
    shape = ranked_at_least(c, index, 2)
    if shape.dims is None:
        return UNKNOWN_SHAPE
    size = merge_dims(shape.dims[-1], shape.dims[-2], "The rows and columns of a square matrix")
    return TensorShape((*shape.dims[:-2], size, size))


define(
    "Cholesky",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: {double, float, half, complex64, complex128}"],
    shape=square,
)
define(
    "CholeskyGrad",
    inputs=["l: T", "grad: T"],
    outputs=["output: T"],
    attrs=["T: {half, float, double}"],
    shape=square,
)
define(
    "MatrixInverse",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["adjoint: bool = false", "T: {double, float, half, complex64, complex128}"],
    shape=square,
)
define(
    "MatrixExponential",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: {double, float, half, complex64, complex128}"],
    shape=square,
)
define(
    "MatrixLogarithm",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: {complex64, complex128}"],
    shape=square,
)
define(
    "MatrixSquareRoot",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: {double, float, half, complex64, complex128}"],
    shape=square,
)
define(
    "BatchCholesky", inputs=["input: T"], outputs=["output: T"], attrs=["T: {double, float}"], shape=square
)
define(
    "BatchCholeskyGrad",
    inputs=["l: T", "grad: T"],
    outputs=["output: T"],
    attrs=["T: {float, double}"],
    shape=square,
)
define(
    "BatchMatrixInverse",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["adjoint: bool = false", "T: {double, float}"],
    shape=square,
)


def determinant(c: ShapeContext) -> Sequence[TensorShape]:
    """(..., M, M) -> (...)"""
    shape = _square(c, 0)
    return [UNKNOWN_SHAPE if shape.dims is None else prefix(shape, -2)] * c.num_outputs


define(
    "MatrixDeterminant",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: {half, float, double, complex64, complex128}"],
    shape=determinant,
)
define(
    "BatchMatrixDeterminant",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: {float, double, complex64, complex128}"],
    shape=determinant,
)
define(
    "LogMatrixDeterminant",
    inputs=["input: T"],
    outputs=["sign: T", "log_abs_determinant: T"],
    attrs=["T: {half, float, double, complex64, complex128}"],
    shape=determinant,
)


def solve(c: ShapeContext) -> Sequence[TensorShape]:
    """(..., M, M), (..., M, K) -> (..., M, K)"""
    matrix, right = _square(c, 0), ranked_at_least(c, 1, 2)
    if matrix.dims is None or right.dims is None:
        return [UNKNOWN_SHAPE]
    rows = merge_dims(matrix.dims[-1], right.dims[-2], "The rows of matrix and right-hand side")
    batch = prefix(matrix, -2).merge_with(prefix(right, -2))
    return [batch.concatenate(TensorShape([rows, right.dims[-1]]))]


define(
    "MatrixSolve",
    inputs=["matrix: T", "rhs: T"],
    outputs=["output: T"],
    attrs=["adjoint: bool = false", "T: {double, float, half, complex64, complex128}"],
    shape=solve,
)
define(
    "BatchMatrixSolve",
    inputs=["matrix: T", "rhs: T"],
    outputs=["output: T"],
    attrs=["adjoint: bool = false", "T: {double, float}"],
    shape=solve,
)
define(
    "MatrixTriangularSolve",
    inputs=["matrix: T", "rhs: T"],
    outputs=["output: T"],
    attrs=["lower: bool = true", "adjoint: bool = false", "T: {double, float, half, complex64, complex128}"],
    shape=solve,
)
define(
    "BatchMatrixTriangularSolve",
    inputs=["matrix: T", "rhs: T"],
    outputs=["output: T"],
    attrs=["lower: bool = true", "adjoint: bool = false", "T: {double, float}"],
    shape=solve,
)


def least_squares(c: ShapeContext) -> Sequence[TensorShape]:
    """(..., M, N), (..., M, K) -> (..., N, K)"""
    matrix, right = ranked_at_least(c, 0, 2), ranked_at_least(c, 1, 2)
    if matrix.dims is None or right.dims is None:
        return [UNKNOWN_SHAPE]
    merge_dims(matrix.dims[-2], right.dims[-2], "The rows of matrix and right-hand side")
    batch = prefix(matrix, -2).merge_with(prefix(right, -2))
    return [batch.concatenate(TensorShape([matrix.dims[-1], right.dims[-1]]))]


define(
    "MatrixSolveLs",
    inputs=["matrix: T", "rhs: T", "l2_regularizer: double"],
    outputs=["output: T"],
    attrs=["T: {double, float, half, complex64, complex128}", "fast: bool = true"],
    shape=least_squares,
)
define(
    "BatchMatrixSolveLs",
    inputs=["matrix: T", "rhs: T", "l2_regularizer: double"],
    outputs=["output: T"],
    attrs=["T: {double, float}", "fast: bool = true"],
    shape=least_squares,
)


def tridiagonal_solve(c: ShapeContext) -> Sequence[TensorShape]:
    """Three diagonals (..., 3, M), (..., M, K) -> (..., M, K)"""
    diagonals, right = ranked_at_least(c, 0, 2), ranked_at_least(c, 1, 2)
    if diagonals.dims is not None:
        merge_dims(diagonals.dims[-2], 3, "The number of diagonals and 3")
    return [right]


define(
    "TridiagonalSolve",
    inputs=["diagonals: T", "rhs: T"],
    outputs=["output: T"],
    attrs=["partial_pivoting: bool = true", "T: {double, float, complex64, complex128}"],
    shape=tridiagonal_solve,
)
define(
    "TridiagonalMatMul",
    inputs=["superdiag: T", "maindiag: T", "subdiag: T", "rhs: T"],
    outputs=["output: T"],
    attrs=["T: {double, float, complex64, complex128}"],
    shape=like_input(3),
)


def eigen(c: ShapeContext) -> Sequence[TensorShape]:
    """(..., M, M) -> eigenvalues (..., M), eigenvectors (..., M, M)

    What is not wanted is no empty tensor but has a shape that nobody should rely on.
    """
    shape = _square(c, 0)
    if shape.dims is None:
        return [UNKNOWN_SHAPE, UNKNOWN_SHAPE]
    return [prefix(shape, -1), shape if c.attrs["compute_v"] else UNKNOWN_SHAPE]


define(
    "SelfAdjointEigV2",
    inputs=["input: T"],
    outputs=["e: T", "v: T"],
    attrs=["compute_v: bool = true", "T: {double, float, half, complex64, complex128}"],
    shape=eigen,
)


def eigen_packed(c: ShapeContext) -> Sequence[TensorShape]:
    """(..., M, M) -> (..., M + 1, M): values in the first row, then vectors"""
    shape = _square(c, 0)
    return [shape if shape.dims is None else replace_dim(shape, -2, add_dims(shape.dims[-1], 1))]


define(
    "SelfAdjointEig",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: {double, float, half}"],
    shape=eigen_packed,
)
define(
    "BatchSelfAdjointEig",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: {double, float}"],
    shape=eigen_packed,
)
define(
    "BatchSelfAdjointEigV2",
    inputs=["input: T"],
    outputs=["e: T", "v: T"],
    attrs=["compute_v: bool = true", "T: {double, float}"],
    shape=eigen,
)


def svd(c: ShapeContext) -> Sequence[TensorShape]:
    """(..., M, N) -> singular values (..., P), u (..., M, P or M), v (..., N, P or N); P = min(M, N)"""
    shape = ranked_at_least(c, 0, 2)
    if shape.dims is None:
        return [UNKNOWN_SHAPE] * 3
    batch, rows, columns = prefix(shape, -2), shape.dims[-2], shape.dims[-1]
    least = smaller(rows, columns)
    values = batch.concatenate(vector(least))
    if not c.attrs["compute_uv"]:
        return [values, UNKNOWN_SHAPE, UNKNOWN_SHAPE]
    full = c.attrs["full_matrices"]
    return [
        values,
        batch.concatenate(TensorShape([rows, rows if full else least])),
        batch.concatenate(TensorShape([columns, columns if full else least])),
    ]


define(
    "Svd",
    inputs=["input: T"],
    outputs=["s: T", "u: T", "v: T"],
    attrs=[
        "compute_uv: bool = true",
        "full_matrices: bool = false",
        "T: {double, float, half, complex64, complex128}",
    ],
    shape=svd,
)
define(
    "BatchSvd",
    inputs=["input: T"],
    outputs=["s: T", "u: T", "v: T"],
    attrs=[
        "compute_uv: bool = true",
        "full_matrices: bool = false",
        "T: {double, float, complex64, complex128}",
    ],
    shape=svd,
)


def qr(c: ShapeContext) -> Sequence[TensorShape]:
    """(..., M, N) -> q (..., M, P or M), r (..., P or M, N); P = min(M, N)"""
    shape = ranked_at_least(c, 0, 2)
    if shape.dims is None:
        return [UNKNOWN_SHAPE] * 2
    batch, rows, columns = prefix(shape, -2), shape.dims[-2], shape.dims[-1]
    inner = rows if c.attrs["full_matrices"] else smaller(rows, columns)
    return [batch.concatenate(TensorShape([rows, inner])), batch.concatenate(TensorShape([inner, columns]))]


define(
    "Qr",
    inputs=["input: T"],
    outputs=["q: T", "r: T"],
    attrs=["full_matrices: bool = false", "T: {double, float, half, complex64, complex128}"],
    shape=qr,
)


def lu(c: ShapeContext) -> Sequence[TensorShape]:
    """(..., M, M) -> the factors in one matrix, and the permutation (..., M)"""
    shape = _square(c, 0)
    return [shape, UNKNOWN_SHAPE if shape.dims is None else prefix(shape, -1)]


define(
    "Lu",
    inputs=["input: T"],
    outputs=["lu: T", "p: output_idx_type"],
    attrs=["T: {double, float, half, complex64, complex128}", "output_idx_type: {int32, int64} = int32"],
    shape=lu,
)


def einsum(c: ShapeContext) -> Sequence[TensorShape]:
    """The output's letters, each with the size that it has in the inputs."""
    equation = c.attrs["equation"].decode(errors="replace").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if not arrow or len(terms) != c.num_inputs:
        raise InvalidArgumentError(f"equation {equation!r} does not fit {c.num_inputs} inputs")
    sizes: dict[str, list[Dimension]] = {}
    ellipsis = SCALAR
    for index, term in enumerate(terms):
        shape = c.input(index)
        letters = term.replace("...", "")
        if shape.dims is None:
            ellipsis = UNKNOWN_SHAPE if "..." in term else ellipsis
            for letter in letters:
                sizes.setdefault(letter, []).append(None)
            continue
        extra = len(shape.dims) - len(letters)
        if extra < 0 or (extra and "..." not in term):
            raise InvalidArgumentError(f"input {index} of shape {shape} does not fit {term!r}")
        start = term.find("...")
        named = shape.dims
        if start >= 0:
            named = shape.dims[:start] + shape.dims[start + extra :]
            ellipsis = broadcast_shapes(ellipsis, TensorShape(shape.dims[start : start + extra]))
        for letter, size in zip(letters, named, strict=True):
            sizes.setdefault(letter, []).append(size)
    known = {letter: _broadcast_size(several) for letter, several in sizes.items()}
    before, dots, after = right.partition("...")
    if dots and ellipsis.dims is None:
        return [UNKNOWN_SHAPE]
    middle = ellipsis.dims if dots and ellipsis.dims is not None else ()
    return [TensorShape([*(known.get(x) for x in before), *middle, *(known.get(x) for x in after)])]


def _broadcast_size(sizes: Sequence[Dimension]) -> Dimension:
    """The size of a letter: 1 gives way to any other, which an unknown one may be."""
    larger = {size for size in sizes if size not in (None, 1)}
    if len(larger) > 1:
        raise InvalidArgumentError(
            f"one letter of the equation has several sizes: {sorted(filter(None, larger))}"
        )
    return larger.pop() if larger else None if None in sizes else 1


define(
    "Einsum",
    inputs=["inputs: N * T"],
    outputs=["output: T"],
    attrs=["equation: string", "N: int >= 1", "T: type"],
    shape=einsum,
)
