"""Softmax, its logarithm and the cross entropies of many rows: blocks that stay in cache, on every core.

NumPy takes 40 ns for each short row that it reduces. Rows of few numbers are therefore laid as columns, all
of which it reduces together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.kernels.common.parallel import slices, spread
from flowengine.kernels.common.ufuncs import float_kernel
from flowengine.kernels.nn import activations as plain

#: Elements of a block of rows that stays in cache through its passes.
_BLOCK: Final = 1 << 16
#: Rows of up to so many numbers are laid as columns: of 32 a softmax takes half as long, of 64 as long.
_NARROW: Final = 32
#: So many rows pay for it.
_ROWS_MIN: Final = 16


def _is_narrow(logits: Array) -> bool:
    width = logits.shape[-1] if logits.ndim else 0
    return 0 < width <= _NARROW and logits.size >= _ROWS_MIN * width


def _as_columns(rows: Array) -> Array:
    """(B, C) -> (C, B), in memory too; a new array."""
    return rows.T.copy()


def _shift(numbers: Array, result: Array, axis: int) -> None:
    """Numbers less the greatest along the axis."""
    np.subtract(numbers, np.maximum.reduce(numbers, axis, keepdims=True), result)


def _softmax_block(rows: Array, result: Array, axis: int) -> None:
    _shift(rows, result, axis)
    np.exp(result, result)
    np.divide(result, np.add.reduce(result, axis, keepdims=True), result)


def _log_softmax_block(rows: Array, result: Array, axis: int) -> None:
    _shift(rows, result, axis)
    total = np.add.reduce(np.exp(result), axis, keepdims=True)
    np.subtract(result, np.log(total, total), result)


def _in_blocks(block: Callable[[Array, Array, int], None], logits: Array) -> Array:
    """Apply `block` to rows, block by block; it receives the axis along which they lie."""
    result = np.empty(logits.shape, logits.dtype)
    sources, targets = (a.reshape(-1, logits.shape[-1]) for a in (logits, result))
    narrow = _is_narrow(logits)

    def work(part: slice) -> None:
        if narrow:
            columns = _as_columns(sources[part])
            block(columns, columns, 0)
            targets[part] = columns.T
        else:
            block(sources[part], targets[part], -1)

    _by_rows(work, sources)
    return result


def _by_rows(work: Callable[[slice], None], rows: Array) -> None:
    """Do it to blocks of rows, on every core."""
    parts = slices(rows.shape[0], max(1, _BLOCK // rows.shape[1]))
    spread(lambda number: work(parts[number]), len(parts))


@float_kernel("Softmax", device="CPU", fresh=True)
def softmax(xp: Any, logits: Array) -> Any:
    """exp(x) over its sum along the last axis; (..., C)."""
    if not _is_narrow(logits) and (logits.size <= _BLOCK or type(logits) is not np.ndarray):
        return plain.softmax(xp, logits)
    return _in_blocks(_softmax_block, logits)


@float_kernel("LogSoftmax", device="CPU", fresh=True)
def log_softmax(xp: Any, logits: Array) -> Any:
    """x less the logarithm of the sum of exp(x) along the last axis; (..., C)."""
    if not _is_narrow(logits) and (logits.size <= _BLOCK or type(logits) is not np.ndarray):
        return plain.log_softmax(xp, logits)
    return _in_blocks(_log_softmax_block, logits)


@float_kernel("SoftmaxCrossEntropyWithLogits", device="CPU", fresh=True)
def softmax_cross_entropy(xp: Any, features: Array, labels: Array) -> Any:
    """Loss (B,) and gradient (B, C) of features and labels (B, C), broadcast; see the module `nn.softmax`."""
    if features.ndim != 2 or features.shape != labels.shape or not _is_narrow(features):
        return plain.softmax_cross_entropy(xp, features, labels)
    loss, backprop = np.empty(len(features), features.dtype), np.empty(features.shape, features.dtype)

    def work(part: slice) -> None:
        shifted, given = _as_columns(features[part]), _as_columns(labels[part])
        _shift(shifted, shifted, 0)
        weights = np.exp(shifted)
        total = np.add.reduce(weights, 0)
        weights /= total
        weights -= given
        backprop[part] = weights.T
        surprise = np.subtract(np.log(total, total), shifted, shifted)
        surprise *= given
        np.add.reduce(surprise, 0, out=loss[part])

    _by_rows(work, backprop)
    return loss, backprop


@float_kernel("SparseSoftmaxCrossEntropyWithLogits", device="CPU", fresh=True)
def sparse_softmax_cross_entropy(xp: Any, features: Array, labels: Array) -> Any:
    """Loss (B,) and gradient (B, C) of features (B, C) and classes (B,); see the module `nn.softmax`."""
    if features.ndim != 2 or not _is_narrow(features):
        return plain.sparse_softmax_cross_entropy(xp, features, labels)
    plain.check_classes(features, labels)
    loss, backprop = np.empty(len(labels), features.dtype), np.empty(features.shape, features.dtype)

    def work(part: slice) -> None:
        shifted = _as_columns(features[part])
        _shift(shifted, shifted, 0)
        weights = np.exp(shifted)
        total = np.add.reduce(weights, 0)
        weights /= total
        own = labels[part], np.arange(len(total))
        np.subtract(np.log(total, total), shifted[own], loss[part])
        weights[own] -= weights.dtype.type(1)
        backprop[part] = weights.T

    _by_rows(work, backprop)
    return loss, backprop
