"""`--stats`: a value as a line of figures and a histogram of one line.

scores:0  float32 [1, 10]
  min 0.00012  mean 0.1  max 0.98  std 0.29
  0.00012 |█       ▁| 0.98
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from flowengine.cli.digits import widened
from flowengine.cli.failure import printable
from flowengine.cli.results import dtype_name
from flowengine.core.arrays import to_array

#: Bins of a histogram at most; of few numbers it has twice their root.
_BINS: Final = 40
#: A character for each eighth of a line's height; an empty bin has a space.
_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
#: Squares of larger numbers may be infinite, and so may be the distance between two.
_LARGE: Final = 1e100
#: Counts that are shown where they are not zero.
_RARE: Final = {"zeros": "zeros", "nan": "NaN", "infinite": "infinite"}


def statistics(value: Any) -> dict[str, Any]:
    """Compute the figures of a value, in a form that JSON can hold.

    Of numbers these are count, min, mean, max, std, zeros, nan and infinite, over the finite ones, and the
    counts of a histogram from min to max; of strings count, distinct and the longest in bytes. Complex
    numbers count by their absolute values.
    """
    array = to_array(value)
    found: dict[str, Any] = {"dtype": dtype_name(array), "shape": list(array.shape), "count": int(array.size)}
    if array.dtype.kind in "SUO":
        texts = [item if isinstance(item, bytes) else str(item).encode() for item in array.ravel().tolist()]
        return found | {"distinct": len(set(texts)), "longest": max(map(len, texts), default=0)}
    real = np.abs(array.ravel()) if array.dtype.kind == "c" else array.ravel()
    with np.errstate(invalid="ignore"):  # some NaNs of small floats signal
        numbers = real.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    found["nan"] = int(np.isnan(numbers).sum())
    found["infinite"] = int(numbers.size - finite.size - found["nan"])
    found["zeros"] = int((finite == 0).sum())
    if not finite.size:
        return found
    low, high = (float(widened(np.asarray(each).astype(real.dtype))) for each in (finite.min(), finite.max()))
    most = float(np.abs(finite).max())
    scale = most if most > _LARGE else 1.0
    mean, std = (scale * float(each) for each in ((finite / scale).mean(), (finite / scale).std()))
    found |= {"min": low, "mean": mean, "max": high, "std": std, "histogram": _counts(finite / scale)}
    return found


def _counts(numbers: Any) -> list[int]:
    """Count the numbers in bins of one width, from the smallest to the largest."""
    low, width = numbers.min(), numbers.max() - numbers.min()
    if not width:
        return [int(numbers.size)]
    bins = min(_BINS, math.isqrt(4 * numbers.size))
    places = np.minimum((numbers - low) / width * bins, bins - 1).astype(np.intp)
    found: list[int] = np.bincount(places, minlength=bins).tolist()
    return found


def readable(name: str, value: Any) -> str:
    """Show the figures of a value and its histogram in two lines below its type and shape."""
    if value is None:
        return f"{printable(name)} done"
    found = statistics(value)
    lines = [f"{printable(name)}  {found['dtype']} [{', '.join(map(str, found['shape']))}]"]
    if "distinct" in found:
        return f"{lines[0]}\n  {found['distinct']} distinct, the longest of {found['longest']} bytes"
    figures = [f"{key} {found[key]:.4g}" for key in ("min", "mean", "max", "std") if key in found]
    figures += [f"{found[key]} {what}" for key, what in _RARE.items() if found[key]]
    lines.append(f"  {'  '.join(figures) or 'no values'}")
    if len(found.get("histogram", ())) > 1:
        lines.append(f"  {found['min']:.4g} |{bars(found['histogram'])}| {found['max']:.4g}")
    return "\n".join(lines)


def bars(counts: list[int]) -> str:
    """Return a character for each count, as high as it is; no bin with a number in it is empty."""
    most = max(counts)
    return "".join(_BLOCKS[-(-count * (len(_BLOCKS) - 1) // most)] for count in counts)


__all__ = ["bars", "readable", "statistics"]
