"""How array kernels read the arguments that steer them: axes, shapes, counts; and how they say no.

Such arguments are small integer tensors. They arrive as arrays or, of rank 0, as NumPy scalars, and are
wanted as Python integers: `tolist` is the cheapest way there (0.05 us).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from flowengine.core.arrays import Array, Value, is_tensor, scalar_element, to_array
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
    return is_tensor(value)


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
    if value.ndim != 1:  # first: rows of nothing, of which there may be 2^40, are made no list
        raise InvalidArgumentError(f"{what} must be a vector, but has shape {brackets(value.shape)}")
    numbers: list[int] = value.tolist()
    return numbers


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


def blank(xp: Any, shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
    """New memory of zeros, false or empty strings."""
    if dtype.hasobject:
        return filled(xp, shape, b"", dtype)
    return xp.zeros(shape, dtype)


def filled(xp: Any, shape: Sequence[int], value: Value, dtype: np.dtype[Any]) -> Any:
    """New memory with one value everywhere (three times as fast as `numpy.full` when small)."""
    out = xp.empty(shape, dtype)
    out.fill(scalar_element(value))
    return out


def as_array(value: Value) -> Array:
    """A value as an ndarray or NumPy scalar, both of which have an array's methods."""
    array: Array = value if is_tensor(value) else to_array(value)
    return array


def element(value: Value) -> Value:
    """A value as what may be assigned to one place: numpy stores a rank-0 object array as itself."""
    return scalar_element(value) if not getattr(value, "ndim", 0) else value
