"""`x[...]`: from a Python subscript to a StridedSlice and its five masks.

Each entry of the subscript is a place in the vectors begin, end and strides. A bit of a mask marks an end
that is left out, `...`, a new axis, and an axis that is dropped.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final

from flowengine.core import dtypes
from flowengine.graphs.conversion import convert, stands_for_tensor
from flowengine.graphs.errors import ConstructionTypeError, ConstructionValueError
from flowengine.graphs.tensor import Tensor

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph

_INT32_MAX: Final = 2**31


class Subscript:
    """A subscript, entry by entry: the vectors and masks of a StridedSlice."""

    def __init__(self, graph: Graph, key: Any) -> None:
        self._graph = graph
        self.begin: list[Any] = []
        self.end: list[Any] = []
        self.strides: list[Any] = []
        self.masks: dict[str, int] = {}
        for entry in key if isinstance(key, tuple) else (key,):
            self._read(entry)

    def _read(self, entry: Any) -> None:
        if entry is None:
            self._add(0, 0, 1, "new_axis_mask")
        elif entry is Ellipsis:
            if "ellipsis_mask" in self.masks:
                raise ConstructionValueError("a subscript has at most one '...'")
            self._add(0, 0, 1, "ellipsis_mask")
        elif isinstance(entry, slice):
            open_ends = [
                mask
                for mask, value in (("begin_mask", entry.start), ("end_mask", entry.stop))
                if value is None
            ]
            start, stop = (0 if v is None else self._position(v) for v in (entry.start, entry.stop))
            step = 1 if entry.step is None else self._position(entry.step)
            if isinstance(step, int) and step == 0:
                raise ConstructionValueError("the step of a slice cannot be 0")
            self._add(start, stop, step, *open_ends)
        else:
            place = self._position(entry)
            self._add(place, place + 1, 1, "shrink_axis_mask")

    def _add(self, begin: Any, end: Any, stride: Any, *masks: str) -> None:
        for mask in masks:
            self.masks[mask] = self.masks.get(mask, 0) | 1 << len(self.begin)
        self.begin.append(begin)
        self.end.append(end)
        self.strides.append(stride)

    def _position(self, value: Any) -> Any:
        """One index: a Python int, or a tensor of one integer."""
        if stands_for_tensor(value):
            tensor = convert(self._graph, value)
            if not tensor.dtype.is_integer:
                raise ConstructionTypeError(
                    f"'{tensor.name}' is {tensor.dtype}, not an integer: it cannot be an index; "
                    "boolean_mask(x, mask) takes the elements where a mask is true"
                )
            if tensor.shape.rank not in (0, None):
                raise ConstructionValueError(
                    f"'{tensor.name}' of shape {tensor.shape} cannot be an index; gather(x, indices) takes "
                    "the rows of many indices"
                )
            return tensor
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise ConstructionTypeError(
                f"{value!r} cannot be an index: a subscript has integers, slices, '...', None and tensors of "
                "one integer"
            )
        return operator.index(value)

    def vectors(self) -> list[Any]:
        """begin, end and strides, each a list of one type: int64 where an index is, or does not fit int32."""
        lists = [self.begin, self.end, self.strides]
        flat = [each for values in lists for each in values]
        if not any(isinstance(each, Tensor) for each in flat):
            wide = any(not -_INT32_MAX <= each < _INT32_MAX for each in flat)
            dtype = dtypes.int64 if wide else dtypes.int32
            names = ("stack", "stack_1", "stack_2")
            return [
                self._graph.constant(values, dtype, name=name)
                for values, name in zip(lists, names, strict=True)
            ]
        wide = any(
            each.dtype.base is dtypes.int64
            if isinstance(each, Tensor)
            else not -_INT32_MAX <= each < _INT32_MAX
            for each in flat
        )
        dtype = dtypes.int64 if wide else dtypes.int32
        return [self._stacked(values, dtype) for values in lists]

    def _stacked(self, values: list[Any], dtype: dtypes.DType) -> Tensor:
        items = [
            self._graph.ops.Cast(each, DstT=dtype)
            if isinstance(each, Tensor) and each.dtype.base is not dtype
            else each
            for each in values
        ]
        if not any(isinstance(each, Tensor) for each in items):
            return self._graph.constant(items, dtype, name="stack")
        found: Tensor = self._graph.ops.Pack(items, T=dtype, name="stack")
        return found


def sliced(graph: Graph, x: Any, key: Any, name: str | None = None) -> Tensor:
    """The part of a tensor that a subscript names, as NumPy's basic indexing does.

    Raises TypeError or ValueError (as InvalidArgumentError) for a subscript that there is not.
    """
    with graph.name_scope(name or "strided_slice") as scope:
        subscript = Subscript(graph, key)
        begin, end, strides = subscript.vectors()
        found: Tensor = graph.ops.StridedSlice(x, begin, end, strides, name=scope, **subscript.masks)
    return found
