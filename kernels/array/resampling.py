"""Elements moved from one axis to the others: `PeriodicResample`, the sub-pixel convolution's last part.

Where the other axes grow by whole factors, each element is moved once:

    [[0 1 2 3]            [[0 1]
     [4 5 6 7]]  [4, ?]    [2 3]
                           [4 5]
                           [6 7]]
"""

from __future__ import annotations

import math
from typing import Any

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.common.costs import elements_of
from flowengine.kernels.numpy.periodic_places import last_places, places_of
from flowengine.kernels.registry import kernel


def _cost(values: Any) -> float:
    """Microseconds: about 100 elements each."""
    return elements_of(values) / 100


@kernel("PeriodicResample", fresh=True, heavy=_cost)
def periodic_resample(xp: Any, values: Array, *, shape: TensorShape) -> Array:
    """Spread the axis that is open in `shape` over the others, whose sizes it gives.

    Raises InvalidArgumentError for a shape of another rank, without one open axis, or with a size below that
    of the values.
    """
    places = places_of(tuple(values.shape), shape.dims)
    found: Array = values.reshape(-1)[xp.asarray(places)]
    return found


@kernel("PeriodicResampleOpGrad", fresh=True, heavy=_cost)
def periodic_resample_grad(
    xp: Any, grad: Array, *, original_shape: TensorShape, desired_shape: TensorShape
) -> Array:
    """Move each element back to its place; 0 where none came from, the last of several that came from one."""
    original = original_shape.as_tuple()
    if original is None:
        raise InvalidArgumentError(f"original_shape must be known in full, not {original_shape}")
    places = places_of(original, desired_shape.dims)
    if tuple(grad.shape) != places.shape:
        raise InvalidArgumentError(f"grad has shape {brackets(grad.shape)}, not {brackets(places.shape)}")
    kept, last = last_places(places)
    result: Array = xp.zeros(math.prod(original), grad.dtype)
    result[xp.asarray(kept)] = grad.reshape(-1)[xp.asarray(last)]
    return result.reshape(original)
