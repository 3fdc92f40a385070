"""Gradients of factorisations and functions of matrices and their batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.gradients.backward import Backward
from flowengine.gradients.errors import GradientUnimplementedError
from flowengine.gradients.matrices import (
    adjoint,
    column,
    halved_triangle,
    hermitian,
    part,
    product,
    real_type,
    row,
    solved,
    triangle,
)
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor

# Factorisations of matrices and their batches.
#
# A factorisation has freedom left: signs or phases of vectors, any basis of a space that belongs to one
# value
# several times. Gradients are those of functions that do not depend on it; where values coincide, what
# would be
# a division by zero counts as zero.


@gradient("Cholesky", "BatchCholesky")
def cholesky(b: Backward, op: Operation, grad: Tensor) -> Results:
    """L^-H P(L^H G) L^-1, made Hermitian: that of a matrix both of whose triangles are moved together.

    P keeps the lower triangle and half of the diagonal (Murray, 2016, "Differentiation of the Cholesky
    decomposition").
    """
    (factor,) = op.outputs
    inner = halved_triangle(b, product(b, factor, grad, adjoint_x=True))
    left = solved(b, factor, inner, adjoint=True)
    return [hermitian(b, solved(b, factor, adjoint(b, left), adjoint=True))]


@gradient("CholeskyGrad", "BatchCholeskyGrad")
def cholesky_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """Of F = (S + S^T) / 2, S = L^-T P(L^T K) L^-1, by the factor L and its gradient K.

    With the symmetric part G of the gradient and X = L^-1 G L^-T: K gets L P(X), and L gets
    K P(X)^T - 2 F G L^-T, of which the lower triangle counts.
    """
    factor, inner = op.inputs
    (result,) = op.outputs
    symmetric = hermitian(b, grad)
    right = adjoint(b, solved(b, factor, symmetric))
    half = halved_triangle(b, solved(b, factor, right))
    of_inner = product(b, triangle(b, factor), half)
    turned = product(b, triangle(b, inner), half, adjoint_y=True)
    moved = b.ops.Mul(product(b, result, right), 2.0)
    return [triangle(b, b.ops.Sub(turned, moved)), of_inner]


def _shares(b: Backward, values: Tensor) -> Tensor:
    """1 / (v_j - v_i) at row i and column j, zero where both are equal.

    values    (..., M), real even where their type is complex
    returns   (..., M, M) of the type of `values`
    """
    dtype = values.dtype.base
    real = b.ops.Real(values, Tout=real_type(dtype)) if dtype.is_complex else values
    found: Tensor = b.ops.DivNoNan(1.0, b.ops.Sub(row(b, real), column(b, real)))
    if dtype.is_complex:
        found = b.ops.Cast(found, DstT=dtype)
    return found


def _of_eigen(b: Backward, values: Tensor, vectors: Tensor, of_values: Tensor, of_vectors: Tensor) -> Tensor:
    """The gradient of the lower triangle, which alone was read, of a Hermitian matrix."""
    inner = b.ops.Mul(_shares(b, values), product(b, vectors, of_vectors, adjoint_x=True))
    return _of_lower(b, vectors, b.ops.AddV2(b.ops.MatrixDiag(of_values), inner))


def _of_lower(b: Backward, vectors: Tensor, inner: Tensor) -> Tensor:
    """V X V^H and its adjoint, added where the lower triangle of a matrix stood for both."""
    whole = product(b, vectors, product(b, inner, vectors, adjoint_y=True))
    return halved_triangle(b, b.ops.AddV2(whole, adjoint(b, whole)))


@gradient("SelfAdjointEigV2", "BatchSelfAdjointEigV2")
def eigen(b: Backward, op: Operation, of_values: Tensor, of_vectors: Tensor) -> Results:
    values, vectors = op.outputs
    if op.get_attr("compute_v"):
        return [_of_eigen(b, values, vectors, of_values, of_vectors)]
    _, vectors = b.ops.SelfAdjointEigV2(op.inputs[0])
    return [_of_lower(b, vectors, b.ops.MatrixDiag(of_values))]


@gradient("SelfAdjointEig", "BatchSelfAdjointEig")
def eigen_packed(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The values in the first row of the output, the vectors below."""
    parts = []
    for packed in (op.outputs[0], grad):
        first = b.ops.Squeeze(part(b, packed, rows=(0, 1)), squeeze_dims=[-2])
        parts += [first, part(b, packed, rows=(1, None))]
    values, vectors, of_values, of_vectors = parts
    return [_of_eigen(b, values, vectors, of_values, of_vectors)]


@gradient("Eig")
def eigen_general(b: Backward, op: Operation, of_values: Tensor, of_vectors: Tensor) -> Results:
    """V^-H (diag(g) + F o (V^H G - V^H V Re diag(V^H G))) V^H, the vectors V being of length 1."""
    (matrix,) = op.inputs
    values, vectors = op.outputs
    inner: Tensor = b.ops.MatrixDiag(of_values)
    if op.get_attr("compute_v"):
        crossed = product(b, vectors, of_vectors, adjoint_x=True)
        length = b.ops.Real(b.ops.MatrixDiagPart(crossed), Tout=real_type(values.dtype.base))
        scaled = b.ops.Mul(vectors, row(b, b.ops.Cast(length, DstT=values.dtype.base)))
        moved = b.ops.Sub(crossed, product(b, vectors, scaled, adjoint_x=True))
        gaps = b.ops.Conj(b.ops.Sub(row(b, values), column(b, values)))
        inner = b.ops.AddV2(inner, b.ops.Mul(_reciprocal(b, gaps), moved))
    else:
        _, vectors = b.ops.Eig(matrix, Tout=values.dtype.base)
    found = b.ops.MatrixSolve(vectors, product(b, inner, vectors, adjoint_y=True), adjoint=True)
    if not matrix.dtype.is_complex:
        found = b.ops.Real(found, Tout=matrix.dtype.base)
    elif matrix.dtype.base != values.dtype.base:
        found = b.ops.Cast(found, DstT=matrix.dtype.base)
    return [found]


def _reciprocal(b: Backward, x: Tensor) -> Tensor:
    """1 / x of complex numbers, zero of zero."""
    real = real_type(x.dtype.base)
    squared = b.ops.AddV2(
        b.ops.Square(b.ops.Real(x, Tout=real)),
        b.ops.Square(b.ops.Imag(x, Tout=real)),
    )
    share = b.ops.Cast(b.ops.DivNoNan(1.0, squared), DstT=x.dtype.base)
    result: Tensor = b.ops.Mul(b.ops.Conj(x), share)
    return result


@gradient("Svd", "BatchSvd")
def svd(b: Backward, op: Operation, of_s: Tensor, of_u: Tensor, of_v: Tensor) -> Results:
    """Of A = U diag(s) V^H (Townsend, 2016, "Differentiating the singular value decomposition").

    U K V^H + (1 - U U^H) G_u S^-1 V^H + U S^-1 G_v^H (1 - V V^H), where K is made of what lies within both
    bases. Complex phases: Wan and Zhang, 2019, "Automatic differentiation for complex valued SVD".
    """
    (matrix,) = op.inputs
    s, u, v = op.outputs
    if matrix.dtype.is_complex:
        # Singular values are real, so the other part of their gradient moves nothing.
        of_s = b.ops.Cast(b.ops.Real(of_s, Tout=real_type(s.dtype.base)), DstT=s.dtype.base)
    if not op.get_attr("compute_uv"):
        _, u, v = b.ops.Svd(matrix, full_matrices=False)
        return [product(b, u, product(b, b.ops.MatrixDiag(of_s), v, adjoint_y=True))]
    rows, columns = matrix.shape[-2], matrix.shape[-1]
    left_over = [0, 0]
    if op.get_attr("full_matrices") and (rows is None or rows != columns):
        left_over = _further(op, rows, columns)
    least = min(rows or 0, columns or 0)
    u, of_u, more_u = _first(b, u, of_u, least, left_over[0])
    v, of_v, more_v = _first(b, v, of_v, least, left_over[1])
    within_u, within_v = product(b, u, of_u, adjoint_x=True), product(b, v, of_v, adjoint_x=True)
    inverse = _inverse_values(b, s)
    # What of the vectors' gradients lies outside of their spaces is divided by s.
    left, right = product(b, u, _core(b, s, of_s, within_u, within_v, inverse)), None
    if rows is None or columns is None or rows > columns:
        outside = _outside(b, u, of_u, within_u, more_u)
        left = b.ops.AddV2(left, b.ops.Mul(outside, row(b, inverse)))
    if rows is None or columns is None or columns > rows:
        right = _outside(b, v, of_v, within_v, more_v)
    found = product(b, left, v, adjoint_y=True)
    if right is not None:
        found = b.ops.AddV2(found, product(b, b.ops.Mul(u, row(b, inverse)), right, adjoint_y=True))
    return [found]


def _core(
    b: Backward, s: Tensor, of_s: Tensor, within_u: Tensor, within_v: Tensor, inverse: Tensor
) -> Tensor:
    """The part that lies within both bases, (..., P, P)."""
    share = _shares(b, b.ops.Square(s))
    from_u, from_v = b.ops.Mul(share, within_u), b.ops.Mul(share, within_v)
    core: Tensor = b.ops.AddV2(
        b.ops.MatrixDiag(of_s),
        b.ops.AddV2(
            b.ops.Mul(b.ops.AddV2(from_u, adjoint(b, from_u)), row(b, s)),
            b.ops.Mul(b.ops.AddV2(from_v, adjoint(b, from_v)), column(b, s)),
        ),
    )
    if s.dtype.is_complex:
        phase = b.ops.MatrixDiagPart(within_v)
        turn = b.ops.Mul(b.ops.Mul(b.ops.Sub(b.ops.Conj(phase), phase), inverse), 0.5)
        core = b.ops.AddV2(core, b.ops.MatrixDiag(turn))
    return core


def _outside(
    b: Backward, own: Tensor, grad: Tensor, within: Tensor, more: tuple[Tensor, Tensor] | None
) -> Tensor:
    """Compute the part of the vectors' gradient that lies outside of their space, (..., M, P).

    more    further vectors, which turn with these, and their gradient
    """
    outside: Tensor = b.ops.Sub(grad, product(b, own, within))
    if more is not None:
        vectors, of_vectors = more
        back = product(b, of_vectors, own, adjoint_x=True)
        outside = b.ops.Sub(outside, product(b, vectors, back))
    return outside


def _further(op: Operation, rows: int | None, columns: int | None) -> list[int]:
    """How many vectors u and v have that belong to no singular value: at most one, else any basis will do."""
    if rows is None or columns is None:
        raise GradientUnimplementedError(
            f"{op.type} '{op.name}' with full_matrices=True has a gradient only where the graph tells the "
            "shape of the matrices: set it, or use full_matrices=False"
        )
    if abs(rows - columns) > 1:
        raise GradientUnimplementedError(
            f"{op.type} '{op.name}' with full_matrices=True has no gradient for {rows} x {columns} matrices: "
            f"{abs(rows - columns)} of the vectors are an arbitrary basis; use full_matrices=False"
        )
    return [max(rows - columns, 0), max(columns - rows, 0)]


def _first(
    b: Backward, vectors: Tensor, grad: Tensor, least: int, further: int
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor] | None]:
    """The first `least` vectors and their gradient, and the same of the others if there are any."""
    if not further:
        return vectors, grad, None
    first, of_first = (part(b, each, columns=(0, least)) for each in (vectors, grad))
    others, of_others = (part(b, each, columns=(least, None)) for each in (vectors, grad))
    return first, of_first, (others, of_others)


