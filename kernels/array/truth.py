"""Whether a tensor counts as true, as a condition does."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Value
from flowengine.kernels.registry import kernel


@kernel("ToBool", heavy=False, device="CPU")
def to_bool(x: Value) -> Any:
    """Whether a number is not 0, a text is not empty, another tensor has elements.

    For a CPU: whoever asks decides by it.
    """
    if isinstance(x, bytes):
        return np.bool_(len(x) > 0)
    array = np.asarray(x)
    if array.ndim:
        return np.bool_(array.size > 0)
    return np.bool_(len(array.item()) > 0 if array.dtype == object else array != 0)
