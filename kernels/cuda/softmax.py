"""Softmax, its logarithm and the cross entropies: `sources/softmax.cuh`, as in `kernels/nn/activations.py`.

Logits are float16, bfloat16, float32 or float64, row by row without gaps; a row is one block's. Nothing is
waited for. Results differ from the CPU's in the last places: exponentials do, and sums have another order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.cuda.functions import LABEL_OUTSIDE
from flowengine.kernels.cuda.launching import Launcher, each_row


def _by_row(launcher: Launcher, name: str, logits: Array) -> Any:
    if logits.ndim < 1:
        raise InvalidArgumentError(f"logits must have >= 1 dimension, got {logits.ndim}")
    result = launcher.empty(logits.shape, logits.dtype)
    if logits.size:
        classes = logits.shape[-1]
        launch = each_row(f"{name}_{logits.dtype.name}", logits.size // classes, classes)
        launcher.launch(launch, [logits, result])
    return result


def softmax(launcher: Launcher, logits: Array) -> Any:
    """exp(x) over its sum along the last axis; (..., C). InvalidArgumentError for a scalar."""
    return _by_row(launcher, "softmax", logits)


def log_softmax(launcher: Launcher, logits: Array) -> Any:
    """x less the logarithm of the sum of exp(x) along the last axis, as `softmax`."""
    return _by_row(launcher, "log_softmax", logits)


def cross_entropy(launcher: Launcher, logits: Array, labels: Array) -> tuple[Any, Any]:
    """Cross entropy of each row's softmax with a row of probabilities, and its gradient.

    logits, labels   (B, C), either may have 1 for B or C
    returns          loss (B,), softmax - labels (B, C)

    Raises InvalidArgumentError for other shapes.
    """
    shapes = logits.shape, labels.shape
    fits = all(len(s) == 2 for s in shapes) and all(
        a == b or 1 in (a, b) for a, b in zip(*shapes, strict=True)
    )
    if not fits:
        raise InvalidArgumentError(
            "logits and labels must be two matrices that broadcast, not of shapes "
            f"{list(logits.shape)} and {list(labels.shape)}"
        )
    count, classes = (b if a == 1 else a for a, b in zip(*shapes, strict=True))
    loss = launcher.empty((count,), logits.dtype)
    backprop = launcher.empty((count, classes), logits.dtype)
    if count and classes:
        # Elements from one row, and from one class, to the next.
        strides = [n for rows, columns in shapes for n in (0 if rows == 1 else columns, int(columns > 1))]
        launch = each_row(f"cross_entropy_{logits.dtype.name}", count, classes, *strides)
        launcher.launch(launch, [logits, labels, loss, backprop])
    elif count:
        loss = launcher.moved_in(np.zeros(count, logits.dtype))
    return loss, backprop


def sparse_cross_entropy(launcher: Launcher, logits: Array, labels: Array) -> tuple[Any, Any]:
    """Cross entropy of each row's softmax with the class of its label, and its gradient.

    logits    (B, C), C at least 1
    labels    (B,) int32 or int64; one outside [0, C) is written into the error record, its row becomes NaN
    returns   loss (B,), backprop (B, C)

    Raises InvalidArgumentError for other shapes.
    """
    if logits.ndim != 2 or labels.shape != logits.shape[:1] or not logits.shape[1]:
        raise InvalidArgumentError(
            "logits must be a matrix with at least one class and labels a vector with a label for each row, "
            f"not of shapes {list(logits.shape)} and {list(labels.shape)}"
        )
    count, classes = logits.shape
    loss = launcher.empty((count,), logits.dtype)
    backprop = launcher.empty(logits.shape, logits.dtype)
    if count:
        name = f"sparse_cross_entropy_{logits.dtype.name}_{labels.dtype.name}"
        launch = each_row(name, count, classes, LABEL_OUTSIDE)
        launcher.launch(launch, [logits, labels, loss, backprop, launcher.error_record])
    return loss, backprop


__all__ = ["cross_entropy", "log_softmax", "softmax", "sparse_cross_entropy"]
