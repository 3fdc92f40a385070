"""Memory for patches of images, which each thread keeps: they are multiplied while they are in its cache."""

from __future__ import annotations

import threading
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array

#: Bytes of patches made at a time: they are multiplied while they are still in a core's second cache.
BLOCK_BYTES: Final = 1 << 20

_kept = threading.local()


def scratch(elements: int, dtype: Any) -> Array:
    """A vector for intermediate values, kept by each thread from call to call; its content is arbitrary.

    One is in use at a time. Above four blocks it is made afresh and not kept.
    """
    size = elements * np.dtype(dtype).itemsize
    if size > 4 * BLOCK_BYTES:
        return np.empty(elements, dtype)
    buffer: Array | None = getattr(_kept, "buffer", None)
    if buffer is None or buffer.size < size:
        buffer = _kept.buffer = np.empty(max(size, BLOCK_BYTES), np.uint8)
    return buffer[:size].view(dtype)
