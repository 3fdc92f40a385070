"""References for ops that read and write at indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def at(indices: Any) -> tuple[Any, ...]:
    return tuple(np.moveaxis(indices, -1, 0))


def scattered(ufunc: Any) -> Callable[..., Any]:
    def reference(x: Any, indices: Any, updates: Any) -> Any:
        if ufunc is None:
            x[indices] = updates
        else:
            ufunc.at(x, indices, np.broadcast_to(updates, np.shape(indices) + x.shape[1:]))
        return x

    return reference


def scattered_nd(ufunc: Any) -> Callable[..., Any]:
    def reference(x: Any, indices: Any, updates: Any) -> Any:
        if ufunc is None:
            x[at(indices)] = updates
        else:
            ufunc.at(x, at(indices), updates)
        return x

    return reference