def _inverse_values(b: Backward, s: Tensor) -> Tensor:
    """1 / s, zero where s is."""
    dtype = s.dtype.base
    if not dtype.is_complex:
        found: Tensor = b.ops.DivNoNan(1.0, s)
        return found
    found = b.ops.Cast(b.ops.DivNoNan(1.0, b.ops.Real(s, Tout=real_type(dtype))), DstT=dtype)
    return found


@gradient("Qr")
def qr(b: Backward, op: Operation, of_q: Tensor, of_r: Tensor) -> Results:
    """Of A = Q R, for a square R and for one with columns behind the square.

    Those columns of A are Y = Q W: they get Q G_w, and Q gets Y G_w^H on top of its own gradient.
    """
    (matrix,) = op.inputs
    q, r = op.outputs
    rows, columns = matrix.shape[-2], matrix.shape[-1]
    is_known = rows is not None and columns is not None
    if op.get_attr("full_matrices") and (rows is None or columns is None or rows > columns):
        raise GradientUnimplementedError(
            f"Qr '{op.name}' with full_matrices=True has a gradient only for matrices that are known to have "
            f"at least as many columns as rows, not for {matrix.shape}: use full_matrices=False"
        )
    if rows is not None and columns is not None and rows >= columns:
        return [_of_square(b, q, r, of_q, of_r)]
    least = rows if is_known else b.ops.StridedSlice(b.shape(r), [-2], [-1], [1], shrink_axis_mask=1)
    square, of_square = (part(b, x, columns=(0, least)) for x in (r, of_r))
    of_rest = part(b, of_r, columns=(least, None))
    rest = part(b, matrix, columns=(least, None))
    whole = b.ops.AddV2(of_q, product(b, rest, of_rest, adjoint_y=True))
    first = _of_square(b, q, square, whole, of_square)
    return [b.ops.ConcatV2([first, product(b, q, of_rest)], np.int32(-1))]


