"""Softmax and its logarithm of many rows: a block of them that stays in cache, on every core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.kernels.common.parallel import slices, spread
from flowengine.kernels.common.ufuncs import float_kernel
from flowengine.kernels.nn import softmax as plain

#: Elements of a block of rows that stays in cache through its passes.
_BLOCK: Final = 1 << 16


@float_kernel("Softmax", device="CPU", fresh=True)
def softmax(xp: Any, logits: Array) -> Any:
    """exp(x) over its sum along the last axis; (..., C)."""
    if logits.size <= _BLOCK or type(logits) is not np.ndarray:
        return plain.softmax(xp, logits)
    result = np.empty(logits.shape, logits.dtype)
    sources, targets = (a.reshape(-1, logits.shape[-1]) for a in (logits, result))

    def work(part: slice) -> None:
        rows, target = sources[part], targets[part]
        np.subtract(rows, np.maximum.reduce(rows, -1, keepdims=True), target)
        np.exp(target, target)
        np.divide(target, np.add.reduce(target, -1, keepdims=True), target)

    _by_rows(work, sources)
    return result


def _by_rows(work: Callable[[slice], None], rows: Array) -> None:
    """Do it to blocks of rows, on every core."""
    parts = slices(rows.shape[0], max(1, _BLOCK // rows.shape[1]))
    spread(lambda number: work(parts[number]), len(parts))


@float_kernel("LogSoftmax", device="CPU", fresh=True)
def log_softmax(xp: Any, logits: Array) -> Any:
    """x less the logarithm of the sum of exp(x) along the last axis; (..., C)."""
    if logits.size <= _BLOCK or type(logits) is not np.ndarray:
        return plain.log_softmax(xp, logits)
    result = np.empty(logits.shape, logits.dtype)
    sources, targets = (a.reshape(-1, logits.shape[-1]) for a in (logits, result))

    def work(part: slice) -> None:
        rows, target = sources[part], targets[part]
        np.subtract(rows, np.maximum.reduce(rows, -1, keepdims=True), target)
        total = np.add.reduce(np.exp(target), -1, keepdims=True)
        np.subtract(target, np.log(total, total), target)

    _by_rows(work, sources)
    return result
