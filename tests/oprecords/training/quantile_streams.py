"""Boosted trees: summaries of values, as TensorFlow 1.15 made them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample, told

_ERROR: Final = 0.1


def _exact(float_values: Any, example_weights: Any, epsilon: Any) -> Any:
    """Of so few values nothing is lost."""
    summaries = []
    for values in float_values:
        below, rows = 0.0, []
        for value in np.unique(values):
            weight = np.broadcast_to(example_weights, values.shape)[values == value].clip(0).sum()
            if weight > 0:
                rows.append([value, weight, below, below + weight])
                below += weight
        summaries.append(np.array(rows).reshape(-1, 4))
    return summaries


#: {why they have no record: ops}
EXCUSED: Final = {
    "their input is an object, not a tensor: tests/resources": """
        BoostedTreesCreateQuantileStreamResource BoostedTreesFlushQuantileSummaries
        BoostedTreesQuantileStreamResourceAddSummaries BoostedTreesQuantileStreamResourceDeserialize
        BoostedTreesQuantileStreamResourceFlush BoostedTreesQuantileStreamResourceGetBucketBoundaries
        BoostedTreesQuantileStreamResourceHandleOp IsBoostedTreesQuantileStreamResourceInitialized
    """,
}

RECORDS: Final = [
    OpRecord(
        "BoostedTreesMakeQuantileSummaries",
        [
            told(
                ([[3.0, 1.0, 1.0, 2.0], [5.0, 5.0, 5.0, 5.0]], [1.0, 0.5, 0.25, 0.0], _ERROR),
                [[[1.0, 0.75, 0.0, 0.75], [3.0, 1.0, 0.75, 1.75]], [[5.0, 1.75, 0.0, 1.75]]],
                {},
            ),
            sample([[3.0, -1.0, 0.5, 0.5, 7.0]], [2.0], _ERROR),
            sample([[3.0, -1.0], [0.5, 0.25]], [-1.0, 2.0], 0.01),
        ],
        _exact,
        [
            bad("InvalidArgumentError", "Weights", [[1.0, 2.0, 3.0]], [1.0, 2.0], _ERROR),
            bad("InvalidArgumentError", "", [[[1.0]]], [1.0], _ERROR),
            bad("InvalidArgumentError", "", [[1.0]], [1.0], [_ERROR]),
            bad("InvalidArgumentError", "epsilon", [[1.0]], [1.0], 0.0),
            bad("InvalidArgumentError", "between 0 and 1", [[1.0]], [1.0], 1.5),
        ],
        partial=True,
    ),
]