def _of_square(b: Backward, q: Tensor, r: Tensor, of_q: Tensor, of_r: Tensor) -> Tensor:
    """(G_q + Q H) R^-H, H the Hermitian matrix with the lower triangle of R G_r^H - G_q^H Q."""
    inner = b.ops.Sub(product(b, r, of_r, adjoint_y=True), product(b, of_q, q, adjoint_x=True))
    half = halved_triangle(b, inner)
    whole = b.ops.AddV2(of_q, product(b, q, b.ops.AddV2(half, adjoint(b, half))))
    return adjoint(b, solved(b, r, adjoint(b, whole), lower=False))


@gradient("Lu")
def lu(b: Backward, op: Operation, grad: Tensor, of_order: Tensor) -> Results:
    """P^T L^-H (tril(L^H G_l, -1) + triu(G_u U^H)) U^-H of P A = L U, both factors in one matrix."""
    factors, order = op.outputs
    ones = b.ops.OnesLike(b.ops.MatrixDiagPart(factors))
    lower, upper = b.ops.MatrixSetDiag(triangle(b, factors), ones), triangle(b, factors, lower=False)
    of_upper = triangle(b, grad, lower=False)
    of_lower = b.ops.Sub(grad, of_upper)
    inner = product(b, lower, of_lower, adjoint_x=True)
    inner = b.ops.Sub(inner, triangle(b, inner, lower=False))
    inner = b.ops.AddV2(inner, triangle(b, product(b, of_upper, upper, adjoint_y=True), lower=False))
    left = solved(b, lower, inner, adjoint=True)
    whole = adjoint(b, solved(b, upper, adjoint(b, left), lower=False))
    rows = b.ops.StridedSlice(b.shape(factors), [-1], [0], [1], end_mask=1, shrink_axis_mask=1)
    exchange = b.ops.OneHot(order, rows, b.constant(1, grad.dtype.base), b.constant(0, grad.dtype.base))
    return [product(b, exchange, whole, adjoint_x=True)]


