"""Accumulators: gradients of many workers, averaged once enough of them have come.

A gradient says for which step it was computed; one that is late (an earlier step than the accumulator's
own) is dropped. Taking the average waits for the number asked for, counts what came in the meantime
too, and moves the accumulator to the next step.

    >>> from flowengine.core import dtypes
    >>> accumulator = Accumulator("a", dtypes.float32, UNKNOWN_SHAPE)
    >>> accumulator.apply(0, np.float32(1)); accumulator.apply(0, np.float32(2))
    >>> accumulator.take_nowait(2), accumulator.global_step
    (np.float32(1.5), 1)
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from flowengine.core.accounting import Account
from flowengine.core.arrays import WOULD_WAIT, Array, Value, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import CancelledError, InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.resources.waiting import Attempt, AttemptLine, wait_finished


class _GradientAccumulator:
    """The part that dense and sparse accumulators share: the step, the count, and those who wait.

    dtype, shape     of a gradient; the shape may be partial
    average          whether the sum is divided by how many were added
    global_step      gradients of earlier steps are late
    count            gradients added since the last take
    """

    kind: ClassVar[str] = "Accumulator"
    __slots__ = (
        "__weakref__",
        "_line",
        "account",
        "average",
        "container",
        "count",
        "dtype",
        "global_step",
        "name",
        "shape",
    )

    def __init__(
        self,
        name: str,
        dtype: DType,
        shape: TensorShape = UNKNOWN_SHAPE,
        *,
        average: bool = True,
        container: str = "",
    ) -> None:
        self.name = name
        self.container = container
        self.dtype = dtype.base
        self.shape = shape
        self.average = average
        self.global_step = 0
        self.count = 0
        #: Where what was added up is booked.
        self.account: Account | None = None
        self._line = AttemptLine()

    def set_global_step(self, step: int) -> None:
        """Move to another step; gradients of earlier ones are late from now on."""
        self.global_step = step

    def take_nowait(self, required: int) -> Any:
        """The average, or WOULD_WAIT with nothing changed. For errors see `take`."""
        self._check_required(required)
        if self._line or self.count < required:
            return WOULD_WAIT
        return self._take()

    def start_take(self, required: int) -> Attempt:
        """Stand in line for the average of at least `required` gradients."""
        self._check_required(required)
        attempt = _Take(self, required)
        self._line.join(attempt)
        self._line.advance()
        return attempt

    def withdraw(self, attempt: Attempt) -> None:
        """Leave the line; those behind may be served now."""
        self._line.leave(attempt)
        self._line.advance()

    async def take(self, required: int) -> Any:
        """The average of at least `required` gradients, waiting for them in order of arrival.

        Raises InvalidArgumentError unless `required` is positive. Cancelled, it has taken nothing.
        """
        result = self.take_nowait(required)
        if result is WOULD_WAIT:
            result = await wait_finished(self.start_take(required), self.withdraw)
        return result

    def _check_required(self, required: int) -> None:
        if required <= 0:
            raise InvalidArgumentError(f"Argument num_required must be positive, but is {required}")

    def _ask(self, size: int) -> None:
        """ResourceExhaustedError where so many bytes more are too many; nothing was added then."""
        if self.account is not None:
            self.account.check(size)

    def _book(self, *held: Array | None) -> None:
        """Say what is held now."""
        if self.account is not None:
            self.account.book(self, sum(each.nbytes for each in held if each is not None), self.name)

    def _take(self) -> Any:
        result = self._result()
        self._book()
        self.global_step += 1
        self.count = 0
        return result

    def _result(self) -> Any:
        """Return the accumulated result in its outgoing form, and clear it."""
        raise AssertionError(f"{type(self).__name__} adds nothing up")

    def destroy(self) -> None:
        """Everybody who waits, or comes to take later, fails with CancelledError."""
        self._line.end(lambda _: CancelledError(f"{self.kind} '{self.name}' was removed"))
        self.count = 0
        self._book()

    def read(self) -> Array:
        """Return the value of a reference handle to an accumulator: container and name (string vector)."""
        handle = np.empty(2, dtype=object)
        handle[:] = [self.container.encode(), self.name.encode()]
        return handle


class _Take(Attempt):
    __slots__ = ("_accumulator", "_required")

    def __init__(self, accumulator: _GradientAccumulator, required: int) -> None:
        super().__init__()
        self._accumulator = accumulator
        self._required = required

    def advance(self) -> bool:
        if self._accumulator.count < self._required:
            return False
        return self.finish(self._accumulator._take())


class Accumulator(_GradientAccumulator):
    """Gradients that are tensors of one shape."""

    kind = "ConditionalAccumulator"
    __slots__ = ("_sum",)

    def __init__(
        self,
        name: str,
        dtype: DType,
        shape: TensorShape = UNKNOWN_SHAPE,
        *,
        average: bool = True,
        container: str = "",
    ) -> None:
        super().__init__(name, dtype, shape, average=average, container=container)
        self._sum: Array | None = None

    def apply(self, local_step: int, gradient: Value) -> None:
        """Add a gradient unless it is late; InvalidArgumentError for another shape."""
        array = to_array(gradient)
        expected = self.shape if self._sum is None else TensorShape(self._sum.shape)
        if not expected.is_compatible_with(TensorShape(array.shape)):
            raise InvalidArgumentError(
                f"Shape mismatch: expected {expected}, got {list(array.shape)} ({self.kind} '{self.name}')"
            )
        if local_step < self.global_step:
            return
        if self._sum is None:
            self._ask(array.size * self.dtype.as_numpy_dtype.itemsize)
            self._sum = np.array(array, dtype=self.dtype.as_numpy_dtype, copy=True)
        else:
            np.add(self._sum, array, out=self._sum)
        self.count += 1
        self._book(self._sum)
        self._line.advance()

    def _result(self) -> Any:
        total, self._sum = self._sum, None
        assert total is not None
        if self.average:
            np.divide(total, total.dtype.type(self.count), out=total, casting="unsafe")
        return total if total.ndim else total[()]

    def destroy(self) -> None:
        super().destroy()
        self._sum = None


class SparseAccumulator(_GradientAccumulator):
    """Gradients that are some slices of a tensor: an average is one by slice, over those who had it."""

    kind = "SparseConditionalAccumulator"
    __slots__ = ("_counts", "_indices", "_values")

    def __init__(
        self,
        name: str,
        dtype: DType,
        shape: TensorShape = UNKNOWN_SHAPE,
        *,
        average: bool = True,
        container: str = "",
    ) -> None:
        super().__init__(name, dtype, shape, average=average, container=container)
        #: Indices, the sum of the slices of each entry, and how many gradients had it.
        self._indices: Array | None = None
        self._values: Array | None = None
        self._counts: Array | None = None

    def apply(self, local_step: int, indices: Array, values: Array, shape: list[int] | None) -> None:
        """Add slices (n, ...) at indices (n,) unless they are late.

        shape   of the whole tensor, where it is known
        Raises InvalidArgumentError where they do not fit each other or the accumulator.
        """
        self._check(indices, values, shape)
        if local_step < self.global_step:
            return
        # At most: what has an index already is added to it.
        self._ask(values.nbytes + 2 * len(indices) * np.dtype(np.int64).itemsize)
        indices = np.array(indices, np.int64)
        dtype = self.dtype.as_numpy_dtype
        if self._indices is None:
            self._indices = indices
            self._values = np.array(values, dtype)
            self._counts = np.ones(len(indices), np.int64)
        else:
            assert self._values is not None
            assert self._counts is not None
            held, new, count = _side_by_side(self._indices, indices)
            merged = np.empty(count, np.int64)
            sums = np.zeros((count, *values.shape[1:]), dtype)
            counts = np.zeros(count, np.int64)
            merged[held], merged[new] = self._indices, indices
            sums[held] = self._values
            sums[new] += values
            counts[held] = self._counts
            counts[new] += 1
            self._indices, self._values, self._counts = merged, sums, counts
        self.count += 1
        self._book(self._indices, self._values, self._counts)
        self._line.advance()

    def _check(self, indices: Array, values: Array, shape: list[int] | None) -> None:
        where = f" ({self.kind} '{self.name}')"
        if indices.ndim != 1:
            raise InvalidArgumentError(
                f"Input indices should be vector but received shape: {list(indices.shape)}{where}"
            )
        if values.ndim == 0:
            raise InvalidArgumentError(f"Values cannot be 0-dimensional.{where}")
        if len(indices) != len(values):
            raise InvalidArgumentError(
                f"Expected {len(indices)} non-empty input values, got {len(values)}{where}"
            )
        declared = self.shape.dims or ()
        if shape is not None:
            if len(declared) > len(shape):
                raise InvalidArgumentError(
                    f"Shape mismatch: expected shape rank at least {len(declared)}, got {len(shape)}{where}"
                )
            for axis, size in enumerate(declared):
                if size is not None and size != shape[axis]:
                    raise InvalidArgumentError(
                        f"Shape mismatch: expected dim {axis} to be {size}, got {shape[axis]}{where}"
                    )
        if declared and declared[0] is not None:
            for position, index in enumerate(indices.tolist()):
                if index >= declared[0]:
                    raise InvalidArgumentError(
                        f"Shape mismatch: index of slice {position} exceeded limits of shape; "
                        f"index is {index} exceeded {declared[0]}{where}"
                    )
        if self._values is not None:
            expected: tuple[int | None, ...] = self._values.shape
            if len(expected) != values.ndim:
                raise InvalidArgumentError(
                    f"Shape mismatch: expected values rank {len(expected)}, got {values.ndim}{where}"
                )
        else:
            expected = declared
            if len(expected) > values.ndim:
                raise InvalidArgumentError(
                    f"Shape mismatch: expected values rank at least {len(expected)}, got {values.ndim}{where}"
                )
        for axis in range(1, len(expected)):
            if expected[axis] is not None and expected[axis] != values.shape[axis]:
                raise InvalidArgumentError(
                    f"Shape mismatch: expected values dim {axis} to be {expected[axis]}, "
                    f"got {values.shape[axis]}{where}"
                )

    def _result(self) -> Any:
        indices, values, counts = self._indices, self._values, self._counts
        self._indices = self._values = self._counts = None
        assert indices is not None
        assert values is not None
        assert counts is not None
        if self.average:
            divisor = counts.astype(values.dtype).reshape((-1,) + (1,) * (values.ndim - 1))
            np.divide(values, divisor, out=values, casting="unsafe")
        first = self.shape.dims[0] if self.shape.dims else None
        shape = np.array([-1 if first is None else first, *values.shape[1:]], dtype=np.int64)
        return indices, values, shape

    def destroy(self) -> None:
        super().destroy()
        self._indices = self._values = self._counts = None


def _side_by_side(held: Array, new: Array) -> tuple[Array, Array, int]:
    """Return the positions of two gradients' entries in their sum, and the number of its entries.

    Both are read once, as lists in rising order, as TensorFlow reads them. Indices that are not in rising
    order, or twice in one gradient, are thereby kept as they came: an index may have several entries in the
    sum, each averaged over the gradients that share it, and who applies the sum adds them up.
    """
    if _rises(held) and _rises(new):
        merged = np.union1d(held, new)
        return np.searchsorted(merged, held), np.searchsorted(merged, new), len(merged)
    left, right = held.tolist(), new.tolist()
    of_held: list[int] = []
    of_new: list[int] = []
    count = 0
    while len(of_held) < len(left) and len(of_new) < len(right):
        a, b = left[len(of_held)], right[len(of_new)]
        if a <= b:
            of_held.append(count)
        if b <= a:
            of_new.append(count)
        count += 1
    rest_of_held, rest_of_new = len(left) - len(of_held), len(right) - len(of_new)
    of_held += range(count, count + rest_of_held)
    of_new += range(count, count + rest_of_new)
    return np.array(of_held, np.intp), np.array(of_new, np.intp), count + rest_of_held + rest_of_new


def _rises(indices: Array) -> bool:
    return bool((indices[1:] > indices[:-1]).all())
