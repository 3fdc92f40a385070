"""TensorList: a list of tensors that flows along an edge as one variant value; what its kernels share.

A list is a value: pushing or setting gives another list. Lists that come of one another share a storage, so
a loop that pushes, sets or pops n tensors costs n, not n squared: see `list_storage`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from flowengine.core.accounting import REFERENCE_BYTES, ask_for
from flowengine.core.arrays import Array, Value, describe
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, ResourceExhaustedError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.kernels.common.array_args import blank, brackets, integers, shape_of
from flowengine.kernels.data.list_storage import Element, ListStorage, ListVersion

#: Elements of a list that is lengthened at once: 512 MB, although nothing is in them yet.
_LENGTH_MAX: Final = 1 << 26


def check_length(count: int) -> None:
    """ResourceExhaustedError for so many elements that a list of nothing but them would fill the memory."""
    ask_for(count * REFERENCE_BYTES)
    if count > _LENGTH_MAX:
        raise ResourceExhaustedError(
            f"a list of {count} elements that are not initialized; at most {_LENGTH_MAX} are made at once"
        )


class TensorList:
    """An immutable list of tensors of one element type.

    element_dtype       their type
    element_shape       what is known of their shape
    max_num_elements    -1, or how many it may hold
    """

    __slots__ = ("_length", "_version", "element_dtype", "element_shape", "max_num_elements")

    def __init__(
        self,
        element_dtype: DType,
        element_shape: TensorShape,
        tensors: Iterable[Element] = (),
        max_num_elements: int = -1,
    ) -> None:
        self.element_dtype = element_dtype
        self.element_shape = element_shape
        self.max_num_elements = max_num_elements
        self._version = ListVersion(tensors)
        self._length = len(self._version.storage)

    @property
    def length(self) -> int:
        return self._length

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Whether an element of this shape fits."""
        dims = self.element_shape.dims
        if dims is None or dims == shape:
            return True
        return len(dims) == len(shape) and all(
            known is None or known == size for known, size in zip(dims, shape, strict=True)
        )

    @property
    def storage(self) -> ListStorage:
        """The storage of the elements, and perhaps of those of longer lists too."""
        return self._version.storage

    def held_values(self) -> list[Element]:
        """The elements: `accounting.Composite`."""
        return self.tensors()

    def tensors(self) -> list[Element]:
        """The elements, None where one is not initialized; the caller's own list."""
        return self._version.elements(self._length)

    def get(self, index: int) -> Value | None:
        """One element; InvalidArgumentError outside of the list."""
        if not 0 <= index < self._length:
            raise InvalidArgumentError(
                f"Trying to access element {index} in a list with {self._length} elements."
            )
        return self._version.get(index)

    def pushed(self, tensor: Value) -> TensorList:
        """A list with one element more."""
        return self._sharing(self._version.appended(self._length, (tensor,)), self._length + 1)

    def lengthened(self, elements: Sequence[Element]) -> TensorList:
        """A list with these elements behind its own."""
        return self._sharing(self._version.appended(self._length, elements), self._length + len(elements))

    def shortened(self, length: int) -> TensorList:
        """A list of the first elements."""
        if 2 * length < self._length:
            return self.replaced(self._version.elements(length))  # most would be kept for nothing
        return self._sharing(self._version.dropped(self._length), length)

    def with_element(self, index: int, tensor: Value) -> TensorList:
        """A list with another element at an index of it."""
        return self._sharing(self._version.replaced(self._length, index, tensor), self._length)

    def replaced(self, tensors: Iterable[Element]) -> TensorList:
        """A list of the same kind with these elements."""
        version = ListVersion(tensors)
        return self._sharing(version, len(version.storage))

    def _sharing(self, version: ListVersion, length: int) -> TensorList:
        result = TensorList.__new__(TensorList)
        result.element_dtype = self.element_dtype
        result.element_shape = self.element_shape
        result.max_num_elements = self.max_num_elements
        result._version = version
        result._length = length
        return result

    def zeros_like(self) -> TensorList:
        """A list of zeros in the shapes of the elements."""
        dtype = self.element_dtype.as_numpy_dtype
        return self.replaced(
            [
                None if t is None else t.zeros_like() if _is_variant(t) else blank(np, shape_of(t), dtype)
                for t in self.tensors()
            ]
        )

    def __add__(self, other: object) -> TensorList:
        """Element by element, for AddN; an element that one list lacks is the other's."""
        if not isinstance(other, TensorList):
            return NotImplemented
        if self.element_dtype is not other.element_dtype:
            raise InvalidArgumentError(
                "Trying to add two lists of tensors of different dtypes: "
                f"{self.element_dtype} and {other.element_dtype}"
            )
        if self._length != other._length:
            raise InvalidArgumentError(
                "Trying to add two lists of tensors with different lengths: "
                f"{self._length} and {other._length}"
            )
        result = self.replaced(
            [
                b if a is None else a if b is None else a + b
                for a, b in zip(self.tensors(), other.tensors(), strict=True)
            ]
        )
        result.element_shape = merged(self.element_shape, other.element_shape, "add two lists")
        return result

    def __repr__(self) -> str:
        return f"TensorList({self.element_dtype}, {self.element_shape}, length {self._length})"


