"""Normal numbers between bounds of their own."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample, told


def _inside(outputs: Any, inputs: Any) -> None:
    (drawn,) = (np.asarray(o, np.float64) for o in outputs)
    shape, _, _, low, high = (np.asarray(i, np.float64) for i in inputs)
    assert drawn.shape == tuple(shape.astype(int))
    rows = drawn.reshape(len(drawn), drawn.size // max(len(drawn), 1)).T
    assert ((rows >= low - 0.01) & (rows <= high + 0.01)).all()


_ROWS: Final = [[0.0, 1.0, 5.0, 3.0], [1.0, 2.0, 0.5, 1.0], [-np.inf, -5.0, 1.0, 7.0], [-2.0, 5.0, 4.5, 7.25]]

RECORDS: Final = [
    OpRecord(
        "ParameterizedTruncatedNormal",
        [
            sample([4, 300], *_ROWS, seed=7, seed2=9),
            sample([10, 25], 0.0, 1.0, -9.0, 0.5, seed=7, seed2=9),
            sample([4, 0], *_ROWS, seed=7),
            sample([0, 3], 0.0, 1.0, -9.0, 0.5, seed=7),
        ],
        bad=[
            bad("InvalidArgumentError", "deviation -1.0", [3], 0.0, -1.0, -9.0, 0.5),
            bad("InvalidArgumentError", "bounds 9.0 and 0.5", [3], 0.0, 1.0, 9.0, 0.5),
            bad("InvalidArgumentError", "means", [3], [1.0, 2.0], 1.0, 0.0, 0.5),
            bad("InvalidArgumentError", "", [3], [[1.0]], 1.0, 0.0, 0.5),
            bad("InvalidArgumentError", "empty", np.zeros((0,)), 1.0, 1.0, 0.0, 0.5),
        ],
        check=_inside,
        random=True,
    ),
    OpRecord(
        "StatelessParameterizedTruncatedNormal",
        [
            told(
                ([3, 2], [1, 2], [0.0, 5.0], 1.0, [-1.0, 4.0], [1.0, 7.0]),
                [
                    [
                        [0.6881208419799805, 5.651257514953613],
                        [-0.6159093379974365, 6.104886531829834],
                        [0.9924464225769043, 6.374622821807861],
                    ]
                ],
                {"dtype": "float32"},
            ),
            told(
                ([4], [1, 2], 0.0, 1.0, 3.0, 7.0),
                [[3.0513298511505127, 3.001145601272583, 3.3942105770111084, 3.6768383979797363]],
                {"dtype": "float32"},
            ),
            told(
                ([4], [1, 2], 0.0, 1.0, 0.3, 0.7),
                [[0.6009935015380721, 0.5059247486924887, 0.543098019912249, 0.6358992221404892]],
                {"dtype": "float64"},
            ),
            told(
                ([2, 2, 2], [1, 2], [[0.0], [5.0]], [1.0, 2.0], -30.0, 30.0),
                [
                    [
                        [[0.544110119342804, -2.603179693222046], [5.651257514953613, 7.164262771606445]],
                        [[0.20738030970096588, -1.9077130556106567], [6.104886531829834, 6.10209846496582]],
                    ]
                ],
                {"dtype": "float32"},
            ),
            told(([0, 2], [1, 2], [0.0, 5.0], 1.0, -1.0, 1.0), [np.zeros((0, 2))], {"dtype": "float16"}),
        ],
        bad=[
            bad("InvalidArgumentError", "end with", [4, 3], [1, 2], [0.0, 1.0], 1.0, 3.0, 7.0),
            bad("InvalidArgumentError", "broadcast", [4, 3], [1, 2], [0.0, 1.0], [1.0, 2.0, 3.0], 3.0, 7.0),
            bad("InvalidArgumentError", "deviation -1.0", [4], [1, 2], 0.0, -1.0, 3.0, 7.0),
            bad("InvalidArgumentError", "bounds 7.0 and 3.0", [4], [1, 2], 0.0, 1.0, 7.0, 3.0),
        ],
        loose=5,
    ),
]
