"""Where values stand in sorted rows, and what flat positions mean in a shape."""

from __future__ import annotations

import math
from typing import Any, Literal

from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets, integers
from flowengine.kernels.common.indices import check_indices
from flowengine.kernels.registry import kernel


def _search(
    xp: Any, sorted_inputs: Array, values: Array, out_type: DType, side: Literal["left", "right"]
) -> Any:
    if sorted_inputs.ndim != 2 or values.ndim != 2 or len(sorted_inputs) != len(values):
        raise InvalidArgumentError(
            "sorted_inputs and values must be matrices with one number of rows, but have shapes "
            f"{brackets(sorted_inputs.shape)} and {brackets(values.shape)}"
        )
    out = xp.empty(values.shape, out_type.as_numpy_dtype)
    if not out.size:
        return out  # of however many rows
    for row, (line, wanted) in enumerate(zip(sorted_inputs, values, strict=True)):
        out[row] = line.searchsorted(wanted, side)
    return out


@kernel("LowerBound", fresh=True)
def lower_bound(xp: Any, sorted_inputs: Array, values: Array, *, out_type: DType) -> Any:
    """(B, N) sorted rows and (B, M) values -> (B, M): the first place whose element is not less."""
    return _search(xp, sorted_inputs, values, out_type, "left")


@kernel("UpperBound", fresh=True)
def upper_bound(xp: Any, sorted_inputs: Array, values: Array, *, out_type: DType) -> Any:
    """(B, N) sorted rows and (B, M) values -> (B, M): the first place whose element is greater."""
    return _search(xp, sorted_inputs, values, out_type, "right")


def checked_positions(indices: Value, dims: Array) -> tuple[Array, list[int]]:
    """Flat positions, none beyond the end, and the shape that they are of."""
    positions = to_array(indices)
    if positions.ndim > 1:
        raise InvalidArgumentError(
            f"The indices can only be scalar or vector, got shape {brackets(positions.shape)}"
        )
    shape = integers(dims, "dims")
    if any(d <= 0 for d in shape):
        raise InvalidArgumentError(f"dims must be positive, but is {brackets(shape)}")
    check_indices(positions.clip(0), math.prod(shape))
    return positions, shape


@kernel("UnravelIndex", fresh=True, host=("dims",))
def unravel_index(xp: Any, indices: Value, dims: Array) -> Any:
    """(N,) or () flat positions -> (rank, N) or (rank,) coordinates in an array of shape `dims`.

    Those of a negative position are the negatives of its absolute value's.
    """
    positions, shape = checked_positions(indices, dims)
    out = xp.empty((len(shape), *positions.shape), positions.dtype)
    sign, positions = xp.sign(positions), xp.abs(positions)
    for axis in range(len(shape) - 1, -1, -1):
        out[axis] = sign * (positions if axis == 0 else positions % shape[axis])
        positions = positions // shape[axis]
    return out
