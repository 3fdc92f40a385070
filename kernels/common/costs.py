"""Cost estimates of kernels, which run before the kernel has checked its inputs."""

from __future__ import annotations

import math

from flowengine.core.arrays import Array
from flowengine.core.shapes import RANK_MAX


def elements_of(shape: Array) -> float:
    """How many elements an array of this shape has; 0 for what is no shape, which the kernel refuses.

    shape   (rank), integers. Rows of nothing, of which there may be any number, are not made a list of.
    """
    if shape.ndim != 1 or shape.size > RANK_MAX:
        return 0.0
    return float(math.prod(shape.tolist()))


__all__ = ["elements_of"]
