"""Conversion of Python and NumPy values to the value of a Const.

A Python float becomes float32, an int becomes int32 (int64 if it does not fit), a str is encoded as UTF-8; a
NumPy array or scalar keeps its type. If a type is requested, an int may become a float, but a float never an
int.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape


def to_value(value: Any, dtype: DType | None = None) -> tuple[Value, DType]:
    """A tensor value (see `core.arrays`; never an alias of the argument) and its type.

    Raises InvalidArgumentError if it is not a tensor (None, a ragged list) or cannot become `dtype`.
    """
    if value is None:
        raise InvalidArgumentError("None is not a tensor: does a function return nothing?")
    if isinstance(value, Iterator):
        raise InvalidArgumentError(f"{_show(value)} is not a tensor: convert it to a list")
    if callable(value) and not hasattr(value, "__array__"):
        raise InvalidArgumentError(f"{_show(value)} is a function, not a tensor: call it")
    if isinstance(value, TensorShape):
        if not value.is_fully_defined:
            raise InvalidArgumentError(f"the shape {value} is not fully known and cannot be a constant")
        value = np.array(value.as_list(), np.int32)
    array, natural = _to_array(value)
    wanted = natural if dtype is None else dtype.base
    if wanted is not natural:
        array = _convert(array, natural, wanted, value)
    if array.shape == ():
        return array[()], wanted
    array.flags.writeable = False
    return array, wanted


def reshaped(value: Any, shape: TensorShape) -> Any:
    """Return a value in another shape; a single number is repeated to fill it."""
    array = to_array(value)
    count = shape.num_elements()
    if count is None:
        raise InvalidArgumentError(f"graph.constant needs a fully known shape, not {shape}")
    dims = tuple(d for d in shape if d is not None)
    if array.size == count:
        result = array.reshape(dims)
    elif array.size == 1:
        result = array.reshape(()).repeat(count).reshape(dims)
    else:
        raise InvalidArgumentError(f"{array.size} elements cannot fill the shape {shape}")
    return result[()] if dims == () else result


def natural_dtype(value: Any) -> DType | None:
    """The type that a value has by itself; None where it is no tensor."""
    kind = type(value)
    if kind is float:
        return dtypes.float32
    if kind is int:
        return dtypes.int32 if -(2**31) <= value < 2**31 else dtypes.int64
    if kind is bool:
        return dtypes.bool_
    if kind is str or kind is bytes:
        return dtypes.string
    try:
        return to_value(value)[1]
    except InvalidArgumentError:
        return None


def _to_array(value: Any) -> tuple[Array, DType]:
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        if array.dtype.kind in "OSU":
            return _strings(array if array.dtype == object else array.astype(object), value), dtypes.string
        return np.array(array, order="C"), dtypes.as_dtype(array.dtype)
    if isinstance(_first_leaf(value), str | bytes):
        return _strings(_object_array(value), value), dtypes.string
    try:
        array = np.array(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidArgumentError(f"{_show(value)} is not a tensor: {error}") from None
    if array.dtype.kind in "SU":
        return _strings(_object_array(value), value), dtypes.string
    if array.dtype.kind not in "biufc":
        raise InvalidArgumentError(f"{_show(value)} is not a tensor")
    if array.dtype == np.float64:
        array = array.astype(np.float32)
    elif array.dtype == np.int64:
        narrow = array.astype(np.int32)
        if (narrow == array).all():
            array = narrow
    return array, dtypes.as_dtype(array.dtype)


def _first_leaf(value: Any) -> Any:
    while isinstance(value, list | tuple):
        if not value:
            return None
        value = value[0]
    return value


def _object_array(value: Any) -> Array:
    if isinstance(value, str | bytes):
        array = np.empty((), dtype=object)
        array[()] = value
        return array
    return np.array(value, dtype=object)


def _strings(array: Array, value: Any) -> Array:
    result = np.empty(array.shape, dtype=object)
    flat = result.reshape(-1)
    for index, item in enumerate(array.reshape(-1)):
        if isinstance(item, str):
            flat[index] = item.encode()
        elif isinstance(item, bytes):
            flat[index] = bytes(item)
        else:
            raise InvalidArgumentError(f"{_show(value)} is not a tensor: it mixes strings with {item!r}")
    return result


def _convert(array: Array, natural: DType, wanted: DType, value: Any) -> Array:
    if array.size == 0 and not isinstance(value, np.ndarray):
        fits = True
    elif wanted.is_complex:
        fits = natural.is_integer or natural.is_floating or natural.is_complex
    elif wanted.is_floating:
        fits = natural.is_integer or natural.is_floating
    elif wanted.is_integer or wanted.is_quantized:
        fits = natural.is_integer
    else:
        fits = False
    if not fits:
        raise InvalidArgumentError(f"{_show(value)} is {natural} and cannot become {wanted}")
    source = array
    if wanted.is_floating and not isinstance(value, np.ndarray | np.generic) and wanted is dtypes.float64:
        # Through the Python value, which has all the digits.
        source = np.array(value, np.float64)
    result = source.astype(wanted.as_numpy_dtype)
    if (wanted.is_integer or wanted.is_quantized) and not (result == array).all():
        raise InvalidArgumentError(f"{_show(value)} does not fit into {wanted}")
    return result


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
