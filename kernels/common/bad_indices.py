"""Indices outside of a tensor, in GatherNd and scatter ops: `bad_indices_policy`.

    indices, updates = without_outside(indices, updates, shape, policy)

Empty, DEFAULT and ERROR leave it to the op, which refuses it; with IGNORE the op passes over it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError

_REFUSING: Final = (b"", b"DEFAULT", b"ERROR")


def passes_over(policy: bytes) -> bool:
    """Whether bad indices are passed over; InvalidArgumentError for a policy that there is not."""
    if policy in _REFUSING:
        return False
    if policy == b"IGNORE":
        return True
    raise InvalidArgumentError(
        f"Unknown bad indices handling attribute: {policy.decode('utf-8', 'replace')}; "
        "bad_indices_policy is one of '', DEFAULT, ERROR and IGNORE"
    )


def inside(indices: Array, shape: Sequence[int]) -> Any:
    """Which index vectors name a slice of a tensor of this shape.

    indices   (..., K) integers, K at most the rank of the shape
    returns   (...) bool
    """
    found = (indices[..., :0] == 0).all(axis=-1)
    for axis, size in enumerate(shape[: indices.shape[-1]]):
        column = indices[..., axis]
        found &= (column >= 0) & (column < np.int64(size))
    return found


def without_outside(
    indices: Array, updates: Array, shape: Sequence[int], policy: bytes
) -> tuple[Array, Array]:
    """The indices and their updates, in one row each, without those outside; both as given otherwise.

    indices   (I..., K)     updates   (I..., shape[K:]...)
    Where these shapes do not fit they are handed back, for the op to refuse.
    """
    if not passes_over(policy) or not indices.ndim or indices.shape[-1] > len(shape):
        return indices, updates
    if updates.shape != (*indices.shape[:-1], *shape[indices.shape[-1] :]):
        return indices, updates
    kept = inside(indices, shape)
    return indices[kept], updates[kept]
