"""A sparse matrix by rows, or a batch of them: a value that flows along an edge as one variant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, describe
from flowengine.core.dtypes import DType, as_dtype
from flowengine.core.errors import InvalidArgumentError

_INT32_MAX: Final = (1 << 31) - 1


class SparseMatrix:
    """An immutable matrix, or batch of matrices of one shape, as SciPy's matrices by rows.

    shape    of rank 2, or of rank 3 with the batch first
    parts    a `csr_array` for each matrix; entries that were given twice stay two
    """

    __slots__ = ("dtype", "parts", "shape")

    def __init__(self, shape: Sequence[int], parts: Sequence[Any], dtype: np.dtype[Any]) -> None:
        self.shape = tuple(int(size) for size in shape)
        self.parts = tuple(parts)
        self.dtype = dtype

    @property
    def is_batch(self) -> bool:
        return len(self.shape) == 3

    def __add__(self, other: Any) -> SparseMatrix:
        """The sum, with an entry wherever one of them has one; of equal patterns that pattern as it is."""
        if not isinstance(other, SparseMatrix):
            return NotImplemented
        if self.shape != other.shape:
            raise InvalidArgumentError(
                f"sparse matrices that are added must have one shape, not {list(self.shape)} and "
                f"{list(other.shape)}"
            )
        return self.of([_sum(*pair) for pair in zip(self.parts, other.parts, strict=True)])

    def held_values(self) -> list[Array]:
        """Its arrays: `accounting.Composite`."""
        return [array for part in self.parts for array in (part.data, part.indices, part.indptr)]

    def each(self, change: Callable[[Any], Any]) -> SparseMatrix:
        """Another one, of what becomes of each matrix."""
        return self.of([change(part) for part in self.parts])

    def of(self, parts: Sequence[Any]) -> SparseMatrix:
        """Matrices of one shape as a value of this one's kind and type."""
        rows = parts[0].shape if parts else self.shape[-2:]
        return SparseMatrix([len(parts), *rows] if self.is_batch else rows, parts, self.dtype)


def added(first: Any, second: Any) -> Any:
    """The sum of two matrices by rows, with one entry wherever one of them has any."""
    columns = first.shape[1]
    places = np.concatenate([rows_of(part) * columns + part.indices for part in (first, second)])
    known, which = np.unique(places, return_inverse=True)
    values = np.zeros(known.size, first.data.dtype)
    np.add.at(values, which, np.concatenate([first.data, second.data]))
    row, column = np.divmod(known, max(columns, 1))
    return made(values, column, np.searchsorted(row, np.arange(first.shape[0] + 1)), first.shape)


def _sum(first: Any, second: Any) -> Any:
    is_alike = np.array_equal(first.indptr, second.indptr) and np.array_equal(first.indices, second.indices)
    if is_alike:
        return made(first.data + second.data, first.indices, first.indptr, first.shape)
    return added(first, second)


def matrix_in(value: Any, wanted: DType | None = None, name: str = "the input") -> SparseMatrix:
    """The matrix of a variant; InvalidArgumentError where it holds something else, or other numbers."""
    if isinstance(value, np.ndarray) and not value.ndim and value.dtype.hasobject:
        value = value.item()
    if not isinstance(value, SparseMatrix):
        raise InvalidArgumentError(f"{name} must be a CSRSparseMatrix, but is {describe(value)}")
    if wanted is not None and value.dtype != wanted.as_numpy_dtype:
        raise InvalidArgumentError(
            f"Asked for a CSRSparseMatrix of type {wanted} but saw dtype: {as_dtype(value.dtype)}"
        )
    return value


def checked_sizes(dims: Sequence[int], entries: int) -> None:
    """InvalidArgumentError for a rank other than 2 and 3, negative sizes, and what int32 cannot count."""
    if len(dims) not in (2, 3):
        raise InvalidArgumentError(f"a sparse matrix must have rank 2 or 3, but has rank {len(dims)}")
    if min(dims) < 0:
        raise InvalidArgumentError(f"the shape of a sparse matrix must not be negative: {list(dims)}")
    batch = dims[0] if len(dims) == 3 else 1
    if entries > _INT32_MAX or batch * (dims[-2] + 1) > _INT32_MAX or dims[-1] > _INT32_MAX:
        raise InvalidArgumentError(
            f"a sparse matrix of shape {list(dims)} with {entries} entries has more rows, columns or "
            "entries than int32 can count"
        )


def gathered(dims: Sequence[int], indices: Array, values: Array) -> SparseMatrix:
    """The matrix of entries (E, rank) and their values, in the order of their rows.

    InvalidArgumentError for an index outside of the shape.
    """
    checked_sizes(dims, len(values))
    sizes = np.array(dims, np.int64)
    outside = ((indices < 0) | (indices >= sizes)).any(1)
    if outside.any():
        place = int(np.flatnonzero(outside)[0])
        raise InvalidArgumentError(
            f"index {indices[place].tolist()} (entry {place}) is out of bounds: need 0 <= index < "
            f"{list(dims)}"
        )
    batch, rows, columns = (1, *dims) if len(dims) == 2 else dims
    row = indices[:, -2] if len(dims) == 2 else indices[:, 0] * rows + indices[:, 1]
    if (row[1:] < row[:-1]).any():
        order = np.argsort(row, kind="stable")
        row, indices, values = row[order], indices[order], values[order]
    starts = np.searchsorted(row, np.arange(batch * rows + 1))
    parts = []
    for which in range(batch):
        pointers = starts[which * rows : (which + 1) * rows + 1]
        inside = slice(int(pointers[0]), int(pointers[-1])) if len(pointers) else slice(0, 0)
        parts.append(
            made(values[inside], indices[inside, -1], pointers - inside.start, (int(rows), int(columns)))
        )
    return SparseMatrix(dims, parts, values.dtype)


def made(values: Array, columns: Array, pointers: Array, shape: tuple[int, int]) -> Any:
    """SciPy's matrix of its parts, entries as they are."""
    from scipy.sparse import csr_array

    matrix = csr_array(shape, dtype=values.dtype)
    matrix.data = values
    matrix.indices, matrix.indptr = columns.astype(np.int32), pointers.astype(np.int32)
    return matrix


def rows_of(part: Any) -> Array:
    """The row of each entry of a matrix, int64."""
    rows: Array = np.repeat(np.arange(part.shape[0], dtype=np.int64), np.diff(part.indptr))
    return rows
