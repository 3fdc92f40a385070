"""Values of JSON as arrays, by rules that all protocols share, and as errors show them.

Whole numbers are taken for floating types, floats are not for whole ones; a number that is too large for
float32 is an infinity.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType

#: Characters of a value that an error shows.
_SHOWN: Final = 256
_FLOATING: Final = ("float16", "bfloat16", "float32", "float64")
_WHOLE: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def rows_of(inputs: Mapping[str, Array]) -> int | None:
    """Return how many rows a request has, by its first input; None if that is a scalar or there is none."""
    for each in inputs.values():
        return len(each) if each.ndim else None
    return None


def is_number(dtype: DType) -> bool:
    """Whether JSON has values of a type that are no text: numbers and truth values."""
    return dtype is dtypes.bool_ or dtype.name in _FLOATING or dtype.name in _WHOLE


def numbers_of(leaves: Any, dtype: DType) -> Array | None:
    """Return numbers or truth values, an array or a list, as one of a type; None if one does not fit."""
    kinds = (
        {int if leaves.dtype.kind == "i" else float}
        if isinstance(leaves, np.ndarray)
        else set(map(type, leaves))
    )
    if dtype is dtypes.bool_:
        return np.array(leaves, bool) if kinds <= {bool} else None
    if dtype.name in _FLOATING:
        if not kinds <= {int, float}:
            return None
        with np.errstate(over="ignore"):
            return np.asarray(leaves, np.float64).astype(dtype.as_numpy_dtype)
    if not kinds <= {int}:
        return None
    limits = np.iinfo(dtype.as_numpy_dtype)
    if len(leaves) and (_least(leaves) < limits.min or _largest(leaves) > limits.max):
        return None
    return np.array(leaves, dtype.as_numpy_dtype)


def _least(leaves: Any) -> int:
    return int(leaves.min() if isinstance(leaves, np.ndarray) else min(leaves))


def _largest(leaves: Any) -> int:
    return int(leaves.max() if isinstance(leaves, np.ndarray) else max(leaves))


def kind_of(value: Any) -> str:
    """Return the name of a value's kind in JSON."""
    if isinstance(value, np.ndarray | list):
        return "Array"
    if isinstance(value, bool):
        return "True" if value else "False"
    named = {type(None): "Null", dict: "Object", str: "String"}
    return named.get(type(value), "Number")


def array_of(output: Any) -> Array:
    """Return an output as an array; a single string as one of an object, which keeps zeros at its end."""
    if isinstance(output, bytes | str):
        array = np.empty((), object)
        array[()] = output
        return array
    return np.asarray(output)


def encoded(text: str) -> bytes:
    """Return the bytes of a text as they were in the body."""
    return text.encode("utf-8", "surrogateescape")


def shown(value: Any) -> str:
    """Return a value as an error shows it."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=_beginning)
    except RecursionError:
        return f"{'[' if isinstance(value, list) else '{'}..."
    return text if len(text) <= _SHOWN else text[:_SHOWN]


def _beginning(array: Any) -> Any:
    """As many numbers of an array as an error shows."""
    return array.reshape(-1)[:_SHOWN].tolist()


__all__ = ["array_of", "encoded", "is_number", "kind_of", "numbers_of", "rows_of", "shown"]
