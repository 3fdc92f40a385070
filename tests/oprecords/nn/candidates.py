"""Samples of classes that stand for the many that are not the true one."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, Sample, bad, sample


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

_SEEDED = {"num_true": 1, "num_sampled": 5, "unique": True, "range_max": 8, "seed": 3, "seed2": 7}
_WEIGHTS = {"unigrams": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]}


def _drawn(sampled: Any, true_expected: Any, sampled_expected: Any, **attrs: Any) -> Sample:
    """Make a sample of TensorFlow's draw with these seeds, for the true classes 0 and 3."""
    expected = tuple(
        np.array(v, np.float64) for v in (sampled, np.reshape(true_expected, (2, 1)), sampled_expected)
    )
    return Sample((_TRUE,), {**_SEEDED, **attrs}, expected)


_BAD_UNIGRAMS = [
    bad("InvalidArgumentError", "columns", _TRUE, **{**_SEEDED, "num_true": 2}),
    bad("InvalidArgumentError", "too small", _TRUE, **{**_SEEDED, "num_sampled": 9}),
    bad("InvalidArgumentError", "received 8", [[8], [3]], **_SEEDED),
    bad("InvalidArgumentError", "must be less than", _TRUE, **{**_SEEDED, "range_max": 2**40}),
]

RECORDS: Final = [
    *[
        OpRecord(
            op,
            [
                _drawn([0, 6, 5, 2, 7], [0.5512047] * 2, [0.5512047] * 5),
                _drawn([0, 6, 5, 6, 2], [0.625] * 2, [0.625] * 5, unique=False),
            ],
            bad=_BAD_UNIGRAMS,
            random=True,
        )
        for op in ("LearnedUnigramCandidateSampler", "ThreadUnsafeUnigramCandidateSampler")
    ],
    OpRecord(
        "FixedUnigramCandidateSampler",
        [
            _drawn(
                [5, 6, 7, 3, 4],
                [0.34629542, 0.7141875],
                [0.82416666, 0.8610503, 0.8898766, 0.7141875, 0.7765321],
                **_WEIGHTS,
                distortion=0.75,
            ),
            _drawn(
                [5, 5, 6, 6, 6],
                [0, 1 / 3],
                [1, 1, 4 / 3, 4 / 3, 4 / 3],
                unigrams=[1.0, 2.0, 3.0, 4.0, 5.0],
                num_reserved_ids=3,
                unique=False,
            ),
            _drawn(
                [2, 3, 1],
                [0.468559, 0.953344],
                [0.88235104, 0.953344, 0.73785603],
                **_WEIGHTS,
                num_shards=2,
                shard=1,
                range_max=4,
                num_sampled=3,
            ),
        ],
        bad=[
            bad("InvalidArgumentError", "range is 4", _TRUE, **{**_SEEDED, **_WEIGHTS, "range_max": 4}),
            bad("InvalidArgumentError", "either", _TRUE, **_SEEDED),
            bad("InvalidArgumentError", "only provide one", _TRUE, **_SEEDED, **_WEIGHTS, vocab_file="x"),
            bad(
                "InvalidArgumentError",
                "7 have a weight",
                _TRUE,
                **{**_SEEDED, "unigrams": [0.0, *_WEIGHTS["unigrams"][1:]], "num_sampled": 8},
            ),
            bad("NotFoundError", "no/such", _TRUE, **_SEEDED, vocab_file="/no/such/file"),
        ],
        random=True,
    ),
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
