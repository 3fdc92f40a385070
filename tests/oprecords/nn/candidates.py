"""Samples of classes that stand for the many that are not the true one."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample


def _candidates(outputs: Any, inputs: Any, *, num_sampled: int, range_max: int, unique: bool) -> None:
    sampled, true_expected, sampled_expected = outputs
    assert sampled.shape == sampled_expected.shape == (num_sampled,)
    assert true_expected.shape == inputs[0].shape
    assert set(sampled.tolist()) <= set(range(range_max))
    assert not unique or len(set(sampled.tolist())) == num_sampled
    assert np.all(sampled_expected > 0)
    assert np.all(true_expected > 0)


def _all_candidates(outputs: Any, inputs: Any, *, num_sampled: int) -> None:
    assert outputs[0].tolist() == list(range(num_sampled))
    assert np.all(outputs[1] == 1)
    assert np.all(outputs[2] == 1)


def _hits(true: Any, sampled: Any) -> tuple[Any, Any, Any]:
    pairs = [(i, j) for i, row in enumerate(true) for j, s in enumerate(sampled) if s in row]
    lowest = np.full(len(pairs), np.finfo(np.float32).min, np.float32)
    return np.array([i for i, _ in pairs]), np.array([j for _, j in pairs]), lowest


_SAMPLER = {"num_true": 1, "num_sampled": 5, "range_max": 8, "seed": 3}
_TRUE = [[0], [3]]
_BAD_SAMPLER = bad("InvalidArgumentError", "", _TRUE, **{**_SAMPLER, "num_true": 2}, unique=True)

RECORDS: Final = [
    *[
        OpRecord(
            op,
            [sample(_TRUE, **_SAMPLER, unique=u) for u in (True, False)],
            bad=[_BAD_SAMPLER],
            check=_candidates,
            random=True,
        )
        for op in ("UniformCandidateSampler", "LogUniformCandidateSampler")
    ],
    OpRecord(
        "AllCandidateSampler", [sample(_TRUE, num_true=1, num_sampled=4, unique=True)], check=_all_candidates
    ),
    OpRecord(
        "ComputeAccidentalHits",
        [sample([[1, 2], [0, 5]], [1, 0, 7, 2], num_true=2)],
        _hits,
        [bad("InvalidArgumentError", "", [[1, 2]], [0], num_true=3)],
        partial=True,
    ),
]
