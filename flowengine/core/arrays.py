"""Tensors at run time, and the two marks that are not tensors.

A tensor value is a `numpy.ndarray` (or `cupy.ndarray` on a GPU), a NumPy scalar of rank 0, or, for a
string of rank 0, `bytes`. Strings of higher rank are object arrays of `bytes`. A reference or resource
is the Python object itself (`Variable`, a queue). `numpy.asarray(b"ab")` would make a fixed-width
string and drop trailing zeros: use `to_array`.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias, final

import numpy as np
import numpy.typing as npt

#: An array of NumPy or CuPy; shape and dtype are in docstrings.
Array: TypeAlias = npt.NDArray[Any]

#: Anything that flows along an edge.
Value: TypeAlias = Any


@final
class _Mark:
    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


#: The token that flows where a branch was not taken.
DEAD: Final = _Mark("DEAD")

#: What the `nowait` form of an asynchronous kernel returns when it cannot finish at once.
WOULD_WAIT: Final = _Mark("WOULD_WAIT")


#: NumPy's arrays and scalars; a tuple, as a union of types would be made anew at each call.
_OF_NUMPY: Final = (np.ndarray, np.generic)


def in_host_memory(value: Value) -> bool:
    """Whether a value is a NumPy array or scalar, so that a look at its elements waits for nobody."""
    return isinstance(value, _OF_NUMPY)


def is_numpy(xp: Any) -> bool:
    """Whether an array module is NumPy, whose arrays are in host memory."""
    return xp is np


def is_tensor(value: Value) -> bool:
    """Whether a value is an array of any library or a NumPy scalar, not `bytes`, a handle or a variant."""
    return isinstance(value, _OF_NUMPY) or hasattr(value, "strides")


def scalar_element(value: Value) -> Value:
    """The element of a NumPy array of rank 0; any other value as it is."""
    return value[()] if isinstance(value, np.ndarray) and not value.ndim else value


def to_array(value: Value) -> Array:
    """A tensor value as an array of the same rank; `bytes` become a rank-0 object array.

    An array of another library than NumPy passes as it is.
    """
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, bytes):
        array = np.empty((), dtype=object)
        array[()] = value
        return array
    if hasattr(value, "strides") and not isinstance(value, np.generic):
        other: Array = value
        return other
    return np.asarray(value)


def is_same_number(given: Array, converted: Array) -> bool:
    """Whether whole numbers or truth values are what they were converted from.

    >>> is_same_number(np.array([3.0, 2.5]), np.array([3, 2]))
    False
    """
    if given.dtype.kind == "f" and converted.dtype.kind in "iu" and given.size:
        limit = float(np.iinfo(converted.dtype).max) + 1
        if not bool((given < limit).all()):  # some machines convert it to the largest integer
            return False
    return bool(np.array_equal(given, converted))


def unchangeable(array: Array) -> Array:
    """A C-contiguous copy that nobody can ever write to, not even by its flags: what kernels keep prepared.

    Of numbers; arrays of objects, and empty ones, are only marked read-only.
    """
    if array.dtype.hasobject or not array.size:
        array.flags.writeable = False
        return array
    kept: Array = np.frombuffer(array.tobytes(), array.dtype)
    return kept.reshape(array.shape)


def describe(value: Value) -> str:
    """dtype and shape of a value for an error message: `float32[2,3]`."""
    if is_tensor(value):
        kind = "string" if value.dtype.kind in "OSU" else value.dtype.name
        return f"{kind}[{','.join(map(str, value.shape))}]"
    if isinstance(value, bytes):
        return "string[]"
    return type(value).__name__
