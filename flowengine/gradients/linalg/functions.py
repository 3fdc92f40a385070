"""Inverses, determinants and other functions of square matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.gradients.matrices import adjoint, column, product
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor


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
