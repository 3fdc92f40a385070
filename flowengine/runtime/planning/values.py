"""Conversions of a session: from feeds to tensor values, and from fetched values to the caller's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, Value, is_same_number, to_array
from flowengine.core.buffers import ALIGNED, AlignedBytes, MemoryLease, aligned
from flowengine.core.dtypes import DType, resource, string, variant
from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.devices.dlpack_values import LentValue, is_lent
from flowengine.graphs.errors import ConstructionError
from flowengine.graphs.tensor import Tensor
from flowengine.graphs.variables.variable import GraphVariable
from flowengine.runtime.planning.feed_faults import feed_fault

#: Columns of a transposed matrix that are copied together.
_COLUMNS: Final = 256


class FeedSpec:
    """A description of feeds for one tensor: name, dtype, and the shape that a placeholder declares."""

    __slots__ = ("_declared", "_numpy", "dtype", "name", "shape")

    def __init__(self, name: str, dtype: DType, shape: TensorShape = UNKNOWN_SHAPE) -> None:
        self.name = name
        self.dtype = dtype.base
        self.shape = shape
        self._numpy = self.dtype.as_numpy_dtype
        #: The shape as NumPy writes it, with None for an unknown size; None if the rank is unknown.
        self._declared = shape.dims

    def convert(self, value: Any) -> Value:
        """Convert a caller's value to a tensor value: an array, a scalar, nested lists, str or bytes.

        An array of the right dtype is borrowed, not copied, also one in a device's memory that has DLPack's
        methods (`flowengine.devices.dlpack_values`). Raises InvalidArgumentError for another kind of number,
        another shape, or no shape at all.
        """
        if type(value) is np.ndarray and value.dtype == self._numpy and self.dtype is not string:
            if self._declared is None or value.shape == self._declared:
                return value
            array = value
        elif self.dtype is string:
            array = self._strings(value)
        elif self.dtype in (resource, variant):
            if isinstance(value, Tensor | GraphVariable):
                raise self._unfit(value, feed_fault(value))
            return value
        elif is_lent(value):
            return LentValue(self.name, value, self._borrowed)
        else:
            array = self._numbers(value)
        return self.checked(array)

    def checked(self, array: Any) -> Any:
        """Return the array, if its shape may be fed; InvalidArgumentError otherwise."""
        declared = self._declared
        if declared is not None and array.shape != declared and not _is_instance(array.shape, declared):
            raise InvalidArgumentError(
                f"Cannot feed a value of shape {list(array.shape)} for '{self.name}', "
                f"which has shape {self.shape}"
            )
        return array

    def _borrowed(self, array: Any) -> Any:
        """Return an array of a device, if it may be fed: of this very type, since nothing of it is copied."""
        if array.dtype != self._numpy:
            raise InvalidArgumentError(
                f"Cannot feed an array of {array.dtype} on a device for '{self.name}', which is of "
                f"{self.dtype.name}: convert it there first"
            )
        return self.checked(array)

    def _numbers(self, value: Any) -> Any:
        given = self._array(np.asarray, value)
        if given.dtype == self._numpy:
            return given
        if given.dtype.type is np.void:
            return self._field(value, given)
        if given.size == 0 and not isinstance(value, np.ndarray | np.generic):
            return given.astype(self._numpy)  # an empty list has no dtype of its own
        if given.dtype.kind in "OSU" or not _can_feed(given, self.dtype, self._numpy):
            holds = f"it holds {'strings or objects' if given.dtype.kind in 'OSU' else given.dtype}"
            raise self._unfit(value, feed_fault(value) or holds)
        try:
            # A number too large for a float is an infinity; one too large for an integer is found below.
            with np.errstate(over="ignore", invalid="ignore"):
                result = np.asarray(given, dtype=self._numpy)
        except (ValueError, TypeError, OverflowError) as error:
            raise self._unfit(value, str(error)) from None
        is_whole = self.dtype.is_integer or self.dtype.is_quantized or self.dtype.is_bool
        if is_whole and not is_same_number(given, result):
            held = "" if given.dtype.kind in "iu" else f"it holds {given.dtype}, and "
            raise self._unfit(value, f"{held}a value does not fit into {self.dtype.name}")
        return result

    def _array(self, make: Callable[[Any], Any], value: Any) -> Any:
        """Convert a value with NumPy: the caller's code may run, and fail, in its `__array__`."""
        if isinstance(value, np.ma.MaskedArray):
            raise self._unfit(value, "some of it is masked: give `.filled(...)`")
        try:
            return make(value)
        except ConstructionError:  # a Tensor, or a list with one in it
            raise self._unfit(value, feed_fault(value)) from None
        except OpError:
            raise
        except (ValueError, TypeError) as error:
            fault = feed_fault(value)
            raise self._unfit(value, fault or str(error)) from (None if fault else error)
        except Exception as error:
            raise self._unfit(
                value, f"NumPy makes no array of it: {type(error).__name__}: {error}"
            ) from error

    def _field(self, value: Any, given: Any) -> Any:
        """Return the one field of a structured array, TensorFlow's form of quantised numbers."""
        names: tuple[str, ...] = given.dtype.names or ()
        if self.dtype.is_quantized and len(names) == 1 and given.dtype[names[0]] == self._numpy:
            return given[names[0]]
        raise self._unfit(value, f"it is structured ({given.dtype}): give one of its fields")

    def _strings(self, value: Any) -> Any:
        if isinstance(value, bytes | str):
            return to_array(as_bytes(value, self.name))
        given = self._array(np.asarray if isinstance(value, np.ndarray) else _object_array, value)
        if given.dtype.kind not in "OSU":
            raise self._unfit(value, f"it holds {given.dtype}")
        elements = given.reshape(-1).tolist()
        result = np.empty(len(elements), dtype=object)
        kinds = set(map(type, elements))
        if not kinds <= {bytes, str} and (fault := feed_fault(value)):
            raise self._unfit(value, fault)
        result[:] = elements if kinds <= {bytes} else [as_bytes(each, self.name) for each in elements]
        return result.reshape(given.shape)

    def _unfit(self, value: Any, why: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"Cannot feed {type(value).__name__} for '{self.name}', which has dtype {self.dtype.name}: {why}"
        )


