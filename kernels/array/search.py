"""Where values stand in sorted rows, and what flat positions mean in a shape."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets, check_indices, integers
from flowengine.kernels.registry import kernel


def _search(sorted_inputs: Array, values: Array, out_type: DType, side: Literal["left", "right"]) -> Array:
    if sorted_inputs.ndim != 2 or values.ndim != 2 or len(sorted_inputs) != len(values):
        raise InvalidArgumentError(
            "sorted_inputs and values must be matrices with one number of rows, but have shapes "
            f"{brackets(sorted_inputs.shape)} and {brackets(values.shape)}"
        )
    out = np.empty(values.shape, out_type.as_numpy_dtype)
    for row, (line, wanted) in enumerate(zip(sorted_inputs, values, strict=True)):
        out[row] = line.searchsorted(wanted, side)
    return out


@kernel("LowerBound", fresh=True)
def lower_bound(sorted_inputs: Array, values: Array, *, out_type: DType) -> Array:
    """(B, N) sorted rows and (B, M) values -> (B, M): the first place whose element is not less."""
    return _search(sorted_inputs, values, out_type, "left")


@kernel("UpperBound", fresh=True)
def upper_bound(sorted_inputs: Array, values: Array, *, out_type: DType) -> Array:
    """(B, N) sorted rows and (B, M) values -> (B, M): the first place whose element is greater."""
    return _search(sorted_inputs, values, out_type, "right")


@kernel("UnravelIndex", fresh=True, host=("dims",))
def unravel_index(indices: Value, dims: Array) -> Array:
    """(N,) or () flat positions -> (rank, N) or (rank,) coordinates in an array of shape `dims`."""
    positions = to_array(indices)
    if positions.ndim > 1:
        raise InvalidArgumentError(
            f"The indices can only be scalar or vector, got shape {brackets(positions.shape)}"
        )
    shape = integers(dims, "dims")
    if any(d <= 0 for d in shape):
        raise InvalidArgumentError(f"dims must be positive, but is {brackets(shape)}")
    check_indices(positions, math.prod(shape))
    out = np.empty((len(shape), *positions.shape), positions.dtype)
    for axis, coordinates in enumerate(np.unravel_index(positions, shape)):
        out[axis] = coordinates
    return out
