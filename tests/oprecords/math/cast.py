"""Conversions between types, and the check for NaN and infinity."""

from __future__ import annotations

from typing import Final

import numpy as np

from tests.oprecords.record import FLOATS, NUMBERS, SIGNED, OpRecord, bad, sample

_NOTHING = np.zeros((0, 4))

RECORDS: Final = [
    OpRecord(
        "CheckNumerics",
        [sample([1.0, -2.0], message="m"), sample(_NOTHING, message="m")],
        lambda x: x,
        [
            bad("InvalidArgumentError", "here : Tensor had NaN", [1.0, np.nan], message="here"),
            bad("InvalidArgumentError", "Inf", [1.0, np.inf], message="here"),
        ],
        differentiable=True,
    ),
    OpRecord(
        "CheckNumericsV2",
        [sample([1.0, -2.0], message="m"), sample(_NOTHING, message="m")],
        lambda x: x,
        [
            bad("InvalidArgumentError", "here : Tensor had NaN values", [1.0, np.nan], message="here"),
            bad("InvalidArgumentError", "had -Inf and NaN values", [-np.inf, np.nan], message="here"),
            bad("InvalidArgumentError", "-Inf, +Inf, and NaN", [np.inf, -np.inf, np.nan], message="here"),
        ],
        differentiable=True,
    ),
    OpRecord(
        "Bitcast",
        [
            sample([[1.0, -2.0]], T="float32", type="int32"),
            sample([1.0], T="float64", type="float32"),
            sample([1.0], T="complex128", type="float64"),
            sample([1.0, 2.0], T="float64", type="complex128"),
        ],
        lambda x: x,
        only=[{"T": "float32", "type": "int32"}],
        check=lambda outputs, inputs: np.testing.assert_equal(outputs[0].tobytes(), inputs[0].tobytes()),
        bad=[bad("InvalidArgumentError", "", [1, 2, 3], T="int32", type="float64")],
        differentiable=True,
    ),
    OpRecord(
        "Cast",
        [
            sample([[-3.7, -1.0, 0.0], [0.5, 1.0, 100.25]]),
            sample(2.5),
            sample(np.zeros((0, 4))),
            sample([True, False], SrcT="bool", DstT="float32"),
            sample([0.0, 0.5], SrcT="float32", DstT="bool"),
        ],
        lambda x: x.real,
        dtypes={"SrcT": NUMBERS, "DstT": (*FLOATS, *SIGNED)},
        differentiable=True,
    ),
]