def _is_instance(shape: tuple[int, ...], declared: tuple[int | None, ...]) -> bool:
    """Return whether a shape is one of the declared ones."""
    if len(declared) != len(shape):
        return False
    for size, given in zip(declared, shape, strict=True):  # noqa: SIM110 (a generator costs more)
        if size is not None and size != given:
            return False
    return True


def _can_feed(given: Any, dtype: DType, numpy_dtype: Any) -> bool:
    """Return whether numbers of this kind may be converted; those that become whole are compared later."""
    source = given.dtype
    if dtype.is_quantized:
        return bool(source.kind in "iu")
    if dtype.is_bool:
        return bool(source.kind in "biuf")
    if dtype.name == "bfloat16":
        return bool(source.kind in "biuf")
    if source.kind == "V":  # bfloat16 from ml_dtypes
        return dtype.is_floating or dtype.is_complex
    if source.kind in "iuf" and dtype.is_integer:
        return True
    return bool(np.can_cast(source, numpy_dtype, "same_kind"))


def _object_array(value: Any) -> Any:
    """Return nested lists as an object array; NumPy's own S and U arrays would drop trailing zeros."""
    return np.array(value, dtype=object)


def as_bytes(element: Any, name: str) -> bytes:
    """Return a string that is fed to the tensor of this name; InvalidArgumentError for anything else."""
    if isinstance(element, bytes):
        return element
    why = "give str or bytes"
    if isinstance(element, str):
        try:
            return element.encode()
        except UnicodeEncodeError as error:
            why = str(error)
    raise InvalidArgumentError(
        f"Cannot feed {type(element).__name__} for '{name}', which has dtype string: {why}"
    )


