"""Boosted trees: the best splits that TensorFlow 1.15 found."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, Sample, bad, strings

_RIGHT: Final = b"INEQUALITY_DEFAULT_RIGHT"
_LEFT: Final = b"INEQUALITY_DEFAULT_LEFT"
_EQUAL: Final = b"EQUALITY_DEFAULT_RIGHT"

#: Sums (2 nodes, 2 dimensions, 3 buckets and the missing, gradient and Hessian).
_SUMS: Final = np.array(
    [
        [
            [[1, 2], [-3, 1], [2, 0.5], [0.5, 0.25]],
            [[-0.5, 1], [0.25, 2], [0.5, 0.5], [0.25, 0.25]],
        ],
        [[[-4, 2], [3, 1], [0, 0], [1, 1]], [[0, 1], [2, 2], [-2, 0.5], [0, 0.5]]],
    ]
)
_TURNED: Final = _SUMS[..., ::-1] + 1
_DIAGONAL: Final = np.concatenate(
    [_SUMS[..., :1], _TURNED[..., :1], np.abs(_SUMS[..., 1:]) + 1, np.abs(_TURNED[..., 1:]) + 1], axis=-1
)
_QUARTER: Final = np.full_like(_SUMS[..., :1], 0.25)
_FULL: Final = np.concatenate([_DIAGONAL[..., :3], _QUARTER, _QUARTER, _DIAGONAL[..., 3:]], axis=-1)
_FEATURES: Final = [_SUMS[:, 0, :3], _SUMS[:, 1, :3]]


def _found(inputs: tuple[Any, ...], outputs: list[Any], kinds: list[bytes], **attrs: Any) -> Sample:
    values = [np.array(each) for each in outputs]
    return Sample(inputs, attrs, (*values, strings(*kinds)))


RECORDS: Final = [
    OpRecord(
        "BoostedTreesCalculateBestFeatureSplit",
        [
            _found(
                ([0, 2], _SUMS, 0.0, 0.5, 0.25, 0.0),
                [
                    [0, 1],
                    [5.834033489227295, 12.550000190734863],
                    [0, 0],
                    [1, 0],
                    [[0.5714285969734192], [1.600000023841858]],
                    [[-2.0], [-1.600000023841858]],
                ],
                [_RIGHT, _RIGHT],
                logits_dimension=1,
            ),
            _found(
                ([0, 2], _SUMS, 0.5, 0.5, 0.0, 3.9),
                [[1], [9.800000190734863], [0], [0], [[1.399999976158142]], [[-1.399999976158142]]],
                [_RIGHT],
                logits_dimension=1,
            ),
            _found(
                ([1, 2], _SUMS, 0.0, 1.0, 0.0, 0.0),
                [[1], [10.666666984558105], [0], [0], [[1.3333333730697632]], [[-1.3333333730697632]]],
                [_EQUAL],
                logits_dimension=1,
                split_type="equality",
            ),
            _found(
                ([0, 2], _DIAGONAL, 0.0, 0.5, 0.0, 0.0),
                [
                    [0, 1],
                    [2.926365375518799, 7.447679042816162],
                    [0, 0],
                    [1, 0],
                    [[0.3636363744735718, -0.7692307829856873], [1.1428571939468384, -0.6666666865348816]],
                    [[-0.7692307829856873, -0.392857164144516], [-0.7272727489471436, -0.4761904776096344]],
                ],
                [_RIGHT, _RIGHT],
                logits_dimension=2,
            ),
            _found(
                ([0, 1], _FULL, 0.0, 0.5, 0.0, 0.0),
                [
                    [0],
                    [2.997250556945801],
                    [0],
                    [1],
                    [[0.4366196393966675, -0.8028169274330139]],
                    [[-0.7166666984558105, -0.34166669845581055]],
                ],
                [_RIGHT],
                logits_dimension=2,
            ),
        ],
        bad=[
            bad("InvalidArgumentError", "", [0, 2], _SUMS[0], 0.0, 0.0, 0.0, 0.0, logits_dimension=1),
            bad("InvalidArgumentError", "", [0, 1, 2], _SUMS, 0.0, 0.0, 0.0, 0.0, logits_dimension=1),
            bad("InvalidArgumentError", "", [0, 2], _SUMS, [0.0], 0.0, 0.0, 0.0, logits_dimension=1),
            bad("InvalidArgumentError", "the 2 nodes", [0, 5], _SUMS, 0.0, 0.0, 0.0, 0.0, logits_dimension=1),
            bad("InvalidArgumentError", "Hessians", [0, 2], _SUMS, 0.0, 0.0, 0.0, 0.0, logits_dimension=2),
        ],
        loose=4,
        partial=True,
    ),
    OpRecord(
        "BoostedTreesSparseCalculateBestFeatureSplit",
        [
            _found(
                (
                    [0, 2],
                    [
                        *([0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 2, 0], [0, 0, 2, 1], [0, 1, 1, 0], [0, 1, 1, 1]),
                        *([1, 0, 0, 0], [1, 0, 0, 1], [1, 0, 2, 0], [1, 0, 2, 1], [1, 1, 2, 0], [1, 1, 2, 1]),
                    ],
                    [3.0, 0.5, 1.0, 0.125, 4.0, 0.625, 4.0, 0.75, 2.0, 0.25, 6.0, 1.0],
                    [2, 2, 3, 2],
                    *(0.0, 0.5, 0.25, 0.0),
                ),
                [
                    [0, 1],
                    [-0.25, -0.25],
                    [0, 0],
                    [0, 0],
                    [[-3.555555582046509], [-4.0]],
                    [[-0.0], [-0.0]],
                ],
                [_LEFT, _LEFT],
                logits_dimension=1,
            ),
        ],
        bad=[
            bad(
                "InvalidArgumentError",
                "no index of sums",
                *([0, 1], [[0, 0, 0, 5]], [1.0], [1, 1, 2, 2], 0.0, 0.0, 0.0, 0.0),
                logits_dimension=1,
            ),
            bad(
                "InvalidArgumentError",
                "not in [0, 1)",
                *([0, 1], [[3, 0, 0, 0]], [1.0], [1, 1, 2, 2], 0.0, 0.0, 0.0, 0.0),
                logits_dimension=1,
            ),
        ],
        loose=4,
        partial=True,
    ),
    OpRecord(
        "BoostedTreesCalculateBestGainsPerFeature",
        [
            Sample(
                ([0, 2], _FEATURES, 0.0, 0.5, 0.25, 3.25),
                {"max_splits": 2},
                tuple(
                    np.array(each)
                    for each in (
                        *([0], [0, 1], [4.892857074737549], [0.08854168653488159, 4.892857074737549]),
                        *([1], [0, 1], [[0.5714285969734192]]),
                        *([[0.3333333432674408], [-0.5714285969734192]], [[-2.0]], [[-0.25], [2.0]]),
                    )
                ),
            ),
        ],
        bad=[
            bad("InvalidArgumentError", "", [0], _FEATURES, 0.0, 0.0, 0.0, 0.0, max_splits=2),
            bad("InvalidArgumentError", "", [0, 2], [_SUMS], 0.0, 0.0, 0.0, 0.0, max_splits=2),
        ],
        loose=4,
        partial=True,
    ),
]
