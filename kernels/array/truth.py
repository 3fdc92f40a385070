"""Whether a tensor counts as true, as a condition does."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array, Value
from flowengine.kernels.registry import kernel


@kernel(
    "ToBool",
    types={"T": ["bool"]},
    heavy=False,
    device="CPU",
    inline="{f}({0}) if {0}.ndim else {0}",
    inline_any_rank=True,
)
def to_bool_of_bool(x: Array) -> Any:
    """A truth itself, which is what conditions nearly always are; of more than one, whether there are any."""
    return np.bool_(x.size > 0) if x.ndim else x


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
