"""Penalties of variables, `fe.regularizers`: functions of a tensor that return a () tensor.

Variables are floats of any width and shape; the penalty is of their type.

>>> graph, regularizers = fe.Graph(), fe.regularizers
>>> for penalty in (regularizers.l1(0.5), regularizers.l2(0.5), regularizers.l1_l2(0.5, 0.5)):
...     w = graph.variable([1.0, -2.0], regularizer=penalty)
>>> penalties = graph.collection("regularization_losses")
>>> with fe.blocking.Session(graph) as session:
...     initialized = session.initialize()
...     print(*session.run(penalties))
1.5 1.25 2.75
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.public_names.missing import public_module
from flowengine.graphs.tensor import Tensor

#: Of a tensor a () tensor of its type.
Regularizer: TypeAlias = Callable[[Tensor], Tensor]


def l1(scale: float) -> Regularizer:
    """Return a regularizer: scale * the sum of absolute values.

    Of a tensor of floats of any shape: () of its type. Raises InvalidArgumentError where scale is not a
    number of at least 0.
    """
    _check(scale)

    def penalty(x: Tensor) -> Tensor:
        graph, ops = x.graph, x.graph.ops
        axes = np.arange(x.shape.rank or 0, dtype=np.int32)
        found: Tensor = ops.Mul(
            graph.constant(scale, x.dtype.base), ops.Sum(ops.Abs(x), axes), name="l1_regularizer"
        )
        return found

    return penalty


def l2(scale: float) -> Regularizer:
    """Return a regularizer: scale / 2 * the sum of squares.

    Of a tensor of floats of any shape: () of its type. Raises InvalidArgumentError where scale is not a
    number of at least 0.
    """
    _check(scale)

    def penalty(x: Tensor) -> Tensor:
        graph, ops = x.graph, x.graph.ops
        found: Tensor = ops.Mul(graph.constant(scale, x.dtype.base), ops.L2Loss(x), name="l2_regularizer")
        return found

    return penalty


def l1_l2(scale_l1: float, scale_l2: float) -> Regularizer:
    """Return a regularizer: the sum of `l1(scale_l1)` and `l2(scale_l2)`.

    Of a tensor of floats of any shape: () of its type. Raises InvalidArgumentError unless both scales are
    numbers of at least 0.
    """
    first, second = l1(scale_l1), l2(scale_l2)

    def penalty(x: Tensor) -> Tensor:
        found: Tensor = x.graph.ops.Add(first(x), second(x), name="l1_l2_regularizer")
        return found

    return penalty


def _check(scale: float) -> None:
    if not math.isfinite(scale) or scale < 0:
        raise InvalidArgumentError(f"the strength of a regulariser is a number of at least 0, not {scale}")


__all__ = ["l1", "l1_l2", "l2"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public_module(__name__, __all__)
