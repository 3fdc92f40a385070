"""Samples and records that ops which go element by element have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.oprecords.record import BadSample, OpRecord, Sample, bad, sample

PAIRS = [
    sample(3.0, 2.0),
    sample([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]], [[2.0], [-3.0]]),
    sample([7.0, -7.0, 7.0, -7.0], [2.0, 2.0, -2.0, -2.0]),
    sample([1.0, 2.0], 2.0),
    sample(np.zeros((2, 0, 3)), np.ones((1, 3))),
]
POSITIVE_PAIRS = [
    sample([0.5, 1.0, 2.0, 3.0], [2.0, 0.5, 3.0, 1.0]),
    sample(2.0, [1.0, 3.0]),
    sample(np.ones((0,)), 2.0),
]
WITH_ZEROS = [sample([0.0, 2.0, 0.0, -3.0], [0.0, 0.0, 5.0, 2.0]), sample(np.zeros((0,)), 1.0)]
MISFIT = bad("InvalidArgumentError", "[2] vs. [3]", [1.0, 2.0], [1.0, 2.0, 3.0])


def binary(
    op: str,
    reference: Callable[..., Any],
    samples: Sequence[Sample] = PAIRS,
    dtypes: Sequence[str] | None = None,
    *more_bad: BadSample,
    loose: float = 1.0,
    differentiable: bool | Sequence[str] = True,
) -> OpRecord:
    named = {} if dtypes is None else {"T": dtypes}
    return OpRecord(
        op, samples, reference, (MISFIT, *more_bad), named, loose=loose, differentiable=differentiable
    )


#: Rank 0, a vector, a matrix without elements, a tensor of rank 3.
ANYWHERE = [
    sample(0.75),
    sample([-3.0, -2.5, -1.5, -1.0, -0.5, -0.0, 0.0, 0.25, 0.5, 1.0, 1.5, 2.5, 3.0]),
    sample(np.zeros((2, 0))),
    sample(np.linspace(-2, 2, 12).reshape(2, 3, 2)),
]


def unary(
    op: str,
    reference: Callable[..., Any],
    samples: Sequence[Sample] = ANYWHERE,
    dtypes: Sequence[str] | None = None,
    *,
    loose: float = 1.0,
    differentiable: bool | Sequence[str] = True,
) -> OpRecord:
    named = {} if dtypes is None else {"T": dtypes}
    return OpRecord(op, samples, reference, dtypes=named, loose=loose, differentiable=differentiable)


_G = np.linspace(-1.5, 2.0, 8)
_X = np.array([-3.0, -1.0, -0.25, 0.0, 0.5, 1.0, 5.0, 7.0])
GRADS = [sample(_G, _X), sample(0.5, 2.0), sample(np.zeros((0, 2)), np.zeros((0, 2)))]
SMALL_GRADS = [sample(_G, _X / 10), sample(0.5, 0.25), sample(np.zeros((0,)), np.zeros((0,)))]
_GRADS_MISFIT = bad("InvalidArgumentError", "", [1.0, 2.0], [1.0, 2.0, 3.0])


def gradient(op: str, reference: Callable[..., Any], samples: Any = GRADS, **more: Any) -> OpRecord:
    return OpRecord(op, samples, reference, [_GRADS_MISFIT], differentiable=True, **more)
