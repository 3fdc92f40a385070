"""The difference of two records of one tensor, and whether it is more than rounding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.tools.compare.tensors import TensorRecord, places

#: Rounding of float32 over a network of a hundred layers stays below a tenth of this.
TOLERANCE: Final = 1e-3
#: The same of types with 11 bits of precision and fewer.
NARROW_TOLERANCE: Final = 3e-2
#: Values that nothing computes must agree so many times closer.
SOURCE_RATIO: Final = 1e-3
#: Sums over such values are made by the same code on both sides.
_SOURCE_FIGURES: Final = 1e-12
#: So many roundings of the largest input are no difference: a sum that cancels has no digit left.
_ROUNDINGS: Final = 32
_NARROW: Final = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
_FIGURES: Final = ("least element", "largest element", "mean", "norm")


@dataclass(frozen=True, slots=True)
class TensorDifference:
    """The difference of one tensor between two steps.

    one, other   its records
    reason       the difference in words
    error        the largest one, relative to the element and to the tensor's typical one; infinite if shapes,
                 kinds or NaN differ
    """

    one: TensorRecord
    other: TensorRecord
    reason: str
    error: float

    def __str__(self) -> str:
        """Show the tensor and the difference."""
        return f"{self.one}: {self.reason}"


def tolerance_of(one: TensorRecord, other: TensorRecord, tolerance: float | None) -> float:
    """Return the relative error that passes as rounding; `tolerance` if it is given."""
    if tolerance is not None:
        return tolerance
    narrow = any(dtype in _NARROW or dtype.startswith("float8") for dtype in (one.dtype, other.dtype))
    return NARROW_TOLERANCE if narrow else TOLERANCE


def difference(
    one: TensorRecord,
    other: TensorRecord,
    *,
    tolerance: float | None = None,
    is_source: bool = False,
    input_norm: float = 0.0,
) -> tuple[float, TensorDifference | None]:
    """Return the error between two records of a tensor, and the difference if it is more than rounding.

    tolerance    the relative error that passes; None for that of the type
    is_source    whether no node computes it, so that there is no rounding
    input_norm   the largest norm among the inputs of its node

    Whole numbers, truth values and strings must be equal. NaN equals NaN, and an infinity one of its sign.
    """

    def differs(reason: str, error: float = np.inf) -> tuple[float, TensorDifference]:
        return error, TensorDifference(one, other, reason, error)

    if one.shape != other.shape:
        return differs(f"shape {list(one.shape)} against {list(other.shape)}")
    kinds = one.samples.dtype.kind, other.samples.dtype.kind
    if kinds[0] != kinds[1]:
        return differs(f"type {one.dtype} against {other.dtype}")
    if one.counts != other.counts:
        return differs(f"{_not_finite(one)} against {_not_finite(other)}")
    is_whole = one.value is not None and other.value is not None
    left, right = (one.value, other.value) if is_whole else (one.samples, other.samples)
    assert left is not None
    assert right is not None
    limit = tolerance_of(one, other, tolerance)
    closeness = limit * (SOURCE_RATIO if is_source else 1.0)
    known = floor = 0.0
    if kinds[0] in "Oi":
        wrong = np.flatnonzero(left != right)
        if wrong.size:
            return differs(*_of_elements(one, left, right, wrong, is_whole))
    else:
        typical = max(one.typical, other.typical)
        floor = 0.0 if is_source else _ROUNDINGS * _step(one, other) * input_norm
        errors = _errors(left, right, typical)
        if np.isnan(errors).any():
            return differs("NaN or infinities at other places")
        wrong = np.flatnonzero(errors > closeness)
        if wrong.size and np.max(np.abs(left[wrong] - right[wrong])) > floor:
            return differs(*_of_elements(one, left, right, wrong, is_whole, float(errors.max())))
        errors[wrong] = 0.0
        known = float(errors.max(initial=0.0))
    if is_whole or not one.size or kinds[0] == "O":
        return known, None
    found = _figure_errors(one, other, floor)
    worst = int(np.argmax(found))
    bound = _SOURCE_FIGURES if is_source or kinds[0] == "i" else limit
    if found[worst] > bound:
        values = one.figures[worst], other.figures[worst]
        return differs(
            f"the {_FIGURES[worst]} is {values[0]:.9g} against {values[1]:.9g}, though the samples agree",
            float(found[worst]),
        )
    return max(known, float(found[worst])), None


def _errors(left: Array, right: Array, typical: float) -> Array:
    """Return the relative error of each pair of elements; NaN where only one is not finite, or otherwise."""
    with np.errstate(all="ignore"):
        gap = np.abs(left - right)
        scale = np.maximum(np.maximum(np.abs(left), np.abs(right)), typical)
        errors = gap / np.where(scale > 0, scale, 1.0)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    errors[same] = 0.0
    errors[~same & ~(np.isfinite(left) & np.isfinite(right))] = np.nan
    made: Array = errors
    return made


def _figure_errors(one: TensorRecord, other: TensorRecord, floor: float) -> Array:
    """Return the relative error of each figure; 0 where elements that differ by `floor` explain it."""
    left, right = np.array(one.figures), np.array(other.figures)
    typical = max(one.typical, other.typical)
    errors = _errors(left, right, typical)
    with np.errstate(invalid="ignore"):
        errors[np.abs(left - right) <= floor * np.array([1.0, 1.0, 1.0, np.sqrt(one.size)])] = 0.0
    return np.nan_to_num(errors, nan=np.inf)


def _of_elements(
    one: TensorRecord, left: Array, right: Array, wrong: Array, is_whole: bool, error: float = 1.0
) -> tuple[str, float]:
    """Return the reason for elements that differ, and the error."""
    first = int(wrong[0])
    flat = first if is_whole else int(places(one.size)[first])
    index = [int(each) for each in np.unravel_index(flat, one.shape)] if one.shape else []
    of = f"{wrong.size} of {left.size} {'elements' if left.size == one.size else 'samples'}"
    size = "" if left.dtype.kind == "O" else f", by {error:.3g} of its size"
    if left.dtype.kind == "i":
        size = ""
    where = f" at {index}" if index else ""
    return f"{of} differ{size}: {_shown(left[first])} against {_shown(right[first])}{where}", error


def _shown(element: Any) -> str:
    if isinstance(element, bytes):
        text = repr(element[:40])[1:]
        return text if len(element) <= 40 else f"{text}..."
    return f"{element:.9g}" if isinstance(element, float) else str(element)


def _not_finite(tensor: TensorRecord) -> str:
    nan, above, below = tensor.counts
    return f"{nan} NaN and {above + below} infinities" + (f" ({below} negative)" if below else "")


def _step(one: TensorRecord, other: TensorRecord) -> float:
    """Return the distance of 1 from the next number of the narrower type."""
    steps = [2.0**-52 if each in ("float64", "complex128") else 2.0**-23 for each in (one.dtype, other.dtype)]
    return max(*steps, *(_NARROW.get(each, 0.0) for each in (one.dtype, other.dtype)))


__all__ = [
    "NARROW_TOLERANCE",
    "SOURCE_RATIO",
    "TOLERANCE",
    "TensorDifference",
    "difference",
    "tolerance_of",
]
