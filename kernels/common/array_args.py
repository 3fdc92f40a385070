"""How array kernels read the arguments that steer them: axes, shapes, counts; and how they say no.

Such arguments are small integer tensors. They arrive as arrays or, of rank 0, as NumPy scalars, and are
wanted as Python integers: `tolist` is the cheapest way there (0.05 us).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.errors import InvalidArgumentError

#: Bytes that a kernel which only writes fresh memory produces in a microsecond; for cost estimates.
FILL_BYTES_PER_MICROSECOND = 4000.0


def brackets(dims: Iterable[Any]) -> str:
    """`[2,3]`: a shape or an index in an error message."""
    return "[" + ",".join(map(str, dims)) + "]"


def shape_of(value: Value) -> tuple[int, ...]:
    """The shape of any value; () for `bytes`, handles and variants."""
    shape: tuple[int, ...] = getattr(value, "shape", ())
    return shape


def dtype_of(value: Value) -> np.dtype[Any]:
    """The NumPy dtype that an array of such elements has; object for `bytes`, handles and variants."""
    dtype: np.dtype[Any] | None = getattr(value, "dtype", None)
    return np.dtype(object) if dtype is None else dtype


def has_dtype(value: Value) -> bool:
    """Whether a value is an array or NumPy scalar, not `bytes`, a handle or a variant."""
    return isinstance(value, np.ndarray | np.generic)


def integer(value: Value, what: str) -> int:
    """A tensor of exactly one element as an int; InvalidArgumentError naming the argument otherwise."""
    if value.size != 1:
        raise InvalidArgumentError(f"{what} must be a scalar, but has shape {brackets(value.shape)}")
    return int(value.item())


def scalar(value: Value, what: str) -> int:
    """A tensor of rank 0 as an int; InvalidArgumentError naming the argument otherwise."""
    if value.ndim:
        raise InvalidArgumentError(f"{what} must be a scalar, but has shape {brackets(value.shape)}")
    return int(value)


def integers(value: Value, what: str) -> list[int]:
    """A vector as a list of ints; InvalidArgumentError naming the argument for another rank."""
    numbers: Any = value.tolist()
    if value.ndim != 1:
        raise InvalidArgumentError(f"{what} must be a vector, but has shape {brackets(value.shape)}")
    return list(numbers)


def dimensions(value: Value, what: str) -> list[int]:
    """A vector that spells a shape; InvalidArgumentError for a negative dimension too."""
    numbers = integers(value, what)
    if numbers and min(numbers) < 0:
        raise InvalidArgumentError(f"{what} must not be negative, but is {brackets(numbers)}")
    return numbers


def resolve_axis(axis: int, rank: int, what: str) -> int:
    """The axis counted from the front; InvalidArgumentError unless in [-rank, rank)."""
    if -rank <= axis < rank:
        return axis + rank if axis < 0 else axis
    raise InvalidArgumentError(f"{what} is {axis}, which is not in the range [{-rank}, {rank})")


def outputs(values: Sequence[Value]) -> Value:
    """The values of a list output as a kernel returns them: one bare, several as a tuple, none as None."""
    if len(values) == 1:
        return values[0]
    return tuple(values) if values else None


def blank(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """New memory of zeros, false or empty strings."""
    if dtype.hasobject:
        return filled(shape, b"", dtype)
    return np.zeros(shape, dtype)


def filled(shape: Sequence[int], value: Value, dtype: np.dtype[Any]) -> Array:
    """New memory with one value everywhere (three times as fast as `numpy.full` when small)."""
    out = np.empty(shape, dtype)
    if isinstance(value, np.ndarray):
        value = value[()]
    out.fill(value)
    return out


def as_array(value: Value) -> Array:
    """A value as an ndarray or NumPy scalar, both of which have an array's methods."""
    like_array: Any = value if isinstance(value, np.generic) else to_array(value)
    array: Array = like_array
    return array


def element(value: Value) -> Value:
    """A value as what may be assigned to one place: numpy stores a rank-0 object array as itself."""
    return value[()] if isinstance(value, np.ndarray) and not value.ndim else value


def first_outside(indices: Array, bound: int) -> tuple[tuple[int, ...], int] | None:
    """(position, value) of the first index outside [0, bound), or None. For error messages."""
    flat = to_array(indices)
    wrong = np.argwhere((flat < 0) | (flat >= bound))
    if not len(wrong):
        return None
    where = tuple(wrong[0].tolist())
    return where, int(flat[where])


def in_range(indices: Array, bound: int) -> bool:
    """Whether every index is in [0, bound).

    One pass: read as unsigned, a negative number is larger than any bound. A vectorised maximum costs
    5 us for 100,000 indices, far less than what is then done with them; short ones are compared as a list.
    """
    size = indices.size
    if size <= 16:
        if size == 0:
            return True
        if indices.ndim == 0:
            return 0 <= int(indices) < bound
        if indices.ndim == 1:
            numbers: list[int] = indices.tolist()
            return min(numbers) >= 0 and max(numbers) < bound
    if indices.dtype.kind == "u":
        return int(np.maximum.reduce(indices, axis=None)) < bound
    unsigned = indices.view(f"u{indices.dtype.itemsize}")
    return int(np.maximum.reduce(unsigned, axis=None)) < bound


def check_indices(indices: Array, bound: int, what: str = "indices") -> None:
    """InvalidArgumentError naming the first index outside [0, bound)."""
    if in_range(indices, bound):
        return
    found = first_outside(indices, bound)
    assert found is not None
    where, value = found
    name = what + (brackets(where) if where else "")
    raise InvalidArgumentError(f"{name} = {value} is not in [0, {bound})")
