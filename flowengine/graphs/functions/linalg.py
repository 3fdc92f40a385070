"""Matrices: products, decompositions, solving.

Leading axes count matrices, the last two are rows and columns. `a`, `b`, `input`, `tensor`, `matrix`, `chol`,
`rhs`, `diagonal` and each of `inputs` are tensors or values that become constants.

Products take numbers of any type, decompositions, solving and determinants float32, float64, complex64 and
complex128. The result has the type of the first argument. `adjoint` takes the conjugate transpose of a
matrix; `full_matrices` returns square factors; `num_lower` and `num_upper` are integers.

>>> graph = fe.Graph()
>>> def show(*tensors):
...     for value in fe.testing.evaluate(graph, [each.name for each in tensors]):
...         print((np.round(value.astype(float), 3) + 0.0).tolist())
>>> a, b = graph.constant([[4.0, 2.0], [2.0, 3.0]]), graph.constant([[1.0], [2.0]])
>>> show(fe.matmul(a, b), fe.einsum("ij,jk->ki", a, b), fe.tensordot(a, b, 1), fe.matrix_transpose(b))
[[8.0], [8.0]]
[[8.0, 8.0]]
[[8.0], [8.0]]
[[1.0, 2.0]]
>>> show(fe.matrix_inverse(a), fe.matrix_determinant(a), fe.trace(a), fe.norm(b), fe.matrix_solve(a, b))
[[0.375, -0.25], [-0.25, 0.5]]
8.0
7.0
2.236
[[-0.125], [0.75]]
>>> lower = fe.cholesky(a)
>>> show(lower, fe.cholesky_solve(lower, b), fe.matrix_triangular_solve(lower, b), fe.svd(a)[0])
[[2.0, 0.0], [1.0, 1.414]]
[[-0.125], [0.75]]
[[0.5], [1.061]]
[5.562, 1.438]
>>> show(fe.eye(2, graph=graph), fe.diag(b[:, 0]), fe.diag_part(a), fe.matrix_diag(b), fe.matrix_diag_part(a))
[[1.0, 0.0], [0.0, 1.0]]
[[1.0, 0.0], [0.0, 2.0]]
[4.0, 3.0]
[[[1.0]], [[2.0]]]
[4.0, 3.0]
>>> show(fe.matrix_set_diag(a, [0.0, 0.0]), fe.matrix_band_part(a, 0, -1), fe.self_adjoint_eig(a)[0])
[[0.0, 2.0], [2.0, 0.0]]
[[4.0, 2.0], [0.0, 3.0]]
[1.438, 5.562]
>>> q, r = fe.qr(a)
>>> across = fe.concat([b[:, 0], b[0]], axis=0)
>>> show(fe.matmul(q, r), fe.lin_space(b[0, 0], b[1, 0], 3), fe.cross(across, [1.0, 0.0, 0.0]))
[[4.0, 2.0], [2.0, 3.0]]
[1.0, 1.5, 2.0]
[0.0, 1.0, -2.0]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core import dtypes
from flowengine.core.dtypes import as_dtype
from flowengine.graphs.conversion import TensorLike, convert, graph_of
from flowengine.graphs.errors import ConstructionValueError
from flowengine.graphs.functions.reductions import reduce_max, reduce_sum
from flowengine.graphs.functions.support import alike, call, one, tensor_of
from flowengine.graphs.graph import Graph
from flowengine.graphs.operators import is_batched
from flowengine.graphs.tensor import Tensor


def matmul(
    a: TensorLike,
    b: TensorLike,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the matrix product: (..., n, m) x (..., m, k) -> (..., n, k).

    transpose_a, transpose_b   take a factor with its last two axes exchanged
    adjoint_a, adjoint_b       and the complex conjugate of it

    Floating point, int32, int64 or complex, both of one type. Leading axes broadcast. Raises ValueError (as
    InvalidArgumentError) where the inner dimensions differ or a factor is to be both.
    """
    if (transpose_a and adjoint_a) or (transpose_b and adjoint_b):
        raise ConstructionValueError("a factor of matmul is transposed or the adjoint, not both")
    x, y = alike(a, b)
    if is_batched(x, y):
        x = one("Conj", x) if transpose_a and x.dtype.is_complex else x
        y = one("Conj", y) if transpose_b and y.dtype.is_complex else y
        return one(
            "BatchMatMulV2",
            x,
            y,
            adj_x=transpose_a or adjoint_a,
            adj_y=transpose_b or adjoint_b,
            name=name,
        )
    x = one("Conj", x) if adjoint_a and x.dtype.is_complex else x
    y = one("Conj", y) if adjoint_b and y.dtype.is_complex else y
    return one(
        "MatMul",
        x,
        y,
        transpose_a=transpose_a or adjoint_a,
        transpose_b=transpose_b or adjoint_b,
        name=name,
    )


