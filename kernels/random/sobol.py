"""Sobol's sequence, by SciPy's direction numbers, which are those of Joe and Kuo (2008)."""

from __future__ import annotations

from typing import Any, Final

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.registry import kernel

HOST: Final = "SciPy computes the points, in host memory"

#: So many dimensions have direction numbers.
_DIMENSIONS_MAX: Final = 21201


def _number(value: Any, name: str, least: int) -> int:
    if getattr(value, "ndim", 0):
        raise InvalidArgumentError(f"{name} must be a scalar, got shape {shape_text(value)}")
    if int(value) < least:
        raise InvalidArgumentError(f"{name} must be at least {least}, but is {int(value)}")
    return int(value)


@kernel("SobolSample", device="CPU", fresh=True)
def sobol_sample(dim: Any, num_results: Any, skip: Any, *, dtype: DType) -> Array:
    """(num_results, dim) points in the open unit cube, after `skip` others; the origin is left out."""
    size, count = _number(dim, "dim", 1), _number(num_results, "num_results", 1)
    first = _number(skip, "skip", 0)
    if size > _DIMENSIONS_MAX:
        raise InvalidArgumentError(f"dim must be at most {_DIMENSIONS_MAX}, but is {size}")
    if count >= (1 << 31) - 1 - first:
        raise InvalidArgumentError(f"num_results {count} and skip {first} are more than there are points")
    from scipy.stats.qmc import Sobol

    points = Sobol(size, scramble=False, bits=32)
    points.fast_forward(first + 1)
    found: Array = points.random(count).astype(dtype.as_numpy_dtype)
    return found
