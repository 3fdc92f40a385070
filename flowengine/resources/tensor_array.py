"""TensorArray: an array of tensors that a loop writes and reads by index, alive for one step.

Each element is written once and, unless told otherwise, read once. A *gradient* array belongs to a
forward array and a source: it has its size, knows the shapes that were written there, and adds up
several writes to one index. Values are kept as they come, not copied: within a step nobody writes into
them. They are arrays of one library, which makes what comes of several: NumPy's, or a device's.

    >>> from flowengine.core import dtypes
    >>> array = TensorArray(dtypes.float32, 2)
    >>> array.write(0, np.float32(3))
    >>> array.get(0)
    np.float32(3.0)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import numpy as np

from flowengine.core.accounting import NUMBER_BYTES, REFERENCE_BYTES, Account
from flowengine.core.arrays import Array, Value, is_numpy, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, UnimplementedError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.resources.elements import stack


class _ElementState:
    """A mark in an element's place where the element holds no value of its own."""

    __slots__ = ()


class _UnwrittenElement(_ElementState):
    __slots__ = ()


class _ClearedElement(_ElementState):
    """Read, and freed then."""

    __slots__ = ("shape",)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


class _Zeros(_ElementState):
    """A gradient nobody has written, of an element that was: zeros of its shape."""

    __slots__ = ("shape",)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


class _GradientSum(_ElementState):
    """A gradient written more than once: an array of its own, to be added into."""

    __slots__ = ("array",)

    def __init__(self, array: Array) -> None:
        self.array = array


_UNWRITTEN: Final = _UnwrittenElement()


def _shape_of(value: Value) -> tuple[int, ...]:
    shape: tuple[int, ...] = getattr(value, "shape", ())
    return shape


def _written_shape(element: Any) -> tuple[int, ...] | None:
    """The shape of what an element holds or held; None where it was never written."""
    if isinstance(element, _UnwrittenElement):
        return None
    return _shape_of(element.array if isinstance(element, _GradientSum) else element)


