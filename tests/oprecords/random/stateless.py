"""Numbers that are a function of a seed or of their place alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from tests.oprecords.record import OpRecord, Sample, bad, sample, told

# Random tensors that are a function of their seed.

#: {why they have no record: ops}


# The place of one index in a random order of all.

#: {why they have no record: ops}


# Numbers with fractions to integers, up or down at random: TensorFlow 2.21's own choices.

_KEY: Final = np.array([12345678901234567890], np.uint64)
_COUNTER: Final = np.array([3, 9], np.uint64)
_PHILOX: Final = np.int32(1)


def _check(outputs: Sequence[Array], inputs: Sequence[Any]) -> None:
    """One of the two integers next to each number, within the type's range; NaN is 0."""
    numbers = np.asarray(inputs[0]).astype(np.float64)
    ends = np.iinfo(outputs[0].dtype)
    below, above = (np.clip(each, ends.min, ends.max) for each in (np.floor(numbers), np.ceil(numbers)))
    rounded = outputs[0].astype(np.float64)
    assert ((rounded == below) | (rounded == above) | (np.isnan(numbers) & (rounded == 0))).all()


_OF_STOCHASTIC_CAST: Final = [
    OpRecord(
        "StochasticCastToInt",
        [
            sample(np.arange(-13, 14) * 0.3, _KEY, _COUNTER, _PHILOX),
            sample(np.arange(-4.0, 4).reshape(2, 4) / 7, _KEY, _COUNTER[:1], np.int32(3)),
            sample([np.nan, -300.5, 0.0, -0.0, 100.25, -1e-7], _KEY, _COUNTER, _PHILOX),
            sample(2.5, _KEY, _COUNTER, _PHILOX),
            sample(np.zeros((0, 3)), _KEY, _COUNTER, _PHILOX),
            Sample(
                (np.linspace(-3e9, 2.1e9, 21), _KEY, _COUNTER, _PHILOX), {"Tin": "float64", "Tout": "int32"}
            ),
        ],
        bad=[
            bad("InvalidArgumentError", "id: 2", [1.5], _KEY, _COUNTER, np.int32(2)),
            bad("InvalidArgumentError", "[1]", [1.5], _KEY, _COUNTER, np.array([1], np.int32)),
            bad("InvalidArgumentError", "key", [1.5], _COUNTER, _COUNTER, _PHILOX),
            bad("InvalidArgumentError", "[]", [1.5], _KEY, np.uint64(1), _PHILOX),
            bad("InvalidArgumentError", "counter", [1.5], _KEY, _COUNTER[:0], _PHILOX),
        ],
        check=_check,
        dtypes={"Tin": ("float32", "float64", "float16", "bfloat16"), "Tout": ("int32", "int8", "int16")},
    )
]


# Sequences that fill a cube evenly.


def _van_der_corput(dim: Any, num_results: Any, skip: Any) -> Any:
    """The first dimension: bits of the numbers in Gray's code, from behind."""
    numbers = np.arange(skip + 1, skip + 1 + num_results, dtype=np.int64)
    gray = numbers ^ (numbers >> 1)
    found = sum(((gray >> bit) & 1) / 2.0 ** (bit + 1) for bit in range(31))
    return np.asarray(found)[:, None]


_OF_SOBOL: Final = [
    OpRecord(
        "SobolSample",
        [
            sample(1, 20, 0),
            sample(1, 9, 1000),
            told(
                (3, 5, 0),
                [
                    [
                        [0.5, 0.5, 0.5],
                        [0.75, 0.25, 0.25],
                        [0.25, 0.75, 0.75],
                        [0.375, 0.375, 0.625],
                        [0.875, 0.875, 0.125],
                    ]
                ],
                {},
            ),
            told((2, 4, 3), [[[0.375, 0.375], [0.875, 0.875], [0.625, 0.125], [0.125, 0.625]]], {}),
        ],
        _van_der_corput,
        [
            bad("InvalidArgumentError", "dim must be at least 1, but is 0", 0, 1, 0),
            bad("InvalidArgumentError", "num_results", 1, 0, 0),
            bad("InvalidArgumentError", "skip must be at least 0, but is -1", 1, 1, -1),
            bad("InvalidArgumentError", "at most 21201", 30000, 1, 0),
        ],
        loose=0,
    ),
]


RECORDS: Final = [*_OF_STOCHASTIC_CAST, *_OF_SOBOL]

EXCUSED: Final = {
    "random with parts that are not: tests/kernels, tests/conformance": """
        StatelessMultinomial StatelessRandomNormal StatelessRandomUniform StatelessRandomUniformInt
        StatelessTruncatedNormal RandomIndexShuffle
    """,
}
