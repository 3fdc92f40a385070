"""Reasons why a value cannot be fed: it is a Tensor, None, or has rows of different lengths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from flowengine.graphs.sparse import RaggedTensor, SparseTensor
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.graphs.variables.partitioned import PartitionedVariable
from flowengine.graphs.variables.variable import GraphVariable

#: The number of list elements that are checked: an error need not find the last of a million.
_LOOKED_AT_MAX: Final = 10_000

_SYMBOLS: Final = (Tensor, Operation, GraphVariable, PartitionedVariable, SparseTensor, RaggedTensor)


def feed_fault(value: Any) -> str:
    """Explain what makes a value unfit to be fed; "" if none of these does.

    A tensor or variable of a graph, None, and nested lists whose rows differ in length, at any depth.
    """
    for count, (place, element) in enumerate(_elements(value, "")):
        where = f" (at {place})" if place else ""
        if isinstance(element, _SYMBOLS):
            shown = getattr(element, "name", None) or type(element).__name__
            kind = "an Operation" if isinstance(element, Operation) else f"a {type(element).__name__}"
            return (
                f"{shown!r}{where} is {kind} of a graph, which has a value only while a step runs: fetch it, "
                "and feed the value"
            )
        if element is None:
            return f"None cannot be fed{where}"
        if count >= _LOOKED_AT_MAX:
            break
    return _unequal_rows(value, "")


def _elements(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Yield (place, element) of the elements of nested lists; the value itself if it is not a list."""
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        value = value.tolist()
    if not isinstance(value, list | tuple):
        yield place, value
        return
    for index, each in enumerate(value):
        yield from _elements(each, f"{place}[{index}]")


def _unequal_rows(value: Any, place: str) -> str:
    """Name two rows of a nested list that differ in shape; "" if none do."""
    if not isinstance(value, list | tuple) or not value:
        return ""
    first = _length(value[0])
    for index, row in enumerate(value):
        length = _length(row)
        if length != first:
            return (
                f"it has rows of different lengths: {_row(f'{place}[0]', first)}, "
                f"{_row(f'{place}[{index}]', length)}"
            )
    return next(filter(None, (_unequal_rows(row, f"{place}[{i}]") for i, row in enumerate(value))), "")


def _length(row: Any) -> int | None:
    """Return the length of a row; None for an element."""
    if isinstance(row, str | bytes):
        return None
    shape = getattr(row, "shape", None)
    if isinstance(shape, tuple):
        return shape[0] if shape else None
    return len(row) if isinstance(row, list | tuple) else None


def _row(place: str, length: int | None) -> str:
    if length is None:
        return f"{place} is a single element"
    return f"{place} has {length} element{'s' if length != 1 else ''}"


__all__ = ["feed_fault"]
