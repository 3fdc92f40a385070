"""Variable: a tensor that outlives steps, written in place where nobody can see it.

Reading lends the very array that the variable holds, without a copy; writing goes into the same memory
when no read is outstanding and into a fresh copy when one is (copy on write). So a value that was read
never changes afterwards, and a sparse update of a variable that nobody is reading costs its rows.

**How outstanding reads are known.** CPython counts the references to the held array. A view of it, a
buffer over it and a slot of the executor each hold one, so while any of them lives the count is above
what it is when the variable alone holds the array. What that is depends on how the interpreter passes
an attribute to a function (3.14 borrows references that earlier versions took), so it is measured once,
by an expression of the same form on a variable that nobody reads. The smallest count seen is taken: were
another one right in some place, that would cost a copy and never a wrong value.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from sys import getrefcount
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.buffers import copied
from flowengine.core.dtypes import DType
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError
from flowengine.core.shapes import TensorShape


class Variable:
    """One variable, by reference or by resource handle: the object is the reference and the handle.

    name, container   what it is known by in its resource manager
    dtype             the base element type
    shape             the declared shape, possibly partial; the value's own may be more precise
    writer            who is writing it on another thread, else None; see `acquire`

    `read`, `assign` and `mutable` are for the thread of the event loop, except that a kernel on a worker
    thread may call them on a variable that was acquired for it.
    """

    __slots__ = (
        "__weakref__",
        "_array",
        "_parked",
        "_recall",
        "container",
        "copies",
        "dtype",
        "name",
        "shape",
        "writer",
    )

    def __init__(self, name: str, dtype: DType, shape: TensorShape, *, container: str = "") -> None:
        self.name = name
        self.container = container
        self.dtype = dtype.base
        self.shape = shape
        self.writer: object | None = None
        #: How many times a write had to copy first because a read was outstanding.
        self.copies = 0
        self._array: Array | None = None
        self._parked: deque[Callable[[], object]] | None = None
        #: What tells whoever reserved it that others wait.
        self._recall: Callable[[], None] | None = None

    @property
    def is_initialized(self) -> bool:
        return self._array is not None

    @property
    def value_shape(self) -> tuple[int, ...] | None:
        """The shape of the value held, else the declared one where that is complete, else None."""
        if self._array is not None:
            return self._array.shape
        return self.shape.as_tuple()

    def read(self) -> Value:
        """The value, shared: it will not change, and the caller must not write into it.

        A value of rank 0 is returned as a NumPy scalar or `bytes`, which lends nothing.
        Raises FailedPreconditionError while nothing has been assigned.
        """
        array = self._array
        if array is None:
            raise self.uninitialized()
        return array if array.ndim else array[()]

    def value_of(self, dtype: DType) -> Value:
        """As `read`, for a reader by handle, which says what type it expects.

        InvalidArgumentError for another type than the value's, FailedPreconditionError while there is none.
        """
        array = self._array
        if array is not None and self.dtype is dtype:
            return array if array.ndim else array[()]
        if array is not None:
            raise InvalidArgumentError(
                f"Trying to read variable with wrong dtype. Expected {dtype} got {self.dtype} "
                f"(variable '{self.name}')"
            )
        raise FailedPreconditionError(
            f"{without_value(self.name)}. Error while reading resource variable {self.name} from container "
            f"{self.container}: it was not initialized"
        )

    def held(self) -> Array | None:
        """The array as it is kept, for whoever counts memory; None while nothing has been assigned."""
        return self._array

    def is_lent(self) -> bool:
        """Whether a value that `read` returned, or a view of one, is still alive."""
        return self._array is not None and getrefcount(self._array) > _ALONE

    def mutable(self) -> Array:
        """The array to write in place, of any rank; what was read before keeps its value.

        Let go of it before the next call: while it is held it counts as an outstanding read.
        Raises FailedPreconditionError while nothing has been assigned.
        """
        if self._array is None:
            raise self.uninitialized()
        if getrefcount(self._array) > _ALONE:
            self.copies += 1
            self._array = copied(self._array)
        return self._array

    def assign(self, value: Value, *, validate_shape: bool = True) -> None:
        """Set the value, always by copying: what is given may be a feed, a constant or another's.

        With `validate_shape` the shape must be that of the present value, or fit the declared one;
        InvalidArgumentError otherwise. Without, any shape is taken.
        """
        array = to_array(value) if self.dtype is not dtypes.variant else _of_objects(value)
        if validate_shape:
            self._check_shape(array.shape)
        if self._array is None or self._array.shape != array.shape or getrefcount(self._array) > _ALONE:
            self._array = copied(array, self.dtype.as_numpy_dtype)
        else:
            np.copyto(self._array, array)

    def adopt(self, array: Array) -> None:
        """Take over an array that the caller has just made and lets go of: an `assign` without copy."""
        self._array = array

    def destroy(self) -> None:
        """Drop the value; reading fails as before the first assignment."""
        self._array = None

    def acquire(self, owner: object, recall: Callable[[], None] | None = None) -> bool:
        """Reserve the variable for a kernel that writes it on another thread; False if it is reserved.

        While `writer` is set nobody else may read or write: whoever wants to is parked with
        `wait_free`. Never blocks.

        recall   called when somebody begins to wait, for an owner that can end sooner
        """
        if self.writer is not None:
            return False
        self.writer = owner
        self._recall = recall
        return True

    def wait_free(self, callback: Callable[[], object]) -> None:
        """Have `callback` called, in order of arrival, when the variable is released."""
        if self._parked is None:
            self._parked = deque()
        self._parked.append(callback)
        if self._recall is not None:
            self._recall()

    def forget(self, callback: Callable[[], object]) -> None:
        """Take back a `wait_free` that has not been answered; nothing happens if it has."""
        if self._parked is not None and callback in self._parked:
            self._parked.remove(callback)

    def release(self) -> None:
        """End the reservation and wake those parked until one of them reserves it again."""
        self.writer = self._recall = None
        while self._parked and self.writer is None:
            self._parked.popleft()()

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        if self._array is not None:
            fits = self._array.shape == shape
            mine: object = list(self._array.shape)
        else:
            fits = self.shape.is_compatible_with(TensorShape(shape))
            mine = self.shape
        if not fits:
            raise InvalidArgumentError(
                f"Assign requires shapes of both tensors to match: variable '{self.name}' has shape {mine}, "
                f"the value {list(shape)}"
            )

    def uninitialized(self) -> FailedPreconditionError:
        """Return the error for a read before the first assignment."""
        return FailedPreconditionError(
            f"{without_value(self.name)}. Attempting to use uninitialized value {self.name}"
        )

    def __repr__(self) -> str:
        state = "" if self._array is not None else ", uninitialized"
        return f"<Variable '{self.name}' {self.dtype.name} {self.shape}{state}>"


def without_value(name: str) -> str:
    """Say that a variable has no value, and what gives it one; TensorFlow's words come after that."""
    return f"variable '{name}' has no value: call session.initialize() or restore a checkpoint"


def _of_objects(value: object) -> Array:
    """A tensor of variants: an object array as it is, anything else as the one object of rank 0."""
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        return value
    array = np.empty((), dtype=object)
    array[()] = value
    return array


def _measure_alone() -> int:
    """The smallest count that an expression of the methods' form gives when nothing is lent.

    It runs often enough to be seen before and after the interpreter specialises it.
    """
    probe = Variable("probe", dtypes.float32, TensorShape(()))
    probe._array = np.zeros(3, np.float32)

    def count(variable: Variable) -> Any:
        return getrefcount(variable._array)

    smallest: int = min(count(probe) for _ in range(64))
    return smallest


_ALONE: Final[int] = _measure_alone()
