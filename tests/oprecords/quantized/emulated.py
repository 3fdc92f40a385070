"""Quantisation and its opposite in one, for inference and for training."""

from __future__ import annotations

from typing import Final

from tests.oprecords.record import OpRecord, bad, told

# Quantisation and its opposite in one: numbers rounded to those that so many bits could tell.
#
# What comes out is what TensorFlow gave for these inputs; codes are equal, numbers but for their last bits.

_OF_EMULATED: Final = [
    OpRecord(
        "QuantizeAndDequantize",
        [
            told(
                [[-300, -1.5, -0.25, 0, 0.5, 1.5]],
                [[-128 / 127, -128 / 127, -32 / 127, 0, 64 / 127, 1]],
                {"T": "float", "range_given": True, "input_min": -1.0, "input_max": 1.0},
            ),
            told(
                [[0.0, 1.0, 2.0, 7.0]], [[0, 1, 2, 7]], {"T": "double", "num_bits": 3, "signed_input": False}
            ),
        ],
        bad=[bad("InvalidArgumentError", "num_bits", [1.0], T="float", num_bits=0)],
    ),
    OpRecord(
        "QuantizeAndDequantizeV2",
        [
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], -1.0, 1.0],
                [[-1.007874, -1.007874, -0.2519685, 0.0, 0.503937, 1.0, 1.0]],
                {
                    "signed_input": True,
                    "num_bits": 8,
                    "range_given": True,
                    "round_mode": "HALF_TO_EVEN",
                    "narrow_range": False,
                    "T": "float",
                },
            ),
            told(
                [[-1.5, -0.25, 0.0, 0.5, 1.5, 2.3], 0.0, 0.0],
                [[-1.5031496, -0.25354332, 0.0, 0.50708663, 1.5031496, 2.3]],
                {"signed_input": True, "num_bits": 8, "range_given": False, "T": "float"},
            ),
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], 0.0, 2.0],
                [[0.0, 0.0, 0.0, 0.0, 0.5714286, 1.4285715, 2.0]],
                {
                    "signed_input": False,
                    "num_bits": 3,
                    "range_given": True,
                    "round_mode": "HALF_UP",
                    "narrow_range": True,
                    "T": "float",
                },
            ),
            told(
                [[-1.5, -0.25, 0.0, 0.5, 1.5, 2.3], 0.0, 0.0],
                [[-1.6428571, -0.3285714, 0.0, 0.6571428, 1.6428571, 2.3]],
                {"signed_input": False, "num_bits": 3, "range_given": False, "T": "float"},
            ),
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], -3.0, 0.5],
                [[-3.0, -1.0, 0.0, 0.0, 1.0, 2.0, 2.0]],
                {
                    "signed_input": True,
                    "num_bits": 3,
                    "range_given": True,
                    "round_mode": "HALF_UP",
                    "narrow_range": True,
                    "T": "double",
                },
            ),
            told(
                [[-1.5, -0.25, 0.0, 0.5, 1.5, 2.3], 0.0, 0.0],
                [[-1.5333333333333332, -0.0, 0.0, 0.7666666666666666, 1.5333333333333332, 2.3]],
                {"signed_input": True, "num_bits": 3, "range_given": False, "T": "double"},
            ),
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], -3.0, 0.5],
                [[-3.0, -1.5, -0.2578125, 0.0, 0.4921875, 1.5, 2.296875]],
                {
                    "signed_input": True,
                    "num_bits": 8,
                    "range_given": True,
                    "round_mode": "HALF_TO_EVEN",
                    "narrow_range": False,
                    "T": "double",
                },
            ),
            told(
                [[-1.5, -0.25, 0.0, 0.5, 1.5, 2.3], 0.0, 0.0],
                [
                    [
                        -1.5031496062992127,
                        -0.25354330708661416,
                        0.0,
                        0.5070866141732283,
                        1.5031496062992127,
                        2.3,
                    ]
                ],
                {"signed_input": True, "num_bits": 8, "range_given": False, "T": "double"},
            ),
        ],
        bad=[
            bad("InvalidArgumentError", "range", [1.0], 1.0, 0.0, T="float", range_given=True),
            bad("InvalidArgumentError", "num_bits", [1.0], 0.0, 1.0, T="float", num_bits=64),
        ],
    ),
    OpRecord(
        "QuantizeAndDequantizeV3",
        [
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], -1.0, 1.0, 8],
                [[-1.007874, -1.007874, -0.2519685, 0.0, 0.503937, 1.0, 1.0]],
                {"signed_input": True, "range_given": True, "T": "float"},
            ),
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], 0.0, 2.0, 3],
                [[0.0, 0.0, 0.0, 0.0, 0.5714286, 1.4285715, 2.0]],
                {"signed_input": False, "range_given": True, "T": "float"},
            ),
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], -3.0, 0.5, 3],
                [[-3.0, -1.5, -0.0, 0.0, 0.75, 1.5, 2.25]],
                {"signed_input": True, "range_given": True, "T": "double"},
            ),
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], -3.0, 0.5, 8],
                [[-3.0, -1.5, -0.2578125, 0.0, 0.4921875, 1.5, 2.296875]],
                {"signed_input": True, "range_given": True, "T": "double"},
            ),
        ],
        bad=[
            bad("InvalidArgumentError", "num_bits", [1.0], 0.0, 1.0, 0, T="float"),
        ],
    ),
    OpRecord(
        "QuantizeAndDequantizeV4",
        [
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], -1.0, 1.0],
                [[-1.007874, -1.007874, -0.2519685, 0.0, 0.503937, 1.0, 1.0]],
                {
                    "signed_input": True,
                    "num_bits": 8,
                    "range_given": True,
                    "round_mode": "HALF_TO_EVEN",
                    "T": "float",
                },
            ),
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], 0.0, 2.0],
                [[0.0, 0.0, 0.0, 0.0, 0.5714286, 1.4285715, 2.0]],
                {
                    "signed_input": False,
                    "num_bits": 3,
                    "range_given": True,
                    "round_mode": "HALF_UP",
                    "T": "float",
                },
            ),
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], -3.0, 0.5],
                [[-3.0, -1.5, 0.0, 0.0, 0.75, 1.5, 2.25]],
                {
                    "signed_input": True,
                    "num_bits": 3,
                    "range_given": True,
                    "round_mode": "HALF_UP",
                    "T": "double",
                },
            ),
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], -3.0, 0.5],
                [[-3.0, -1.5, -0.2578125, 0.0, 0.4921875, 1.5, 2.296875]],
                {
                    "signed_input": True,
                    "num_bits": 8,
                    "range_given": True,
                    "round_mode": "HALF_TO_EVEN",
                    "T": "double",
                },
            ),
            told(
                [[[-3.0, -0.5, 2.0], [0.3, 7.0, -1.0]], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
                [[[-3.0, -0.496063, 2.0], [0.3046875, 7.0, -1.007874]]],
                {"axis": 1, "T": "float"},
            ),
        ],
        bad=[
            bad("InvalidArgumentError", "input_min", [1.0], [0.0], 1.0, T="float", range_given=True),
        ],
    ),
    OpRecord(
        "QuantizeAndDequantizeV4Grad",
        [
            told(
                [
                    [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]],
                    [[-3.0, -0.5, 2.0], [0.3, 7.0, -1.0]],
                    [-1.0, -2.0, -3.0],
                    [1.0, 1.0, 2.0],
                ],
                [[[0.0, 2.0, 3.0], [4.0, 0.0, 6.0]], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
                {"axis": 1, "T": "float"},
            ),
            told(
                [[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[-3.0, -0.5, 2.0], [0.3, 7.0, -1.0]], -1.0, 2.0],
                [[[0.0, 2.0, 3.0], [4.0, 0.0, 6.0]], 0.0, 0.0],
                {"T": "float"},
            ),
        ],
        differentiable=True,
        bad=[
            bad("InvalidArgumentError", "", [1.0], [1.0, 2.0], 0.0, 1.0, T="float"),
        ],
    ),
]


