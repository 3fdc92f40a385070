"""A pooling and its gradient that hand on where the maxima are: see `kernels/onednn/claims/keep_maxima.py`.

These kernels have nothing to hand on; those of a provider do, and call these where they cannot compute.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.kernels.numpy import pooling as nn_pool
from flowengine.kernels.registry import kernel

HOST: Final = "stands behind a provider's kernels for a CPU"


@kernel("_MaxPoolWithPlaces", fresh=True)
def max_pool_with_places(
    x: Array, *, ksize: Any, strides: Any, padding: bytes, data_format: bytes
) -> tuple[Any, Array]:
    """(the greatest of each window of (N, H, W, C), no places)."""
    made = nn_pool.max_pool(x, ksize=ksize, strides=strides, padding=padding, data_format=data_format)
    return made, np.empty(0, np.uint8)


@kernel("_MaxPoolGradAtPlaces", fresh=True)
def max_pool_grad_at_places(
    x: Array,
    y: Array,
    g: Array,
    places: Array,
    *,
    ksize: Any,
    strides: Any,
    padding: bytes,
    data_format: bytes,
) -> Any:
    """`MaxPoolGrad`, whatever the places are."""
    return nn_pool.max_pool_grad(
        x, y, g, ksize=ksize, strides=strides, padding=padding, data_format=data_format
    )
