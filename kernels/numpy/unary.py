"""The logistic function of small layers, with what NumPy would look up and convert at each call kept."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import float32, float64
from flowengine.kernels.math.unary import sigmoid as plain_sigmoid
from flowengine.kernels.registry import kernel

_negative, _exp, _add, _divide = np.negative, np.exp, np.add, np.divide


@functools.cache
def _one(dtype: np.dtype[Any]) -> Array:
    """1 of rank 0: NumPy takes half a microsecond to convert a Python number."""
    return np.ones((), dtype)


@kernel("Sigmoid", types={"T": [float32, float64]}, device="CPU", fresh=True)
def sigmoid(x: Array) -> Any:
    """1 / (1 + exp(-x)); a large negative x gives 0 through the infinity of exp."""
    if type(x) is not np.ndarray or not x.ndim:
        return plain_sigmoid(np, x)
    # Networks of small layers ask often: what is looked up and converted costs as much as the sums.
    y, one = _negative(x), _one(x.dtype)
    _exp(y, y)
    _add(y, one, y)
    # The same bits as `reciprocal`, a little sooner.
    return _divide(one, y, y)
