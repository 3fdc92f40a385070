"""The field `data` of an input: a list of elements, or lists in lists as the shape has them, as an array."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.work_pieces import Pieces
from flowengine.serving.text.values import encoded, numbers_of, shown
from flowengine.serving.v2.datatypes import BINARY_ONLY, datatype_of

#: Elements that are taken at a time: less than a millisecond.
_ELEMENTS: Final = 4096


def read_data(name: str, dtype: DType, shape: tuple[int, ...], count: int, data: Any) -> Pieces[Array]:
    """Read the elements of an input; strings as objects of bytes.

    count   the number of elements of the shape
    data    a value of JSON; nested lists of numbers may come as arrays of int64 or float64

    Raises InvalidArgumentError if their number or nesting is not that of the shape, or one of them is no
    value of the type.
    """
    datatype = datatype_of(dtype)
    if datatype in BINARY_ONLY:
        raise InvalidArgumentError(
            f"receiving {datatype} data via JSON is not supported. Please use the binary data format for "
            f"input {name}"
        )
    elements = yield from _flattened(name, shape, data)
    if len(elements) != count:
        raise _other_shape(name, shape, f"{len(elements)} elements")
    array = np.empty(count, dtype.as_numpy_dtype)
    for begin in range(0, count, _ELEMENTS):
        part = elements[begin : begin + _ELEMENTS]
        array[begin : begin + _ELEMENTS] = _converted(name, dtype, part)
        yield
    return array.reshape(shape)


def _flattened(name: str, shape: tuple[int, ...], data: Any) -> Pieces[Any]:
    """The elements of a list, or of lists in lists that have the lengths of the shape."""
    if isinstance(data, np.ndarray):
        if data.ndim > 1 and data.shape != shape:
            raise _other_shape(name, shape, f"lists of shape {list(data.shape)}")
        return data.reshape(-1)
    if not isinstance(data, list):
        raise InvalidArgumentError(f"Unable to parse 'data' of input '{name}': it is no list")
    if not data or not isinstance(data[0], list | np.ndarray):
        return data
    level: list[Any] = [data]
    for size in shape:
        below: list[Any] = []
        for number, each in enumerate(level):
            if isinstance(each, np.ndarray):
                each = each.tolist()
            if not isinstance(each, list):
                raise _not_fitting(name, each, "list")
            if len(each) != size:
                raise _other_shape(name, shape, f"a list of {len(each)}")
            below += each
            if not (number + 1) % _ELEMENTS:
                yield
        level = below
    if level and isinstance(level[0], list | np.ndarray):
        raise _other_shape(name, shape, "lists that are nested more deeply")
    return level


def _converted(name: str, dtype: DType, part: Any) -> Any:
    if dtype is dtypes.string:
        texts = np.empty(len(part), object)
        for place, each in enumerate(part):
            if not isinstance(each, str):
                raise _not_fitting(name, each, "BYTES")
            texts[place] = encoded(each)
        return texts
    values = numbers_of(part, dtype)
    if values is None:
        items = part.tolist() if isinstance(part, np.ndarray) else part
        wrong = next((each for each in items if numbers_of([each], dtype) is None), None)
        raise _not_fitting(name, wrong, datatype_of(dtype))
    return values


def _not_fitting(name: str, value: Any, wanted: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"Unable to parse 'data' of input '{name}': {shown(value)} is no value of {wanted}"
    )


def _other_shape(name: str, shape: tuple[int, ...], found: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"Unable to parse 'data' of input '{name}': Shape does not match true shape of 'data' field: "
        f"it has {found}, the shape is {list(shape)}"
    )


__all__ = ["read_data"]