class TensorArray:
    """See the module. All errors are InvalidArgumentError unless said.

    element_shape             what every element's shape must be compatible with
    identical_element_shapes  whether the first write fixes `element_shape` for the others
    dynamic_size              whether a write past the end enlarges it
    clear_after_read          whether an element may be read once only, and is freed then
    account                   where its own memory is booked: references, numbers, sums. Tensors that are
                              written are counted where they were made
    xp                        the array module of its values
    computing                 what is around calls of that, on a device whose memory is its own
    """

    __slots__ = (
        "__weakref__",
        "_cleared",
        "_closed",
        "_elements",
        "_fitting",
        "account",
        "clear_after_read",
        "computing",
        "dtype",
        "dynamic_size",
        "element_shape",
        "identical_element_shapes",
        "is_gradient",
        "marked_size",
        "name",
        "xp",
    )

    def __init__(
        self,
        dtype: DType,
        size: int,
        *,
        element_shape: TensorShape = UNKNOWN_SHAPE,
        identical_element_shapes: bool = False,
        dynamic_size: bool = False,
        clear_after_read: bool = True,
        is_gradient: bool = False,
        name: str = "",
        account: Account | None = None,
        xp: Any = np,
        computing: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        if size < 0:
            raise InvalidArgumentError(f"Size should be >= 0, but is {size}")
        self.name = name
        self.account = account
        self.xp = xp
        self.computing = computing
        if account is not None:
            account.check(size * REFERENCE_BYTES)
        self.dtype = dtype.base
        self.element_shape = element_shape
        self.identical_element_shapes = identical_element_shapes
        self.dynamic_size = dynamic_size
        self.clear_after_read = clear_after_read
        self.is_gradient = is_gradient
        #: How many elements the last scatter or split filled: what a gradient packs, though the
        #: forward array may be larger.
        self.marked_size = 0
        self._elements: list[Any] = [_UNWRITTEN] * size
        self._closed = False
        #: A shape that has been found to fit all elements.
        self._fitting: tuple[int, ...] | None = None
        #: The state of elements read last: most have one shape, and so share it.
        self._cleared = _ClearedElement(())
        self._book()

    def _book(self) -> None:
        if self.account is not None:
            scalar = NUMBER_BYTES if self.element_shape.dims == () else 0
            self.account.book(self, len(self._elements) * (REFERENCE_BYTES + scalar), self.name)

    @property
    def size(self) -> int:
        return len(self._elements)

    @property
    def pack_size(self) -> int:
        """How many elements a concat or pack of all of them takes."""
        return self.marked_size if self.is_gradient else len(self._elements)

    @property
    def bytes_estimate(self) -> int:
        """The bytes of all elements, if they were like the first one."""
        first = self._elements[0] if self._elements else None
        if isinstance(first, _GradientSum):
            first = first.array
        return int(getattr(first, "nbytes", 8)) * len(self._elements)

    def write(self, index: int, value: Value) -> None:
        """Set an element that was not written; a gradient array adds to one that was."""
        elements = self._elements
        if not 0 <= index < len(elements):
            self._enlarge(index)
        present = elements[index]
        if present is _UNWRITTEN:
            shape = getattr(value, "shape", ())
            if shape != self._fitting:
                self._check_shape(index, shape)
            elements[index] = value
        else:
            self._write_again(index, present, value)

    def _enlarge(self, index: int) -> None:
        self._check_open()
        if index < 0 or not self.dynamic_size:
            raise InvalidArgumentError(
                f"TensorArray {self.name}: Tried to write to index {index} but array is not resizeable and "
                f"size is: {len(self._elements)}"
            )
        missing = index + 1 - len(self._elements)
        if self.account is not None:
            self.account.check(missing * REFERENCE_BYTES)
        self._elements.extend([_UNWRITTEN] * missing)
        self._book()

    def _write_again(self, index: int, present: Any, value: Value) -> None:
        if isinstance(present, _ClearedElement):
            raise InvalidArgumentError(
                f"TensorArray {self.name}: Could not write to TensorArray index {index} because it has "
                "already been read."
            )
        if not self.is_gradient:
            raise InvalidArgumentError(
                f"TensorArray {self.name}: Could not write to TensorArray index {index} because it has "
                "already been written to."
            )
        shape = _written_shape(present)
        assert shape is not None
        if shape != _shape_of(value):
            raise InvalidArgumentError(
                f"TensorArray {self.name}: Could not aggregate to TensorArray index {index} because the "
                f"existing shape is {list(shape)} but the new input shape is {list(_shape_of(value))}."
            )
        if isinstance(present, _Zeros):
            self._elements[index] = value
        elif isinstance(present, _GradientSum) and is_numpy(self.xp):
            np.add(present.array, value, out=present.array)
        else:
            # On a device what was read may be on its way to the host: nothing is written into it.
            before = present.array if isinstance(present, _GradientSum) else present
            with self.computing():
                total = self.xp.asarray(self.xp.add(before, value))
            if self.account is not None:
                self.account.book(total, total.nbytes, self.name)
            self._elements[index] = _GradientSum(total)

    def _check_shape(self, index: int, dims: tuple[int, ...]) -> None:
        if self.element_shape.dims is None and not self.identical_element_shapes:
            return
        shape = TensorShape(dims)
        if not self.element_shape.is_compatible_with(shape):
            raise InvalidArgumentError(
                f"TensorArray {self.name}: Could not write to TensorArray index {index} because the value "
                f"shape is {shape} which is incompatible with the TensorArray's "
                f"{'inferred ' * self.identical_element_shapes}element shape: {self.element_shape}"
                f"{' (consider setting infer_shape=False)' * self.identical_element_shapes}."
            )
        if self.identical_element_shapes:
            self.element_shape = shape
        self._fitting = dims

    def get(self, index: int) -> Value:
        """An element; zeros where none was written but its shape is known."""
        elements = self._elements
        if not 0 <= index < len(elements):
            self._check_open()
            raise InvalidArgumentError(f"Tried to read from index {index} but array size is: {len(elements)}")
        value = elements[index]
        if isinstance(value, _ElementState):
            value = self._resolve(index, value)
        if self.clear_after_read:
            shape = getattr(value, "shape", ())
            if self._cleared.shape != shape:
                self._cleared = _ClearedElement(shape)
            elements[index] = self._cleared
        return value

    def _resolve(self, index: int, element: _ElementState) -> Value:
        if isinstance(element, _GradientSum):
            # Whoever reads it keeps it: nothing is added into it any more.
            value = element.array if element.array.ndim else element.array[()]
            self._elements[index] = value
            return value
        if isinstance(element, _Zeros):
            return self._zeros(element.shape)
        if isinstance(element, _ClearedElement):
            raise InvalidArgumentError(
                f"TensorArray {self.name}: Could not read index {index} twice because it was cleared after "
                "a previous read (perhaps try setting clear_after_read = false?)."
            )
        dims = self.element_shape.as_tuple()
        if dims is None:
            raise InvalidArgumentError(
                f"TensorArray {self.name}: Could not read from TensorArray index {index}: it was not "
                f"written, and the element shape {self.element_shape} is not complete, so that it cannot "
                "be read as zeros. Give the TensorArray a full element_shape to get zeros instead."
            )
        return self._zeros(dims)

    def _zeros(self, shape: tuple[int, ...]) -> Value:
        dtype: Any = self.dtype.as_numpy_dtype
        with self.computing():
            filled = np.full(shape, b"", object) if dtype.hasobject else self.xp.zeros(shape, dtype)
        return filled if shape or not is_numpy(self.xp) else filled[()]

    def gather(self, indices: Sequence[int], element_shape: TensorShape) -> Any:
        """The elements at `indices`, stacked along a new first axis.

        Raises UnimplementedError for none of an element shape that is not complete.
        """
        self._check_open()
        if not len(indices):
            dims = self._shape_of_none(element_shape, "packing", "element shape")
            return self._nothing(dims)
        values = [self.get(index) for index in indices]
        shape = _shape_of(values[0])
        if not element_shape.is_compatible_with(TensorShape(shape)):
            raise InvalidArgumentError(
                f"TensorArray was passed element_shape {element_shape} which does not match the Tensor at "
                f"index {indices[0]}: {list(shape)}"
            )
        for position, value in enumerate(values):
            if _shape_of(value) != shape:
                raise InvalidArgumentError(
                    f"TensorArray has inconsistent shapes.  Index {indices[0]} has shape: {list(shape)} but "
                    f"index {indices[position]} has shape: {list(_shape_of(value))}"
                )
        return stack(values, self.dtype, shape) if is_numpy(self.xp) else self.xp.stack(values)

    def _nothing(self, dims: tuple[int, ...]) -> Any:
        return self.xp.empty((0, *dims), dtype=self.dtype.as_numpy_dtype)

    def concat(self, element_shape_except0: TensorShape) -> tuple[Array, Array]:
        """All elements joined along their first axis, and the length of each (int64)."""
        self._check_open()
        size = self.pack_size
        if size == 0:
            known = self.element_shape.dims
            rest = UNKNOWN_SHAPE if known is None or not known else TensorShape(known[1:])
            dims = self._shape_of_none(element_shape_except0, "concatenating", "element_shape_except0", rest)
            return self._nothing(dims), np.empty(0, dtype=np.int64)
        values = [to_array(self.get(index)) for index in range(size)]
        for index, value in enumerate(values):
            if not value.ndim:
                raise InvalidArgumentError(
                    f"Concat saw a scalar shape at index {index} but requires at least vectors.  "
                    "Did you mean to call pack?"
                )
            if value.shape[1:] != values[0].shape[1:]:
                raise InvalidArgumentError(
                    "TensorArray has inconsistent shapes.  Index 0 has (excepting dimension 0) shape: "
                    f"{list(values[0].shape[1:])} but index {index} has (excepting dimension 0) shape: "
                    f"{list(value.shape[1:])}"
                )
        if not element_shape_except0.is_compatible_with(TensorShape(values[0].shape[1:])):
            raise InvalidArgumentError(
                f"TensorArray was passed element_shape_except0 {element_shape_except0} but index 0 has "
                f"(excepting dimension 0) shape: {list(values[0].shape[1:])}"
            )
        lengths = np.array([len(value) for value in values], dtype=np.int64)
        return self.xp.concatenate(values), lengths

    def _shape_of_none(
        self, given: TensorShape, doing: str, what: str, known: TensorShape | None = None
    ) -> tuple[int, ...]:
        shape = given.merge_with(self.element_shape if known is None else known)
        complete = shape.as_tuple()
        if complete is None:
            raise UnimplementedError(
                f"TensorArray has size zero, but {what} {shape} is not fully defined. Currently only static "
                f"shapes are supported when {doing} zero-size TensorArrays."
            )
        return complete

    def scatter(self, indices: Sequence[int], rows: Iterable[Value]) -> None:
        """Write row by row, having checked that all indices are inside."""
        self._check_open()
        last = max(indices, default=-1)
        if min(indices, default=0) < 0:
            raise InvalidArgumentError(f"TensorArray {self.name}: scatter index {min(indices)} is negative")
        if last >= len(self._elements) and not self.dynamic_size:
            raise InvalidArgumentError(
                f"Max scatter index must be < array size ({last} vs. {len(self._elements)})"
            )
        for index, row in zip(indices, rows, strict=True):
            self.write(index, row)
        self._mark()

    def split(self, pieces: Sequence[Value]) -> None:
        """Write the pieces to the first elements; there must be as many, unless it can grow."""
        self._check_open()
        if len(pieces) != len(self._elements) and not (
            self.dynamic_size and len(pieces) > len(self._elements)
        ):
            raise InvalidArgumentError(
                f"TensorArray's size is not equal to the size of lengths ({len(self._elements)} vs. "
                f"{len(pieces)}), and the TensorArray is not marked as dynamically resizeable"
            )
        for index, piece in enumerate(pieces):
            self.write(index, piece)
        self._mark()

    def _mark(self) -> None:
        """A gradient array keeps the mark of its forward array, whoever fills it."""
        if not self.is_gradient:
            self.marked_size = len(self._elements)

    def make_gradient(self, name: str, prepend: tuple[int, ...] = ()) -> TensorArray:
        """A gradient array for this one, which may be one itself; from now on this one cannot grow.

        `prepend` are leading dimensions that the gradients have and the elements have not.
        """
        self._check_open()
        self.dynamic_size = False
        gradient = TensorArray(
            self.dtype,
            len(self._elements),
            element_shape=TensorShape(prepend).concatenate(self.element_shape),
            # The gradient of this gradient array is read as often as the elements of this one were.
            clear_after_read=self.clear_after_read,
            identical_element_shapes=self.identical_element_shapes,
            is_gradient=True,
            name=name,
            account=self.account,
            xp=self.xp,
            computing=self.computing,
        )
        gradient.marked_size = self.marked_size
        for index, element in enumerate(self._elements):
            shape = _written_shape(element)
            if shape is not None:
                gradient._elements[index] = _Zeros(prepend + shape)
        return gradient

    def close(self) -> None:
        """Drop all elements; what comes after fails."""
        self._closed = True
        self._elements = []
        self._book()

    def destroy(self) -> None:
        """`close`, when the step ends."""
        self.close()

    def check_dtype(self, dtype: DType, doing: str) -> None:
        if dtype is not self.dtype:
            raise InvalidArgumentError(f"TensorArray dtype is {self.dtype} but Op {doing} dtype {dtype}.")

    def read(self) -> Array:
        """Return the value of a reference handle to a TensorArray: container and name (string vector)."""
        handle = np.empty(2, dtype=object)
        handle[:] = [b"_tensor_arrays", self.name.encode()]
        return handle

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidArgumentError(f"TensorArray {self.name} has already been closed.")

    def __repr__(self) -> str:
        return f"<TensorArray '{self.name}' {self.dtype.name} x {len(self._elements)}>"
