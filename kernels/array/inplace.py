"""InplaceUpdate and its kin: rows of a tensor replaced, the tensor of the caller left alone.

TensorFlow writes into its input and so depends on who else holds it. A kernel here never does: the result
is a copy.
"""

from __future__ import annotations

from typing import Any

from flowengine.core.arrays import Array, Value, in_host_memory, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.common.segment_sums import add_rows, subtract_rows
from flowengine.kernels.registry import kernel


def _checked(x: Value, i: Value, v: Value) -> tuple[Array, Array, Array]:
    """(a copy of x, row numbers wrapped into it, rows)."""
    array, rows, values = to_array(x), to_array(i), to_array(v)
    if rows.ndim == 0 and values.ndim == array.ndim - 1:
        rows, values = rows.reshape(1), values.reshape((1, *values.shape))
    if rows.ndim != 1:
        raise InvalidArgumentError(f"i must be a vector, but has shape {brackets(rows.shape)}")
    if not array.ndim or values.shape != (rows.size, *array.shape[1:]):
        raise InvalidArgumentError(
            f"v must have shape {brackets((rows.size, *array.shape[1:]))} for x of shape "
            f"{brackets(array.shape)} and {rows.size} rows, but has {brackets(values.shape)}"
        )
    if not len(array):
        rows, values = rows[:0], values[:0]
    return array.copy(order="C"), rows % max(1, len(array)), values


@kernel("InplaceUpdate", device=None, fresh=True)
def inplace_update(x: Value, i: Value, v: Value) -> Array:
    """x with row i[n] replaced by v[n], for each n in order; row numbers wrap around.

    Of an x without rows nothing is replaced.
    """
    out, rows, values = _checked(x, i, v)
    out[rows] = values
    return out


@kernel("InplaceAdd", fresh=True)
def inplace_add(xp: Any, x: Value, i: Value, v: Value) -> Any:
    """x with v[n] added to row i[n], for each n; row numbers wrap around."""
    out, rows, values = _checked(x, i, v)
    if in_host_memory(out):
        xp.add.at(out, rows, values)
    else:
        add_rows(xp, out, rows, values)
    return out


@kernel("InplaceSub", fresh=True)
def inplace_sub(xp: Any, x: Value, i: Value, v: Value) -> Any:
    """x with v[n] subtracted from row i[n], for each n; row numbers wrap around."""
    out, rows, values = _checked(x, i, v)
    subtract_rows(xp, out, rows, values)
    return out
