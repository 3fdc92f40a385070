"""Random tensors, shuffles and draws from categories, from a sequence of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample

_SHAPE = [40, 50]
_FLOATS = {"dtype": ("float32", "float64", "float16", "bfloat16")}


def _drawn(mean: float, deviation: float, low: float, high: float) -> Callable[..., None]:
    """A check of 2,000 draws: bounds always; mean and deviation within five standard errors."""

    def check(outputs: Any, inputs: Any) -> None:
        (values,) = (np.asarray(o, np.float64) for o in outputs)
        assert values.shape == tuple(inputs[0])
        if values.size < 1000:
            return
        assert low <= values.min() <= values.max() <= high
        assert abs(values.mean() - mean) < 5 * deviation / np.sqrt(values.size)
        assert abs(values.std() - deviation) < 0.1 * deviation
        assert len(np.unique(values)) > 10

    return check


def _integers(outputs: Any, inputs: Any) -> None:
    shape, low, high = inputs
    assert outputs[0].shape == tuple(shape)
    if outputs[0].size:
        assert set(np.unique(outputs[0])) == set(range(int(low), int(high)))


def _rows(x: Any) -> Any:
    return x.reshape(len(x), int(np.prod(x.shape[1:]))).tolist()


def _shuffled(outputs: Any, inputs: Any) -> None:
    assert outputs[0].shape == inputs[0].shape
    before, after = (sorted(map(tuple, _rows(x))) for x in (inputs[0], outputs[0]))
    assert before == after


def _classes(outputs: Any, inputs: Any) -> None:
    logits, count = inputs
    assert outputs[0].shape == (len(logits), int(count))
    for row, drawn in zip(np.asarray(logits, np.float64), outputs[0], strict=True):
        shares = np.exp(row) / np.exp(row).sum()
        seen = np.bincount(drawn, minlength=len(row)) / max(int(count), 1)
        assert np.all(np.abs(seen - shares) < 5 * np.sqrt(shares * (1 - shares) / max(int(count), 1)) + 1e-9)


_SHAPES = [sample(_SHAPE, seed=7, seed2=9), sample([0, 3], seed=1), sample(np.zeros((0,)), seed=1)]
_NEGATIVE = bad("InvalidArgumentError", "-1", [2, -1])

RECORDS: Final = [
    OpRecord(
        "RandomUniform",
        _SHAPES,
        bad=[_NEGATIVE],
        dtypes=_FLOATS,
        random=True,
        check=_drawn(0.5, 1 / np.sqrt(12), 0.0, 1.0),
    ),
    OpRecord(
        "RandomStandardNormal",
        _SHAPES,
        bad=[_NEGATIVE],
        dtypes=_FLOATS,
        random=True,
        check=_drawn(0.0, 1.0, -7.0, 7.0),
    ),
    OpRecord(
        "TruncatedNormal",
        _SHAPES,
        bad=[_NEGATIVE],
        dtypes=_FLOATS,
        random=True,
        check=_drawn(0.0, 0.8796, -2.0, 2.0),
    ),
    OpRecord(
        "RandomUniformInt",
        [sample(_SHAPE, -3, 9, seed=5), sample([0], 1, 2, seed=5)],
        check=_integers,
        random=True,
        bad=[bad("InvalidArgumentError", "5", [2], 5, 5)],
    ),
    OpRecord(
        "RandomShuffle",
        [sample(np.arange(12.0).reshape(6, 2), seed=3), sample(np.zeros((0, 2)), seed=1)],
        check=_shuffled,
        random=True,
        dtypes={"T": ("float32", "int64", "bool")},
    ),
    OpRecord(
        "Multinomial",
        [sample(np.log([[0.1, 0.4, 0.5], [0.6, 0.2, 0.2]]), 500, seed=7)],
        check=_classes,
        random=True,
        bad=[
            bad("InvalidArgumentError", "-1", [[0.0, 1.0]], -1),
            bad("InvalidArgumentError", "", [0.0, 1.0], 3),
        ],
        dtypes={"T": ("float32", "float64")},
    ),
]