# Inverses, determinants and other functions of square matrices.


@gradient("MatrixInverse", "BatchMatrixInverse")
def matrix_inverse(b: Backward, op: Operation, grad: Tensor) -> Results:
    """-Y^H G Y^H of Y = A^-1, and -Y G^H Y of Y = A^-H."""
    (inverse,) = op.outputs
    if op.get_attr("adjoint"):
        outer = product(b, inverse, product(b, grad, inverse, adjoint_x=True))
    else:
        outer = product(b, inverse, product(b, grad, inverse, adjoint_y=True), adjoint_x=True)
    return [b.ops.Neg(outer)]


def _of_logarithm(b: Backward, matrix: Tensor, grad: Tensor) -> Tensor:
    """A^-H times a number a matrix: the gradient of log det A by A."""
    result: Tensor = b.ops.Mul(column(b, column(b, grad)), b.ops.MatrixInverse(matrix, adjoint=True))
    return result


@gradient("MatrixDeterminant", "BatchMatrixDeterminant")
def matrix_determinant(b: Backward, op: Operation, grad: Tensor) -> Results:
    """d det A = det A tr(A^-1 dA). A singular matrix has no inverse: the step ends with that error."""
    weight = b.ops.Mul(grad, b.real_or_conj(op.outputs[0]))
    return [_of_logarithm(b, op.inputs[0], weight)]


@gradient("LogMatrixDeterminant")
def log_matrix_determinant(b: Backward, op: Operation, of_sign: Tensor, grad: Tensor) -> Results:
    """The sign counts as constant, as in TensorFlow: of complex matrices, too, of which it turns."""
    return [_of_logarithm(b, op.inputs[0], grad)]


@gradient("MatrixExponential")
def matrix_exponential(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [_of_series(b, b.ops.MatrixExponential, op.inputs[0], grad)]


@gradient("MatrixLogarithm")
def matrix_logarithm(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [_of_series(b, b.ops.MatrixLogarithm, op.inputs[0], grad)]


@gradient("MatrixSquareRoot")
def matrix_square_root(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [_of_series(b, b.ops.MatrixSquareRoot, op.inputs[0], grad)]


def _of_series(b: Backward, function: Any, matrix: Tensor, grad: Tensor) -> Tensor:
    """The gradient of a function of matrices that is a power series with real coefficients.

    f of [[X, E], [0, X]] is [[f(X), L], [0, f(X)]], where L is the derivative of f at X along E (Mathias,
    1996, "A chain rule for matrix functions"). The adjoint of this derivative at A is that at A^H.
    """
    turned = adjoint(b, matrix)
    below = b.ops.ZerosLike(turned)
    upper = b.ops.ConcatV2([turned, grad], np.int32(-1))
    lower = b.ops.ConcatV2([below, turned], np.int32(-1))
    whole = function(b.ops.ConcatV2([upper, lower], np.int32(-2)))
    top = b.ops.Split(np.int32(-2), whole, num_split=2)[0]
    result: Tensor = b.ops.Split(np.int32(-1), top, num_split=2)[1]
    return result