class FetchSpec:
    """How one fetched tensor is handed out: quantised types get TensorFlow's structured dtype."""

    __slots__ = ("_structured", "name")

    def __init__(self, name: str, dtype: DType | None) -> None:
        self.name = name
        self._structured: np.dtype[Any] | None = None
        if dtype is not None and dtype.is_quantized:
            self._structured = np.dtype([(dtype.base.name, dtype.as_numpy_dtype)])

    def convert(self, values: list[Value], index: int) -> Any:
        """values[index] as the caller's own: a NumPy scalar or `bytes` for rank 0, else an array that
        nothing in the engine shares. The list must hold the only reference that the step has left."""
        value = values[index]
        if isinstance(value, np.ndarray):
            if self._structured is not None:
                self._check(value)
                return np.array(value).view(self._structured).reshape(value.shape)
            if not value.ndim:
                return value[()]
            del value
            if _is_exclusive(values, index):
                return values[index]
            return _copied(values[index])
        if self._structured is not None and isinstance(value, np.generic):
            self._check(value)
            return np.asarray(value).view(self._structured)[()]
        if isinstance(value, LentValue):
            value.fetched()
        return value

    def _check(self, value: Any) -> None:
        """Raise InvalidArgumentError for a value, such as an iterator's, of a type that its node lacks."""
        assert self._structured is not None
        (name,) = self._structured.names or ("",)
        if value.dtype != self._structured[name]:
            raise InvalidArgumentError(f"'{self.name}' is to have dtype {name}, its value has {value.dtype}")


def own_values(fetches: Sequence[FetchSpec], results: list[Any]) -> list[Any]:
    """Convert the values of a plan's tensors to the caller's own.

    The list must hold the only references that the step has left.
    """
    return [spec.convert(results, index) for index, spec in enumerate(fetches)]


def lent_values(fetches: Sequence[FetchSpec], results: list[Any]) -> list[Any]:
    """Return the values of a plan's tensors unchanged: variables and feeds may share their memory.

    For callers who have read them, or copied them, before anything else runs.
    """
    return results


def _copied(view: Array) -> Array:
    """Return a copy in C order. A transposed matrix is copied by blocks of columns, which stay in the cache:
    for 2048 x 2048 that takes half the time of NumPy's own loop."""
    if view.ndim != 2 or view.flags.c_contiguous or view.size < 65536:
        return view.copy()
    result = np.empty(view.shape, view.dtype)
    for start in range(0, view.shape[1], _COLUMNS):
        result[:, start : start + _COLUMNS] = view[:, start : start + _COLUMNS]
    return result


def _is_exclusive(values: list[Any], index: int) -> bool:
    """Return whether the list alone holds the array, and the array its memory.

    CPython counts references, so nothing else can reach the memory if the count is what a fresh array
    in a list has; how the interpreter passes it to the function adds a constant, measured below.
    """
    if getrefcount(values[index]) > _ALONE:
        return False
    if values[index].base is None:
        return bool(values[index].flags.owndata)
    if type(values[index].base) is not AlignedBytes and type(values[index].base) is not MemoryLease:
        return False
    return getrefcount(values[index].base) <= _ALONE_BELOW


def _measure_alone() -> tuple[int, int]:
    """Return the counts of an array that a list alone holds, and of the object that it alone refers to."""
    probe: list[Any] = [aligned((ALIGNED,), np.uint8)]

    def count(values: list[Any], index: int) -> tuple[int, int]:
        return getrefcount(values[index]), getrefcount(values[index].base)

    counts = [count(probe, 0) for _ in range(64)]
    return min(above for above, _ in counts), min(below for _, below in counts)


_ALONE, _ALONE_BELOW = _measure_alone()