# Quantisation and its opposite in one, for training, with gradients.
#
# What comes out is what TensorFlow gave for these inputs; codes are equal, numbers but for their last bits.

_OF_FAKE: Final = [
    OpRecord(
        "FakeQuantWithMinMaxArgs",
        [
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3]],
                [[-6.0235295, -1.5058824, -0.23529412, 0.0, 0.5176471, 1.5058824, 2.3058825]],
                {"min": -6.0, "max": 6.0},
            ),
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3]],
                [[0.0, 0.0, 0.0, 0.0, 0.34, 1.36, 2.38]],
                {"min": -0.1, "max": 5.0, "num_bits": 4},
            ),
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3]],
                [[0.0, 0.0, 0.0, 0.0, 0.64285713, 1.6071428, 2.25]],
                {"min": 0.5, "max": 5.0, "num_bits": 4, "narrow_range": True},
            ),
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3]],
                [[-4.0, -1.5058825, -0.2509804, 0.0, 0.0, 0.0, 0.0]],
                {"min": -5.0, "max": -1.0},
            ),
        ],
        bad=[
            bad("InvalidArgumentError", "1.0 >= 0.0", [1.0], min=1.0, max=0.0),
            bad("InvalidArgumentError", "num_bits", [1.0], num_bits=17),
        ],
    ),
    OpRecord(
        "FakeQuantWithMinMaxArgsGradient",
        [
            told(
                [[1.0, -2.0, 3.0, 0.5, -0.25, 2.0, 4.0], [-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3]],
                [[0.0, -2.0, 3.0, 0.5, -0.25, 2.0, 4.0]],
                {"min": -6.0, "max": 6.0},
            ),
            told(
                [[1.0, -2.0, 3.0, 0.5, -0.25, 2.0, 4.0], [-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3]],
                [[0.0, -0.0, 0.0, 0.5, -0.25, 2.0, 4.0]],
                {"min": -0.1, "max": 5.0, "num_bits": 4},
            ),
            told(
                [[1.0, -2.0, 3.0, 0.5, -0.25, 2.0, 4.0], [-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3]],
                [[0.0, -0.0, 0.0, 0.5, -0.25, 2.0, 4.0]],
                {"min": 0.5, "max": 5.0, "num_bits": 4, "narrow_range": True},
            ),
            told(
                [[1.0, -2.0, 3.0, 0.5, -0.25, 2.0, 4.0], [-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3]],
                [[0.0, -2.0, 3.0, 0.5, -0.0, 0.0, 0.0]],
                {"min": -5.0, "max": -1.0},
            ),
        ],
        differentiable=True,
        bad=[
            bad("InvalidArgumentError", "", [1.0], [1.0, 2.0]),
        ],
    ),
    OpRecord(
        "FakeQuantWithMinMaxVars",
        [
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], -6.0, 6.0],
                [[-6.0235295, -1.5058824, -0.23529412, 0.0, 0.5176471, 1.5058824, 2.3058825]],
                {},
            ),
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], -0.1, 5.0],
                [[0.0, 0.0, 0.0, 0.0, 0.34, 1.36, 2.38]],
                {"num_bits": 4},
            ),
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], 0.5, 5.0],
                [[0.0, 0.0, 0.0, 0.0, 0.64285713, 1.6071428, 2.25]],
                {"num_bits": 4, "narrow_range": True},
            ),
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], -5.0, -1.0],
                [[-4.0, -1.5058825, -0.2509804, 0.0, 0.0, 0.0, 0.0]],
                {},
            ),
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], 0.0, 0.0],
                [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]],
                {},
            ),
        ],
        bad=[
            bad("InvalidArgumentError", "num_bits", [1.0], 0.0, 1.0, num_bits=1),
            bad("InvalidArgumentError", "", [1.0], [0.0], 1.0),
        ],
    ),
    OpRecord(
        "FakeQuantWithMinMaxVarsGradient",
        [
            told(
                [
                    [1.0, -2.0, 3.0, 0.5, -0.25, 2.0, 4.0],
                    [-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3],
                    -6.0,
                    6.0,
                ],
                [[0.0, -2.0, 3.0, 0.5, -0.25, 2.0, 4.0], 1.0, 0.0],
                {},
            ),
            told(
                [
                    [1.0, -2.0, 3.0, 0.5, -0.25, 2.0, 4.0],
                    [-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3],
                    -0.1,
                    5.0,
                ],
                [[0.0, -0.0, 0.0, 0.5, -0.25, 2.0, 4.0], 2.0, 0.0],
                {"num_bits": 4},
            ),
            told(
                [[1.0, -2.0, 3.0, 0.5, -0.25, 2.0, 4.0], [-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], 0.5, 5.0],
                [[0.0, -0.0, 0.0, 0.5, -0.25, 2.0, 4.0], 2.0, 0.0],
                {"num_bits": 4, "narrow_range": True},
            ),
            told(
                [
                    [1.0, -2.0, 3.0, 0.5, -0.25, 2.0, 4.0],
                    [-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3],
                    -5.0,
                    -1.0,
                ],
                [[0.0, -2.0, 3.0, 0.5, -0.0, 0.0, 0.0], 1.0, 5.75],
                {},
            ),
            told(
                [[1.0, -2.0, 3.0, 0.5, -0.25, 2.0, 4.0], [-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], 0.0, 0.0],
                [[1.0, -2.0, 3.0, 0.5, -0.25, 2.0, 4.0], 0.0, 0.0],
                {},
            ),
        ],
        differentiable=True,
        bad=[
            bad("InvalidArgumentError", "", [1.0], [1.0, 2.0], 0.0, 1.0),
        ],
    ),
    OpRecord(
        "FakeQuantWithMinMaxVarsPerChannel",
        [
            told(
                [[[-3.0, -0.5, 2.0], [0.3, 7.0, -1.0]], [-1.0, 0.0, 0.0], [1.0, 5.0, 0.0]],
                [[[-0.9960785, 0.0, 0.0], [0.29803923, 5.0, 0.0]]],
                {},
            ),
        ],
        bad=[
            bad("InvalidArgumentError", "", [1.0, 2.0], [0.0], [1.0]),
        ],
    ),
    OpRecord(
        "FakeQuantWithMinMaxVarsPerChannelGradient",
        [
            told(
                [
                    [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]],
                    [[-3.0, -0.5, 2.0], [0.3, 7.0, -1.0]],
                    [-1.0, 0.0, 0.0],
                    [1.0, 5.0, 0.0],
                ],
                [[[0.0, 0.0, 3.0], [4.0, 0.0, 6.0]], [1.0, 2.0, 0.0], [0.0, 5.0, 0.0]],
                {},
            ),
        ],
        differentiable=True,
        bad=[
            bad("InvalidArgumentError", "", [[1.0, 2.0]], [[1.0, 2.0]], [0.0], [1.0]),
        ],
    ),
]


RECORDS: Final = [*_OF_EMULATED, *_OF_FAKE]