def _is_variant(value: Value) -> bool:
    """Whether a value says itself what its zero is: a list or an optional, not an array."""
    return hasattr(value, "zeros_like")


def merged(a: TensorShape, b: TensorShape, verb: str) -> TensorShape:
    if not a.is_compatible_with(b):
        raise InvalidArgumentError(f"Tried to {verb} of incompatible element shapes {a} and {b}")
    return a.merge_with(b)


def list_in(handle: Value, dtype: DType | None = None) -> TensorList:
    """The list in a variant; InvalidArgumentError where there is another thing, or other elements."""
    if isinstance(handle, np.ndarray) and handle.ndim == 0:
        handle = handle[()]
    if not isinstance(handle, TensorList):
        raise InvalidArgumentError(f"Input handle is not a list: {describe(handle)}")
    if dtype is not None and handle.element_dtype is not dtype.base:
        raise InvalidArgumentError(
            f"Invalid data types; op elements {dtype} but list elements {handle.element_dtype}"
        )
    return handle


def shape_argument(value: Array) -> TensorShape:
    """The partial shape that an argument spells: -1 alone is an unknown rank."""
    if value.ndim == 0:
        if int(value) != -1:
            raise InvalidArgumentError(
                f"The only valid scalar shape tensor is the fully unknown shape specified as -1, not {value}"
            )
        return UNKNOWN_SHAPE
    dims = integers(value, "element_shape")
    if dims and min(dims) < -1:
        raise InvalidArgumentError(f"element_shape has a dimension below -1: {brackets(dims)}")
    return TensorShape(dims)


def check_element(tensors: TensorList, tensor: Value, verb: str) -> None:
    """InvalidArgumentError for a tensor of another shape than the list's."""
    if not tensors.takes(shape_of(tensor)):
        raise InvalidArgumentError(
            f"Tried to {verb} a tensor with incompatible shape. "
            f"Op element shape: {TensorShape(shape_of(tensor))} list shape: {tensors.element_shape}"
        )


def known_shape(tensors: TensorList, shape: TensorShape, verb: str) -> TensorShape:
    """Return an element's shape, as far as the list, the op and the elements together determine it."""
    known = merged(tensors.element_shape, shape, verb)
    for tensor in tensors.tensors():
        if known.is_fully_defined:
            break
        if tensor is not None:
            known = merged(known, TensorShape(shape_of(tensor)), verb)
    return known


def initialized(tensors: TensorList, tensor: Value | None, shape: TensorShape) -> Value:
    """The element, or zeros for one that was never set."""
    if tensor is not None:
        return tensor
    known = known_shape(tensors, shape, "read an element")
    if not known.is_fully_defined:
        raise InvalidArgumentError(
            "Trying to read an uninitialized tensor but element_shape is not fully defined: "
            f"{known}. Set the element, or give the list the shape of its elements."
        )
    return blank(np, [d or 0 for d in known.as_list()], tensors.element_dtype.as_numpy_dtype)
