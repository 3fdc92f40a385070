"""Indices that come as tensors: checked, and taken by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowengine.core.arrays import Array, Value, in_host_memory
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.common.checks import refuse

#: Up to this many indices are compared as a list.
_FEW = 16


def check_indices(
    indices: Array, bound: int, what: str = "indices", error: Callable[[], Exception] | None = None
) -> None:
    """InvalidArgumentError naming the first index outside [0, bound), or what `error` makes of it."""
    if in_host_memory(indices):
        if not in_range(indices, bound):
            raise outside(indices, bound, what) if error is None else error()
    elif indices.size:
        wrong = ((indices < 0) | (indices >= bound)).any()
        refuse(wrong, (lambda: outside(indices, bound, what)) if error is None else error)


def in_range(indices: Array, bound: int) -> bool:
    """Whether every index, in host memory, is in [0, bound).

    One pass: read as unsigned, a negative number is larger than any bound. A vectorised maximum costs
    5 us for 100,000 indices, far less than what is then done with them; short ones are compared as a list.
    """
    size = indices.size
    if size <= _FEW:
        if size == 0:
            return True
        if indices.ndim == 0:
            return 0 <= int(indices) < bound
        if indices.ndim == 1:
            numbers: list[int] = indices.tolist()
            return min(numbers) >= 0 and max(numbers) < bound
    if indices.dtype.kind != "u":
        indices = indices.view(f"u{indices.dtype.itemsize}")
    return int(indices.max()) < bound


def first_true(wrong: Array) -> tuple[int, ...]:
    """Return the index of the first true element. For error messages: it waits for the array."""
    flat = int(wrong.reshape(-1).argmax())
    place: list[int] = []
    for size in reversed(wrong.shape):
        flat, index = divmod(flat, size)
        place.append(index)
    return tuple(reversed(place))


def outside(indices: Array, bound: int, what: str) -> InvalidArgumentError:
    """The error that names the first index outside [0, bound)."""
    where = first_true((indices < 0) | (indices >= bound))
    name = what + (brackets(where) if where else "")
    return InvalidArgumentError(f"{name} = {int(indices[where])} is not in [0, {bound})")


def pick(array: Array, places: Value, axis: int = 0) -> Array:
    """`array.take` of places that are known to be inside, so that NumPy need not look again."""
    taken: Array = (
        array.take(places, axis, None, "clip") if in_host_memory(array) else array.take(places, axis)
    )
    return taken


def along(xp: Any, array: Array, places: Array, axis: int) -> Any:
    """`xp.take` of places that are known to be inside.

    NumPy goes through all that is before the axis even of an array without elements, of which no memory
    bounds the number.
    """
    if not array.size:
        shape = (*array.shape[:axis], *places.shape, *array.shape[axis + 1 :])
        if 0 in shape:
            return xp.empty(shape, array.dtype)
    return xp.take(array, places, axis=axis)


__all__ = ["along", "check_indices", "first_true", "in_range", "outside", "pick"]
