"""A variable whose array lies in the memory of a device of its own, which no host reads.

The rules are those of `variable.py`: reading lends, writing goes into the same memory when no read is
outstanding and into a fresh copy when one is. Views of an array refer to it, as CuPy's do, so references tell
here too. All that is done is launched; nothing waits for the device.
"""

from __future__ import annotations

from typing import Any

from flowengine.core.arrays import Array, Value
from flowengine.core.dtypes import DType
from flowengine.core.shapes import TensorShape
from flowengine.resources.variable import Variable


class DeviceVariable(Variable):
    """A variable of a device with memory of its own.

    What is assigned is an array of that memory, and so is what is read, of rank 0 too.
    """

    __slots__ = ("_xp",)

    def __init__(self, name: str, dtype: DType, shape: TensorShape, *, xp: Any, container: str = "") -> None:
        """`xp` is the device's array module."""
        super().__init__(name, dtype, shape, container=container)
        self._xp = xp

    def read(self) -> Value:
        array = self._array
        if array is None:
            raise self.uninitialized()
        return array

    def value_of(self, dtype: DType) -> Value:
        array = self._array
        return array if array is not None and self.dtype is dtype else super().value_of(dtype)

    def mutable(self) -> Array:
        if self._array is None:
            raise self.uninitialized()
        if self.is_lent():
            self.copies += 1
            self._array = self._copied(self._array)
        return self._array

    def assign(self, value: Value, *, validate_shape: bool = True) -> None:
        if validate_shape:
            self._check_shape(value.shape)
        if self._array is None or self._array.shape != value.shape or self.is_lent():
            self._array = self._copied(value)
        else:
            self._array[...] = value

    def _copied(self, array: Array) -> Array:
        copy: Array = self._xp.array(array, self.dtype.as_numpy_dtype)
        return copy


__all__ = ["DeviceVariable"]
