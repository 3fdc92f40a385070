"""Diagonals and bands of matrices."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import (
    FILL_BYTES_PER_MICROSECOND,
    blank,
    brackets,
    dtype_of,
    filled,
    integers,
    scalar,
)
from flowengine.kernels.registry import kernel


def _square_cost(diagonal: Value) -> float:
    last = diagonal.shape[-1] if diagonal.ndim else 1
    return float(diagonal.nbytes * last) / FILL_BYTES_PER_MICROSECOND


@kernel("Diag", fresh=True, heavy=lambda d: float(d.nbytes * d.size) / FILL_BYTES_PER_MICROSECOND)
def diag(xp: Any, diagonal: Array) -> Any:
    """A tensor of twice the rank, out[i..., i...] = diagonal[i...], zero elsewhere."""
    if not diagonal.ndim:
        raise InvalidArgumentError("Input must be at least rank 1, got 0")
    size = diagonal.size
    out = blank(xp, (size, size), diagonal.dtype)
    out.reshape(-1)[:: size + 1] = diagonal.reshape(-1)
    return out.reshape(diagonal.shape * 2)


@kernel("DiagPart", device=None, heavy=False)
def diag_part(x: Array) -> Array:
    """The inverse of Diag: x[i..., i...]; the two halves of the shape must be equal."""
    rank = x.ndim
    if not rank or rank % 2:
        raise InvalidArgumentError(f"The rank of the tensor should be even and positive, got {rank}")
    half = x.shape[: rank // 2]
    if x.shape[rank // 2 :] != half:
        raise InvalidArgumentError(
            f"Invalid shape {brackets(x.shape)}: dimensions i and i + {rank // 2} do not match"
        )
    size = 1
    for d in half:
        size *= d
    return x.reshape(size, size).diagonal().reshape(half)


def _matrices(x: Value, rank: int = 2) -> Array:
    array = to_array(x)
    if array.ndim < rank:
        raise InvalidArgumentError(
            f"input must be at least {rank}-dim, received shape: {brackets(array.shape)}"
        )
    return array


#: From this length on a row of a matrix is copied by itself.
_LONG_ROW: Final = 256


@lru_cache(maxsize=64)
def _band(xp: Any, rows: int, columns: int, lower: int, upper: int) -> Any:
    """True inside the band; negative limits are none."""
    distance = xp.arange(columns) - xp.arange(rows)[:, None]
    mask = xp.ones((rows, columns), bool)
    if lower >= 0:
        mask &= distance >= -lower
    if upper >= 0:
        mask &= distance <= upper
    mask.flags.writeable = False
    return mask


@kernel("MatrixBandPart", "BatchMatrixBandPart", fresh=True, host=("num_lower", "num_upper"))
def matrix_band_part(xp: Any, x: Value, num_lower: Value, num_upper: Value) -> Any:
    """The innermost matrices with zeros outside of `num_lower` sub- and `num_upper` superdiagonals.

    Negative: all of them. InvalidArgumentError for more than the matrix has.
    """
    array = _matrices(x)
    rows, columns = array.shape[-2:]
    lower, upper = scalar(num_lower, "num_lower"), scalar(num_upper, "num_upper")
    if lower > rows:
        raise InvalidArgumentError(
            f"num_lower must be negative or less or equal to number of rows ({rows}) got: {lower}"
        )
    if upper > columns:
        raise InvalidArgumentError(
            f"num_upper must be negative or less or equal to number of columns ({columns}) got: {upper}"
        )
    out = blank(xp, array.shape, array.dtype)
    if columns >= _LONG_ROW:
        # Whole pieces of rows: what lies outside is never touched, where a mask reads everything.
        for row in range(rows):
            start = 0 if lower < 0 else max(0, row - lower)
            stop = columns if upper < 0 else min(columns, row + upper + 1)
            if start < stop:
                out[..., row, start:stop] = array[..., row, start:stop]
    else:
        xp.copyto(out, array, where=_band(xp, rows, columns, max(lower, -1), max(upper, -1)))
    return out


@kernel("MatrixDiag", "BatchMatrixDiag", fresh=True, heavy=_square_cost)
def matrix_diag(xp: Any, diagonal: Value) -> Any:
    """(..., N) -> (..., N, N): the innermost vectors as diagonals of matrices of zeros."""
    array = to_array(diagonal)
    if not array.ndim:
        raise InvalidArgumentError("diagonal must be at least 1-dim, received shape: []")
    size = array.shape[-1]
    out = blank(xp, (*array.shape, size), array.dtype)
    out.reshape((*array.shape[:-1], size * size))[..., :: size + 1] = array
    return out


@kernel("MatrixDiagPart", "BatchMatrixDiagPart", device=None, heavy=False)
def matrix_diag_part(x: Value) -> Array:
    """(..., M, N) -> (..., min(M, N)): the main diagonals, as a view."""
    return _matrices(x).diagonal(axis1=-2, axis2=-1)


@kernel("MatrixSetDiag", "BatchMatrixSetDiag", fresh=True)
def matrix_set_diag(xp: Any, x: Value, diagonal: Value) -> Any:
    """x (..., M, N) with its main diagonals replaced by (..., min(M, N))."""
    array, values = _matrices(x), to_array(diagonal)
    expected = (*array.shape[:-2], min(array.shape[-2:]))
    if values.shape != expected:
        raise InvalidArgumentError(
            f"must have diagonal.shape == {brackets(expected)} for input.shape == {brackets(array.shape)}, "
            f"but received diagonal shape: {brackets(values.shape)}"
        )
    out = array.copy(order="C")
    xp.einsum("...ii->...i", out[..., : expected[-1], : expected[-1]])[...] = values
    return out


# The V2 and V3 forms speak of a range of diagonals. k counts from the main one upwards; the diagonals of a
# range stand one below another from the uppermost down.


def _diagonal_range(k: Array) -> tuple[int, int]:
    numbers = integers(k, "k") if k.ndim else [int(k)]
    if not 1 <= len(numbers) <= 2:
        raise InvalidArgumentError(f"k must have one or two elements, received {brackets(numbers)}")
    low, high = numbers[0], numbers[-1]
    if low > high:
        raise InvalidArgumentError(
            f"lower_diag_index must not be larger than upper_diag_index: {low} > {high}"
        )
    return low, high


def _diagonal_length(rows: int, columns: int, k: int) -> int:
    return min(rows + min(k, 0), columns - max(k, 0))


def _check_range(low: int, high: int, rows: int, columns: int) -> None:
    for name, value in (("lower_diag_index", low), ("upper_diag_index", high)):
        if not (-rows < value < columns or value == 0):
            raise InvalidArgumentError(
                f"{name} is out of bound: {value}. It must be between {-rows} and {columns}"
            )


def _diagonal_view(xp: Any, array: Array, k: int) -> Any:
    """The k-th diagonals of (..., M, N), writable where the array is."""
    rows, columns = array.shape[-2:]
    length = _diagonal_length(rows, columns, k)
    top, left = max(-k, 0), max(k, 0)
    view: Array = xp.einsum("...ii->...i", array[..., top : top + length, left : left + length])
    return view


def _content(number: int, length: int, longest: int, align: bytes) -> slice:
    """Return the diagonal's slice of a row of `longest` elements.

    `align` says how the diagonals above and below the main one are aligned.
    """
    above, _, below = align.partition(b"_")
    left = (number >= 0 and above == b"LEFT") or (number <= 0 and below == b"LEFT")
    start = 0 if left else longest - length
    return slice(start, start + length)


@kernel("MatrixDiagV2", fresh=True, host=("k", "num_rows", "num_cols"))
def matrix_diag_v2(
    xp: Any, diagonal: Value, k: Array, num_rows: Value, num_cols: Value, padding_value: Value
) -> Any:
    """MatrixDiagV3 with all diagonals padded on the right."""
    return matrix_diag_v3(xp, diagonal, k, num_rows, num_cols, padding_value, align=b"LEFT_LEFT")


@kernel("MatrixDiagV3", fresh=True, host=("k", "num_rows", "num_cols"))
def matrix_diag_v3(
    xp: Any,
    diagonal: Value,
    k: Array,
    num_rows: Value,
    num_cols: Value,
    padding_value: Value,
    *,
    align: bytes,
) -> Any:
    """Matrices of `padding_value` with the given diagonals.

    diagonal   (..., L), or (..., K, L) for a range of K diagonals
    returns    (..., num_rows, num_cols), each the smallest possible where it is -1
    """
    array = to_array(diagonal)
    low, high = _diagonal_range(k)
    if array.ndim < 1 + (low != high):
        raise InvalidArgumentError(
            f"diagonal must be at least {1 + (low != high)}-dim, received shape: {brackets(array.shape)}"
        )
    if low != high and array.shape[-2] != high - low + 1:
        raise InvalidArgumentError(
            f"The number of diagonals provided in the input {array.shape[-2]} does not match the lower and "
            f"upper diagonal indices {low}, {high}"
        )
    longest = array.shape[-1]
    least_rows, least_columns = longest - min(high, 0), longest + max(low, 0)
    rows, columns = scalar(num_rows, "num_rows"), scalar(num_cols, "num_cols")
    if rows == -1 and columns == -1:
        rows = columns = max(least_rows, least_columns)
    elif rows == -1:
        rows = least_rows
    elif columns == -1:
        columns = least_columns
    if rows < least_rows or columns < least_columns or (rows != least_rows and columns != least_columns):
        raise InvalidArgumentError(
            f"a matrix of {rows} rows and {columns} columns does not have diagonals {low} to {high} of "
            f"length {longest}"
        )
    outer = array.shape[: -1 - (low != high)]
    out = filled(xp, (*outer, rows, columns), padding_value, dtype_of(array))
    for number in range(max(low, 1 - rows), min(high, columns - 1) + 1):
        source = array if low == high else array[..., high - number, :]
        view = _diagonal_view(xp, out, number)
        view[...] = source[..., _content(number, view.shape[-1], longest, align)]
    return out


@kernel("MatrixDiagPartV2", fresh=True, host=("k",))
def matrix_diag_part_v2(xp: Any, x: Value, k: Array, padding_value: Value) -> Any:
    """MatrixDiagPartV3 with all diagonals padded on the right."""
    return matrix_diag_part_v3(xp, x, k, padding_value, align=b"LEFT_LEFT")


@kernel("MatrixDiagPartV3", fresh=True, host=("k",))
def matrix_diag_part_v3(xp: Any, x: Value, k: Array, padding_value: Value, *, align: bytes) -> Any:
    """The k-th diagonals (..., L), or for a range (..., K, L), shorter ones padded on either side."""
    array = _matrices(x)
    low, high = _diagonal_range(k)
    rows, columns = array.shape[-2:]
    _check_range(low, high, rows, columns)
    if low == high:
        return _diagonal_view(xp, array, low).copy()
    longest = max(_diagonal_length(rows, columns, n) for n in range(low, high + 1))
    out = filled(xp, (*array.shape[:-2], high - low + 1, longest), padding_value, array.dtype)
    for number in range(low, high + 1):
        view = _diagonal_view(xp, array, number)
        out[..., high - number, _content(number, view.shape[-1], longest, align)] = view
    return out


@kernel("MatrixSetDiagV2", fresh=True, host=("k",))
def matrix_set_diag_v2(xp: Any, x: Value, diagonal: Value, k: Array) -> Any:
    """MatrixSetDiagV3 with all diagonals padded on the right."""
    return matrix_set_diag_v3(xp, x, diagonal, k, align=b"LEFT_LEFT")


@kernel("MatrixSetDiagV3", fresh=True, host=("k",))
def matrix_set_diag_v3(xp: Any, x: Value, diagonal: Value, k: Array, *, align: bytes) -> Any:
    """x with its k-th diagonals, one or a range, replaced."""
    array, values = _matrices(x), to_array(diagonal)
    low, high = _diagonal_range(k)
    rows, columns = array.shape[-2:]
    _check_range(low, high, rows, columns)
    longest = max(_diagonal_length(rows, columns, n) for n in range(low, high + 1))
    expected = (*array.shape[:-2], longest) if low == high else (*array.shape[:-2], high - low + 1, longest)
    if values.shape != expected:
        raise InvalidArgumentError(
            f"Either first dimensions of diagonal don't match input.shape[:-2], or its size is wrong: "
            f"expected {brackets(expected)}, received {brackets(values.shape)}"
        )
    out = array.copy(order="C")
    for number in range(low, high + 1):
        source = values if low == high else values[..., high - number, :]
        view = _diagonal_view(xp, out, number)
        view[...] = source[..., _content(number, view.shape[-1], longest, align)]
    return out
