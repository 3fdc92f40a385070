"""The record of one tensor: figures and 64 elements at fixed places, or the whole value.

Rounding changes every digit of a hash, but none of the figures by much. So a record holds the shape and the
type, the numbers of NaN and infinities, the least and the largest finite element, their mean and norm, and
the elements at places that depend on the size alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array

#: The elements that a record keeps of a larger tensor.
PLACES: Final = 64
#: Elements that are summed up at a time: their copies in float64 take 8 MB.
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class TensorRecord:
    """The record of one output of a node in one run of it.

    name       "node:slot"
    iteration  "frame=3" for each loop around it, from the outermost in; "" outside of loops
    dtype      the name of its type; "string" for bytes
    shape      (d_0, ..., d_n)
    counts     the number of NaN, of positive and of negative infinities
    figures    the least and the largest finite element, the mean and the norm of all finite ones; of complex
               numbers, those of the absolute values. NaN where there is none
    samples    (at most 64,) the elements at `places(size)`: float64, int64, complex128 or bytes
    value      the whole value in the same types, if it was kept
    """

    name: str
    iteration: str
    dtype: str
    shape: tuple[int, ...]
    counts: tuple[int, int, int]
    figures: tuple[float, float, float, float]
    samples: Array
    value: Array | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Return the name and the iteration, which identify it in its step."""
        return self.name, self.iteration

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def typical(self) -> float:
        """Return the root of the mean square of its finite elements; 0 if it has none."""
        norm, finite = self.figures[3], self.size - sum(self.counts)
        return 0.0 if not finite or np.isnan(norm) else norm / float(np.sqrt(finite))

    def array(self) -> Array | None:
        """Return the whole value in its own type and shape; None if it was not kept."""
        if self.value is None:
            return None
        found = self.value if self.dtype == "string" else self.value.astype(np.dtype(self.dtype))
        return found.reshape(self.shape)

    def __str__(self) -> str:
        """Show the name, and the iteration if it has one."""
        return f"{self.name} ({self.iteration})" if self.iteration else self.name


def places(size: int) -> Array:
    """Return the fixed places of a tensor with so many elements: all of 64, or 64 from end to end.

    >>> from flowengine.tools.compare.tensors import places
    >>> len(places(10)), places(1000)[[0, 1, -1]].tolist()
    (10, [0, 15, 999])
    """
    if size <= PLACES:
        return np.arange(size)
    return np.arange(PLACES, dtype=np.int64) * (size - 1) // (PLACES - 1)


def record_of(name: str, iteration: str, value: Any, *, is_kept: bool = False) -> TensorRecord:
    """Record an array of any library, or bytes.

    is_kept   whether the record holds the whole value
    """
    array = np.asarray(value.get() if _is_elsewhere(value) else value)
    shape = tuple(map(int, array.shape))
    dtype = "string" if array.dtype.kind in "OSU" else array.dtype.name
    flat = array.reshape(-1)
    samples = _wide(flat[places(flat.size)])
    counts, figures = (0, 0, 0), (np.nan,) * 4
    if dtype != "string" and flat.size:
        counts, figures = _figures(flat)
    kept = None
    if is_kept:
        kept = samples if flat.size <= PLACES else _wide(flat)
    return TensorRecord(name, iteration, dtype, shape, counts, figures, samples, kept)


def _is_elsewhere(value: Any) -> bool:
    """Return whether an array is in the memory of another device."""
    return not isinstance(value, np.ndarray | np.generic) and hasattr(value, "get")


def _wide(flat: Array) -> Array:
    """Return a copy of a vector in the widest type of its kind."""
    kind = flat.dtype.kind
    if kind in "OSU":
        texts = np.empty(flat.size, object)
        texts[:] = [each.encode() if isinstance(each, str) else bytes(each) for each in flat.tolist()]
        return texts
    if kind == "c":
        return flat.astype(np.complex128)
    if kind in "biu" or (kind == "V" and "int" in flat.dtype.name):
        return flat.astype(np.int64)
    return (flat.astype(np.float32) if kind == "V" else flat).astype(np.float64)


def _figures(flat: Array) -> tuple[tuple[int, int, int], tuple[float, float, float, float]]:
    nan = above = below = 0
    least, largest, total, square, finite = np.inf, -np.inf, 0.0, 0.0, 0
    with np.errstate(all="ignore"):
        for start in range(0, flat.size, _CHUNK):
            part = _wide(flat[start : start + _CHUNK])
            if part.dtype.kind == "c":
                part = np.abs(part)
            part = part.astype(np.float64, copy=False)
            is_finite = np.isfinite(part)
            if not is_finite.all():
                nan += int(np.isnan(part).sum())
                above += int(np.isposinf(part).sum())
                below += int(np.isneginf(part).sum())
                part = part[is_finite]
            if part.size:
                least, largest = min(least, float(part.min())), max(largest, float(part.max()))
                total, square = total + float(part.sum()), square + float(np.dot(part, part))
                finite += part.size
    counts = (nan, above, below)
    if not finite:
        return counts, (np.nan,) * 4
    return counts, (least, largest, total / finite, float(np.sqrt(square)))


__all__ = ["PLACES", "TensorRecord", "places", "record_of"]
