"""Helpers for kernels over batches of matrices: the innermost two axes are rows and columns.

Arguments are checked here in TensorFlow's words, and costs estimated by the number of elements times rows.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from flowengine.core.accounting import ask_for
from flowengine.core.arrays import Array, is_numpy
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.common.checks import refuse

F = TypeVar("F", bound=Callable[..., Any])

#: Multiplications and additions a microsecond of one core in LAPACK's factorisations, roughly.
_FACTORED_A_MICROSECOND: Final = 4_000.0
#: Microseconds that LAPACK's call takes for the smallest matrix.
_CALL: Final = 1.0
#: LAPACK's integers have 32 bits.
_SIDE_MAX: Final = 2**31 - 1


def cubic(factor: float) -> Callable[..., float]:
    """An estimate for a computation of `factor` times the cube of the rows of the first input's matrices."""

    def microseconds(first: Array, *rest: Any) -> float:
        if first.ndim < 2 or not first.size:
            return 0.0
        rows, columns = first.shape[-2:]
        count = first.size / (rows * columns)
        return float(count * (_CALL + factor * rows * columns * min(rows, columns) / _FACTORED_A_MICROSECOND))

    return microseconds


def one_of_empty(function: F) -> F:
    """A kernel (xp, x, **attrs) of a batch of matrices that computes one of them where all are empty.

    A library takes the matrices of a batch one by one, and the number of empty matrices has no bound. The
    result of the kernel for one of them is repeated for each, except a scalar, such as that for vectors that
    were not requested.
    """

    @functools.wraps(function)
    def computed(xp: Any, x: Array, **attrs: Any) -> Any:
        outer = x.shape[:-2]
        if x.size or not outer or 0 in outer:
            return function(xp, x, **attrs)
        first: tuple[Any, ...] = (*(0 for _ in outer[1:]), slice(0, 1))
        results = function(xp, x[first], **attrs)
        if isinstance(results, tuple):
            return tuple(_for_each(xp, result, outer) for result in results)
        return _for_each(xp, results, outer)

    return cast(F, computed)


def _for_each(xp: Any, result: Array, outer: tuple[int, ...]) -> Any:
    """Broadcast the content of (1, ...) to each place of the outer dimensions."""
    if not result.ndim:
        return result
    shape = (*outer, *result.shape[1:])
    return xp.broadcast_to(result[0], shape).copy() if result.size else xp.zeros(shape, result.dtype)


def product(xp: Any, x: Array, y: Array) -> Any:
    """`xp.matmul` of (..., M, K) and (..., K, N) of one type, which ends at once where one has no elements.

    The library goes through a batch even of empty matrices, of which no memory bounds the number. ValueError
    where the outer dimensions do not broadcast.
    """
    if x.size and y.size:
        return xp.matmul(x, y)
    outer = xp.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return xp.zeros((*outer, x.shape[-2], y.shape[-1]), x.dtype)


def matrices(x: Array, index: int = 0) -> Array:
    """The input, of two dimensions or more; InvalidArgumentError otherwise.

    A matrix without elements may be of any size: a library that counts rows in 32 bits goes astray there.
    """
    if x.ndim < 2:
        raise InvalidArgumentError(f"Input tensor {index} must have rank >= 2, got {x.ndim}")
    if max(x.shape[-2:]) > _SIDE_MAX:
        raise InvalidArgumentError(
            f"Input tensor {index} has matrices of more than {_SIDE_MAX} rows or columns: its shape is "
            f"{brackets(x.shape)}"
        )
    return x


def ask_for_squares(x: Array, *sides: int) -> None:
    """Ask for the memory of square matrices of these sides, as many as there are in the batch."""
    count = math.prod(x.shape[:-2])
    ask_for(count * sum(side * side for side in sides) * x.dtype.itemsize)


def square_matrices(x: Array) -> Array:
    """The input, whose matrices are square; InvalidArgumentError otherwise."""
    if matrices(x).shape[-1] != x.shape[-2]:
        raise InvalidArgumentError(f"Input matrix must be square, but has shape {brackets(x.shape)}")
    return x


def check_sides(matrix: Array, right: Array, rows: int) -> None:
    """The right-hand side has so many rows; InvalidArgumentError otherwise."""
    if matrices(right, 1).shape[-2] != rows:
        raise InvalidArgumentError(
            f"Input matrix and rhs are incompatible: {brackets(matrix.shape)} and {brackets(right.shape)}"
        )


def check_batches(matrix: Array, right: Array) -> None:
    """Both sides have the same outer dimensions; InvalidArgumentError otherwise."""
    if matrix.shape[:-2] != right.shape[:-2]:
        raise InvalidArgumentError(
            "All input tensors must have the same outer dimensions, but have shapes "
            f"{brackets(matrix.shape)} and {brackets(right.shape)}"
        )


def adjoint(xp: Any, x: Array) -> Any:
    """Rows and columns exchanged, complex numbers conjugated."""
    x = x.swapaxes(-1, -2)
    return xp.conjugate(x) if x.dtype.kind == "c" else x


def unless_singular(xp: Any, function: Callable[..., Any], matrix: Array, *rest: Array, message: str) -> Any:
    """function(matrix, *rest); InvalidArgumentError with the message where a matrix cannot be inverted.

    NumPy says so itself, unless the matrix has a NaN, which is no pivot either. Libraries for GPUs return
    what is not finite.
    """
    try:
        result = function(matrix, *rest)
    except ValueError as error:  # what LinAlgError is
        raise InvalidArgumentError(message) from error
    wrong = xp.isnan(matrix).any() if is_numpy(xp) else xp.logical_not(xp.isfinite(result)).any()
    refuse(wrong, lambda: InvalidArgumentError(message))
    return result


def around_what_is_not_finite(xp: Any, function: Callable[..., Any], x: Array) -> tuple[Any, ...]:
    """The arrays that the function makes of the matrices, NaN for those that are not finite.

    LAPACK gives such matrices up, and with them all others of the batch; they are taken out if it does.
    """
    try:
        return tuple(function(x))
    except ValueError:
        lost = xp.logical_not(xp.isfinite(x).all(axis=(-1, -2)))
        if not lost.any():
            raise
        eye = xp.eye(x.shape[-2], x.shape[-1], dtype=x.dtype)
        results = tuple(function(xp.where(lost[..., None, None], eye, x)))
        for result in results:
            result[lost] = x.dtype.type("nan")
        return results
