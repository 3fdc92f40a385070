"""Linear models by stochastic dual coordinate ascent.

Steps of one example are what TensorFlow gave: with more it takes them in an order of its own.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, Sample, bad, sample, strings, told

_INPUTS: Final = (
    [[0, 0], [0]],
    [[3, 5], [2]],
    [[0.5, -2.0]],
    [[[1.0, -0.5]]],
    [1.0],
    [1.0],
    [[5, 3, 9], [2, 4]],
    [[0.5, -0.25, 1.0], [0.75, 2.0]],
    [[0.3, -0.2]],
    [[0.0, 0.0, 0.0, 0.0]],
)
_ATTRS: Final[dict[str, Any]] = {
    "num_sparse_features": 2,
    "num_sparse_features_with_values": 1,
    "num_dense_features": 1,
    "num_inner_iterations": 1,
    "num_loss_partitions": 1,
    "loss_type": "logistic_loss",
    "l1": 0.1,
    "l2": 0.5,
}


def _with(**changes: Any) -> tuple[Any, ...]:
    places = {"examples": 0, "features": 1, "weights": 4, "labels": 5, "dense_weights": 8, "state": 9}
    given = list(_INPUTS)
    for name, value in changes.items():
        given[places[name]] = value
    return tuple(given)


def _step(
    loss: str, label: float, weight: float, dual: float, attrs: dict[str, Any], state: Any, deltas: Any
) -> Sample:
    inputs = _with(weights=[weight], labels=[label], state=[[dual, 0.0, 0.0, 0.0]])
    return told(inputs, [state, *deltas], {**_ATTRS, **attrs, "loss_type": loss})


_STEPS: Final = [
    _step(
        "logistic_loss",
        1.0,
        2.0,
        0.25,
        {"l1": 0.1, "l2": 0.5, "num_loss_partitions": 1},
        [[0.28450802, 1.361450553, -1.124670267, 2.0]],
        [[-0.276064277, 0.069016069, 0.0], [0.138032138, 0.0], [0.138032138, -0.069016069]],
    ),
    _step(
        "logistic_loss",
        0.0,
        1.0,
        0,
        {"l1": 0.0, "l2": 1.0, "num_loss_partitions": 3},
        [[-0.109016664, 0.705725312, 0.0, 1.0]],
        [[0.218033329, -0.054508332, 0.0], [-0.109016664, 0.0], [-0.109016664, 0.054508332]],
    ),
    _step(
        "squared_loss",
        1.5,
        1.0,
        0.5,
        {"l1": 0.2, "l2": 0.5, "num_loss_partitions": 2},
        [[0.531481504, 0.911249995, -0.625, 1.0]],
        [[-0.125925928, 0.031481482, 0.0], [0.062962964, 0.0], [0.062962964, -0.031481482]],
    ),
    _step(
        "hinge_loss",
        1.0,
        1.0,
        0.1,
        {"l1": 0.0, "l2": 2.0, "num_loss_partitions": 1},
        [[0.400000006, 0.975000024, -0.100000001, 1.0]],
        [[-0.300000012, 0.075000003, 0.0], [0.150000006, 0.0], [0.150000006, -0.075000003]],
    ),
    _step(
        "hinge_loss",
        0.0,
        1.0,
        -0.4,
        {"l1": 0.1, "l2": 2.0, "num_loss_partitions": 1},
        [[-0.715384603, 1.024999976, -0.400000006, 1.0]],
        [[0.315384626, -0.078846157, 0.0], [-0.157692313, 0.0], [-0.157692313, 0.078846157]],
    ),
    _step(
        "smooth_hinge_loss",
        1.0,
        1.5,
        0.3,
        {"l1": 0.1, "l2": 0.5, "num_loss_partitions": 1},
        [[0.33292684, 0.712968707, -0.382500023, 1.5]],
        [[-0.197560966, 0.049390242, 0.0], [0.098780483, 0.0], [0.098780483, -0.049390242]],
    ),
    _step(
        "poisson_loss",
        2.0,
        1.0,
        0.3,
        {"l1": 0.1, "l2": 0.5, "num_loss_partitions": 1},
        [[0.337192863, 0.975315094, -0.797931969, 1.0]],
        [[-0.14877145, 0.037192862, 0.0], [0.074385725, 0.0], [0.074385725, -0.037192862]],
    ),
]

_BAD: Final = [
    bad("InvalidArgumentError", "0.0 or 1.0", *_with(labels=[0.5]), **_ATTRS),
    bad(
        "InvalidArgumentError",
        "non-negative",
        *_with(labels=[-1.0]),
        **{**_ATTRS, "loss_type": "poisson_loss"},
    ),
    bad("InvalidArgumentError", "1 example labels", *_with(labels=[1.0, 0.0]), **_ATTRS),
    bad("InvalidArgumentError", "out of valid range: 7", *_with(features=[[3, 7], [2]]), **_ATTRS),
    bad("InvalidArgumentError", "Duplicate", *_with(features=[[3, 3], [2]]), **_ATTRS),
    bad("InvalidArgumentError", "mismatched", *_with(features=[[3], [2]]), **_ATTRS),
    bad("InvalidArgumentError", "parameters for: 2", *_with(dense_weights=[[0.3]]), **_ATTRS),
    bad("InvalidArgumentError", "example_state_data", *_with(state=[[0.0, 0.0]]), **_ATTRS),
    bad("InvalidArgumentError", "l2", *_INPUTS, **{**_ATTRS, "l2": 0.0}),
]


def _shrunk(*weights: Any, l1: float, l2: float) -> Any:
    return [np.sign(w) * np.maximum(np.abs(w) - l1 / l2, 0) for each in weights for w in each]


RECORDS: Final = [
    OpRecord(
        "SdcaFprint",
        [
            told(
                [
                    strings(
                        b"",
                        b"a",
                        b"abc",
                        b"0123456789",
                        b"abcdefghijklmnopq",
                        b"x" * 33,
                        b"y" * 127,
                        b"z" * 128,
                    )
                ],
                [
                    [
                        [4463240938071824939, 4374473821787594281],
                        [7969074168056553668, 5955762262185338209],
                        [4143508125394299908, -6879828354153669051],
                        [-3502378980390140299, 8028990795869858245],
                        [3444730536047683102, -2188671686086878512],
                        [6122478107064137100, 7597691624367158214],
                        [-8519467942028567351, 3331191252131303531],
                        [744477416931221756, -7103121300173684188],
                    ]
                ],
                {},
            ),
            told(
                [strings(bytes(range(256)) * 2 + b"tail")], [[[2915230044983570683, 448487411372602731]]], {}
            ),
        ],
        bad=[bad("InvalidArgumentError", "", b"a")],
    ),
    OpRecord("SdcaOptimizer", _STEPS, bad=_BAD, partial=True),
    OpRecord(
        "SdcaOptimizerV2",
        [*_STEPS, Sample(_STEPS[0].inputs, {**_STEPS[0].attrs, "adaptive": True}, _STEPS[0].expected)],
        bad=_BAD,
        partial=True,
    ),
    OpRecord(
        "SdcaShrinkL1",
        [sample([[0.5, -0.1, -2.0], [[0.2]]], num_features=2, l1=0.25, l2=1.0)],
        _shrunk,
        updates=True,
    ),
]