def einsum(equation: str, *inputs: TensorLike, name: str | None = None) -> Tensor:
    """The sum of products that an equation describes: `einsum("bij,bjk->bik", a, b)`, `...` included."""
    graph = graph_of(*inputs)
    return one("Einsum", list(inputs), equation=equation.replace(" ", ""), graph=graph, name=name)


def tensordot(a: TensorLike, b: TensorLike, axes: Any, name: str | None = None) -> Tensor:
    """Return the product of two tensors, summed along pairs of axes.

    axes   the number of last axes of a that are paired with the first axes of b, or two lists of axes to pair

    The other axes of a come first, then those of b. Needs the rank of both. Raises ValueError (as
    InvalidArgumentError) for axes that do not fit.
    """
    x, y = alike(a, b)
    rank_x, rank_y = x.shape.rank, y.shape.rank
    if rank_x is None or rank_y is None:
        raise ConstructionValueError(
            "tensordot needs to know how many axes its arguments have: use set_shape"
        )
    if isinstance(axes, int):
        of_x, of_y = list(range(rank_x - axes, rank_x)), list(range(axes))
    else:
        of_x, of_y = ([each] if isinstance(each, int) else list(each) for each in axes)
        of_x, of_y = [i % rank_x for i in of_x], [i % rank_y for i in of_y]
    if len(of_x) != len(of_y):
        raise ConstructionValueError(f"as many axes of a meet those of b, not {len(of_x)} and {len(of_y)}")
    letters = iter("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    names_x = [next(letters) for _ in range(rank_x)]
    names_y = [names_x[of_x[of_y.index(i)]] if i in of_y else next(letters) for i in range(rank_y)]
    kept = [n for i, n in enumerate(names_x) if i not in of_x]
    kept += [n for i, n in enumerate(names_y) if i not in of_y]
    equation = f"{''.join(names_x)},{''.join(names_y)}->{''.join(kept)}"
    return one("Einsum", [x, y], equation=equation, name=name or "Tensordot")


def matrix_transpose(a: TensorLike, name: str = "matrix_transpose") -> Tensor:
    """Return each matrix with rows and columns exchanged: (..., n, m) -> (..., m, n). Needs the rank."""
    x = tensor_of(a)
    rank = x.shape.rank
    if rank is None or rank < 2:
        raise ConstructionValueError(f"'{x.name}' of shape {x.shape} has no rows and columns to exchange")
    return one("Transpose", x, [*range(rank - 2), rank - 1, rank - 2], name=name)


def trace(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the sum of the diagonal of each matrix: (..., n, m) -> (...)."""
    graph = graph_of(x)
    with graph.name_scope(name or "Trace"):
        return reduce_sum(matrix_diag_part(x), -1)


def norm(
    tensor: TensorLike,
    ord: float | str = "euclidean",
    axis: Any = None,
    keepdims: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the norm of vectors along `axis`, or of the whole: `ord` "euclidean", 1, 2, inf or any p > 0.

    With `keepdims` a reduced axis stays with length 1. Floating point or complex; then real. Raises
    ValueError (as InvalidArgumentError) for another `ord`.
    """
    x = tensor_of(tensor)
    with x.graph.name_scope(name or "norm"):
        size = abs(x)
        if ord in ("euclidean", 2, 2.0):
            return one("Sqrt", reduce_sum(size * size, axis, keepdims))
        if ord == 1:
            return reduce_sum(size, axis, keepdims)
        if ord == np.inf:
            return reduce_max(size, axis, keepdims)
        if isinstance(ord, int | float) and ord > 0:
            return reduce_sum(size ** float(ord), axis, keepdims) ** (1.0 / ord)
    raise ConstructionValueError(f"there is no norm of order {ord!r}: 'euclidean', inf or a number above 0")


def eye(
    num_rows: int,
    num_columns: int | None = None,
    dtype: Any = dtypes.float32,
    name: str | None = None,
    *,
    graph: Graph,
) -> Tensor:
    """Return the identity matrix, (num_rows, num_columns): ones on the diagonal, zeros elsewhere.

    `dtype` is the type of the elements; the matrix is added to `graph`.
    """
    columns = num_rows if num_columns is None else num_columns
    numbers = np.eye(num_rows, columns, dtype=as_dtype(dtype).as_numpy_dtype)
    return graph.constant(numbers, as_dtype(dtype), name=name or "eye")


def diag(diagonal: TensorLike, name: str | None = None) -> Tensor:
    """Return a tensor with these on its diagonal, zeros elsewhere: (d...) -> (d..., d...)."""
    return one("Diag", diagonal, name=name)


def diag_part(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the diagonal of a tensor: (d..., d...) -> (d...)."""
    return one("DiagPart", input, name=name)


def matrix_diag(diagonal: TensorLike, name: str | None = None) -> Tensor:
    """Return matrices with these on their diagonals: (..., n) -> (..., n, n)."""
    return one("MatrixDiag", diagonal, name=name)


def matrix_diag_part(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the diagonal of each matrix: (..., n, m) -> (..., min(n, m))."""
    return one("MatrixDiagPart", input, name=name)


def matrix_set_diag(input: TensorLike, diagonal: TensorLike, name: str | None = None) -> Tensor:
    """Return matrices with other diagonals: (..., n, m) and (..., min(n, m)) -> (..., n, m)."""
    return one("MatrixSetDiag", input, diagonal, name=name)


def matrix_band_part(
    input: TensorLike, num_lower: TensorLike, num_upper: TensorLike, name: str | None = None
) -> Tensor:
    """Set matrices to zero outside of a band of diagonals below and above the main one; -1 keeps all."""
    return one("MatrixBandPart", input, num_lower, num_upper, name=name)


def matrix_inverse(input: TensorLike, adjoint: bool = False, name: str | None = None) -> Tensor:
    """Return the inverse of each square matrix.

    Floating point or complex; an error in the step if there is none.
    """
    return one("MatrixInverse", input, adjoint=adjoint, name=name)


def matrix_determinant(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the determinant of each square matrix: (..., n, n) -> (...)."""
    return one("MatrixDeterminant", input, name=name)


def matrix_solve(
    matrix: TensorLike, rhs: TensorLike, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """Solve matrix x = rhs: (..., n, n) and (..., n, k) -> (..., n, k)."""
    return one("MatrixSolve", matrix, rhs, adjoint=adjoint, name=name)


def matrix_triangular_solve(
    matrix: TensorLike,
    rhs: TensorLike,
    lower: bool = True,
    adjoint: bool = False,
    name: str | None = None,
) -> Tensor:
    """Do as matrix_solve, but use only the lower or the upper triangle of the matrix."""
    return one("MatrixTriangularSolve", matrix, rhs, lower=lower, adjoint=adjoint, name=name)


def cholesky(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the lower triangular L with L L^H = input, of positive definite matrices:

    (..., n, n) -> (..., n, n).
    """
    return one("Cholesky", input, name=name)


def cholesky_solve(chol: TensorLike, rhs: TensorLike, name: str | None = None) -> Tensor:
    """Solve A x = rhs, given the Cholesky factor of A: (..., n, n) and (..., n, k) -> (..., n, k)."""
    graph = graph_of(chol, rhs)
    with graph.name_scope(name or "cholesky_solve"):
        factor = convert(graph, chol)
        half = matrix_triangular_solve(factor, rhs)
        return matrix_triangular_solve(factor, half, adjoint=True)


def qr(input: TensorLike, full_matrices: bool = False, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return (q, r) with q r = input, q orthogonal and r upper triangular. Floating point or complex."""
    q, r = call("Qr", input, full_matrices=full_matrices, name=name)
    return q, r


def svd(
    tensor: TensorLike, full_matrices: bool = False, name: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (s, u, v) with u diag(s) v^H = tensor; s (..., min(n, m)) falling, of the tensor's type."""
    s, u, v = call("Svd", tensor, full_matrices=full_matrices, name=name)
    return s, u, v


def self_adjoint_eig(tensor: TensorLike, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return (e, v): eigenvalues (..., n), rising, and eigenvectors (..., n, n) as columns."""
    e, v = call("SelfAdjointEigV2", tensor, compute_v=True, name=name)
    return e, v


def lin_space(
    start: TensorLike,
    stop: TensorLike,
    num: TensorLike,
    name: str | None = None,
    *,
    graph: Graph | None = None,
) -> Tensor:
    """Return num numbers from start to stop, both included, evenly spaced: (num,) floating point."""
    return one("LinSpace", start, stop, num, graph=graph, name=name)


def cross(a: TensorLike, b: TensorLike, name: str | None = None) -> Tensor:
    """Compute the cross product of vectors of length 3, the last axis: (..., 3) and (..., 3) -> (..., 3)."""
    return one("Cross", a, b, name=name)


__all__ = [
    "cholesky",
    "cholesky_solve",
    "cross",
    "diag",
    "diag_part",
    "einsum",
    "eye",
    "lin_space",
    "matmul",
    "matrix_band_part",
    "matrix_determinant",
    "matrix_diag",
    "matrix_diag_part",
    "matrix_inverse",
    "matrix_set_diag",
    "matrix_solve",
    "matrix_transpose",
    "matrix_triangular_solve",
    "norm",
    "qr",
    "self_adjoint_eig",
    "svd",
    "tensordot",
    "trace",
]
