"""References that are told the masks of a strided slice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def strided_index(begin: Any, end: Any, strides: Any, masks: Any) -> tuple[Any, ...]:
    index: list[Any] = []
    for i, (b, e, s) in enumerate(zip(begin, end, strides, strict=True)):
        bit = 1 << i
        if masks["ellipsis_mask"] & bit:
            index.append(Ellipsis)
        elif masks["new_axis_mask"] & bit:
            index.append(None)
        elif masks["shrink_axis_mask"] & bit:
            index.append(int(b))
        else:
            start = None if masks["begin_mask"] & bit else int(b)
            stop = None if masks["end_mask"] & bit else int(e)
            index.append(slice(start, stop, int(s)))
    return tuple(index)


MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


class WithMasks:
    """A reference that is told the masks of a strided slice."""

    attr_names = MASKS

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *inputs: Any, **masks: int) -> Any:
        return self.function(*inputs, **masks)


def strided_update(x: Any, begin: Any, end: Any, strides: Any, value: Any, **masks: int) -> Any:
    x[strided_index(begin, end, strides, masks)] = value
    return x
