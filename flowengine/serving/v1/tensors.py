"""Values of JSON as tensors of a signature's inputs, by TensorFlow Serving's rules.

Whole numbers are taken for floating inputs, floats are not for whole ones; a number that is too large for
float32 is an infinity. Strings are text, or bytes as `{"b64": "..."}`.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, UnimplementedError
from flowengine.serving.text.values import encoded, is_number, kind_of, numbers_of, shown

#: Dimensions that an array may have.
_RANK_MAX: Final = 64
#: Names of types where TensorFlow's differ from NumPy's.
_NAMES: Final = {"float32": "float", "float64": "double", "float16": "half"}


def type_name(dtype: DType) -> str:
    """Return the name that TensorFlow has for a type: float, double, half, int32 ..."""
    return _NAMES.get(dtype.name, dtype.name)


def tensor_of(value: Any, dtype: DType) -> Array:
    """Return a value of JSON as an array of a type; strings as objects of bytes.

    Raises InvalidArgumentError for lists of different lengths and values of another kind, UnimplementedError
    for a type that JSON has no values of.
    """
    if isinstance(value, np.ndarray):
        return _numbers(value, dtype)
    shape = shape_of(value)
    leaves: list[Any] = [value]
    for size in shape:
        level: list[Any] = []
        for each in leaves:
            if isinstance(each, np.ndarray):
                each = each.tolist()
            if type(each) is not list or len(each) != size:
                raise _first_fault(value, dtype, shape)
            level += each
        leaves = level
    array = _strings(leaves) if dtype is dtypes.string else _of_numbers(leaves, dtype)
    if array is None:
        raise _first_fault(value, dtype, shape)
    return array.reshape(shape)


def shape_of(value: Any) -> tuple[int, ...]:
    """Return the lengths of a value's lists, each of the first one in it."""
    shape: list[int] = []
    while type(value) is list:
        shape.append(len(value))
        if len(shape) > _RANK_MAX:
            raise InvalidArgumentError(f"lists are nested more than {_RANK_MAX} deep")
        if not value:
            break
        value = value[0]
    return (*shape, *value.shape) if isinstance(value, np.ndarray) else tuple(shape)


def is_bytes(value: Any) -> bool:
    """Whether a value stands for bytes: an object whose only key is "b64", with a string."""
    return type(value) is dict and len(value) == 1 and type(value.get("b64")) is str


def decoded(value: Any) -> bytes:
    """Return the bytes of `{"b64": "..."}`; InvalidArgumentError for anything else."""
    if not is_bytes(value):
        raise InvalidArgumentError(f"JSON Value: {shown(value)} not formatted correctly for base64 data")
    text = "".join(value["b64"].split()).rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidArgumentError("Unable to base64 decode") from None


def _numbers(array: Array, dtype: DType) -> Array:
    """An array of int64 or float64 as one of a type."""
    found = _of_numbers(array, dtype)
    if found is None:
        raise _first_fault(array.tolist(), dtype, array.shape)
    return found.reshape(array.shape)


def _of_numbers(leaves: Any, dtype: DType) -> Array | None:
    """Numbers or truth values of a type; None if one of them does not fit."""
    if not is_number(dtype):
        raise UnimplementedError(
            f"Conversion of JSON Value: {shown(_first(leaves))} to type: {type_name(dtype)}"
        )
    return numbers_of(leaves, dtype)


def _strings(leaves: list[Any]) -> Array | None:
    array = np.empty(len(leaves), object)
    for place, each in enumerate(leaves):
        if type(each) is str:
            array[place] = encoded(each)
        elif type(each) is dict:
            array[place] = decoded(each)
        else:
            return None
    return array


def _first_fault(value: Any, dtype: DType, shape: tuple[int, ...]) -> InvalidArgumentError:
    """Return the error of the first part of a value that does not fit, in the order of the text."""
    rank = len(shape)
    waiting: list[tuple[Any, int]] = [(value, 0)]
    while waiting:
        each, level = waiting.pop()
        if isinstance(each, np.ndarray):
            each = each.tolist()
        if type(each) is not list:
            if level != rank:
                return InvalidArgumentError(
                    f"JSON Value: {shown(each)} found at incorrect level: {level + 1} in the JSON DOM. "
                    f"Expected at level: {rank}"
                )
            fault = _fault(each, dtype)
            if fault is not None:
                return fault
            continue
        if level >= rank:
            return InvalidArgumentError(f"Encountered list at unexpected level: {level} expected < {rank}")
        if len(each) != shape[level]:
            return InvalidArgumentError(
                f"Encountered list at unexpected size: {len(each)} at level: {level} "
                f"expected size: {shape[level]}"
            )
        waiting += [(item, level + 1) for item in reversed(each)]
    return InvalidArgumentError(f"the values do not fit into {type_name(dtype)}")


def _fault(value: Any, dtype: DType) -> InvalidArgumentError | None:
    """Return the error of one value that does not fit a type; None if it fits."""
    if dtype is dtypes.string:
        try:
            if _strings([value]) is not None:
                return None
        except InvalidArgumentError as error:
            return error
    elif type(value) is not dict and _of_numbers([value], dtype) is not None:
        return None
    return InvalidArgumentError(
        f"JSON Value: {shown(value)} Type: {kind_of(value)} is not of expected type: {type_name(dtype)}"
    )


def _first(leaves: Any) -> Any:
    return (leaves.flat[0].item() if isinstance(leaves, np.ndarray) else leaves[0]) if len(leaves) else []


__all__ = ["decoded", "is_bytes", "shape_of", "tensor_of", "type_name"]
