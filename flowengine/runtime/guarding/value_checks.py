"""Checks of values: whether they are finite and within bounds, and a digest of them in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import DEAD
from flowengine.resources.variable import Variable

#: {pattern of node names: (least, largest value)}
Bounds = Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class ValueFault:
    """One output that is wrong: its slot, and the reason in words."""

    slot: int
    reason: str
    is_of_bounds: bool = False


#: Copies a value of the device that is watched into host memory; None for a device that shares it.
COPY_OUT: Final[ContextVar[Callable[[Any], Any] | None]] = ContextVar("flowengine_copy_out", default=None)


def array_of(value: Any) -> Any:
    """Return the array of a value, or of a variable's present value; None for what holds no numbers.

    Arrays in the memory of a device are copied by `COPY_OUT`.
    """
    if isinstance(value, Variable):
        value = value.read() if value.is_initialized else None
    if value is None or value is DEAD or not hasattr(value, "dtype") or not hasattr(value, "shape"):
        return None
    copy = None if isinstance(value, (np.ndarray, np.generic)) else COPY_OUT.get()
    return value if copy is None else copy(value)


def is_finite(value: Any) -> bool:
    """Return whether a value has neither NaN nor an infinity; True for what is not of floats."""
    array = array_of(value)
    if array is None or not _is_of_floats(array):
        return True
    return bool(np.isfinite(_as_numpy(array)).all())


def fault_of(name: str, outputs: Sequence[Any], bounds: Bounds) -> ValueFault | None:
    """Return the first output of a node that is not finite, or is out of the node's bounds."""
    wanted = next((limits for pattern, limits in bounds.items() if fnmatchcase(name, pattern)), None)
    for slot, value in enumerate(outputs):
        array = array_of(value)
        if array is None or (not _is_of_floats(array) and wanted is None):
            continue
        if array.dtype.kind not in "fciubV":
            continue
        numbers = _as_numpy(array)
        if _is_of_floats(array) and not np.isfinite(numbers).all():
            nan, infinite = int(np.isnan(numbers).sum()), int(np.isinf(numbers).sum())
            return ValueFault(slot, f"{nan} NaN and {infinite} infinities among {numbers.size} elements")
        if wanted is not None and numbers.size:
            least, largest = float(numbers.min()), float(numbers.max())
            if least < wanted[0] or largest > wanted[1]:
                return ValueFault(
                    slot,
                    f"values from {least:g} to {largest:g}, outside [{wanted[0]:g}, {wanted[1]:g}]",
                    True,
                )
    return None


def digest(value: Any) -> str:
    """Return the type, shape, least, largest and mean value of an array, in words."""
    array = array_of(value)
    if array is None:
        return "no numbers"
    text = f"{array.dtype} {list(array.shape)}"
    if array.dtype.kind not in "fiubV" or not array.size:
        return text
    numbers = _as_numpy(array)
    if not _is_of_floats(array):
        return f"{text} from {numbers.min()} to {numbers.max()}"
    finite = numbers[np.isfinite(numbers)]
    if not finite.size:
        return f"{text} without a finite element"
    bad = numbers.size - finite.size
    range_ = f"from {finite.min():.6g} to {finite.max():.6g}, mean {finite.mean(dtype=np.float64):.6g}"
    return f"{text} {range_}" + (f", {bad} not finite" if bad else "")


def _is_of_floats(array: Any) -> bool:
    return (
        array.dtype.kind in "fc" or array.dtype.name in {"bfloat16"} or array.dtype.name.startswith("float8")
    )


def _as_numpy(array: Any) -> Any:
    """Return an array that NumPy's functions take: narrow floats of other libraries as float32."""
    found = np.asarray(array)
    return found if found.dtype.kind in "fciub" else found.astype(np.float32)


__all__ = ["COPY_OUT", "Bounds", "ValueFault", "array_of", "digest", "fault_of", "is_finite"]
