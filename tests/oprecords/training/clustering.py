"""Starts of k-means clustering, and the nearest centres."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample, told


def _nearest(points: Any, centers: Any, k: Any) -> tuple[Any, Any]:
    apart = np.square(points[:, None] - centers).sum(-1)
    order = apart.argsort(1, kind="stable")[:, : int(k)]
    return order, np.take_along_axis(apart, order, 1)


_POINTS: Final = [
    [1.75, 0.5], [1.0, 2.25], [1.75, -1.0], [1.0, -0.25], [-0.0, 0.5], [0.25, 1.5],
    [0.75, 0.0], [0.5, 0.25], [1.5, -0.25], [0.25, -0.75], [-2.5, 0.75], [0.75, -0.75],
]  # fmt: skip
_CENTERS: Final = [[1.25, 2.5], [0.5, 1.75], [0.5, -0.5]]
_DISTANCES: Final = [1.0, 3.0, 0.5, 2.0, 8.0, 1.0, 0.25, 4.0]

RECORDS: Final = [
    OpRecord(
        "KMC2ChainInitialization",
        [
            *[told([_DISTANCES, seed], [place], {}) for seed, place in ((0, 7), (1, 7), (77, 4), (-5, 7))],
            told([[2.0], 3], [0], {}),
        ],
        bad=[
            bad("InvalidArgumentError", "> 0", [], 5),
            bad("InvalidArgumentError", "vector", [[1.0]], 5),
            bad("InvalidArgumentError", "", [1.0], [5]),
        ],
    ),
    OpRecord(
        "KmeansPlusPlusInitialization",
        [
            told([_POINTS, 4, 1, 0], [[_POINTS[i] for i in (4, 10, 1, 0)]], {}),
            told([_POINTS, 4, 7, 2], [[_POINTS[i] for i in (3, 5, 10, 7)]], {}),
            told([_POINTS, 4, 9, -1], [[_POINTS[i] for i in (11, 5, 10, 0)]], {}),
            told([[[2.0, 3.0]] * 3, 3, 5, 0], [[[2.0, 3.0]] * 3], {}),
        ],
        bad=[
            bad("InvalidArgumentError", "40 vs 12", _POINTS, 40, 1, 0),
            bad("InvalidArgumentError", "num_to_sample > 0", _POINTS, 0, 1, 0),
            bad("InvalidArgumentError", "rows() > 0", np.zeros((0, 2)), 1, 1, 0),
            bad("InvalidArgumentError", "", [1.0], 1, 1, 0),
        ],
    ),
    OpRecord(
        "NearestNeighbors",
        [
            *[sample(_POINTS, _CENTERS, k) for k in (0, 1, 2, 5)],
            sample([[0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [2.0, 2.0]], 3),
            sample(_POINTS, np.zeros((0, 2)), 2),
        ],
        _nearest,
        [
            bad("InvalidArgumentError", "2 vs 1", _POINTS, [[1.0]], 1),
            bad("InvalidArgumentError", "-1", _POINTS, _CENTERS, -1),
            bad("InvalidArgumentError", "rows() > 0", np.zeros((0, 2)), _CENTERS, 1),
            bad("InvalidArgumentError", "", [1.0], _CENTERS, 1),
        ],
        loose=4,
    ),
]
