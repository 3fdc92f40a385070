"""Convolutions of codes: what TensorFlow 2.21 gave."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.ir.proto import UniformQuantizedConvolutionDimensionNumbersAttr
from tests.oprecords.record import OpRecord, bad, told

_BYTES: Final[dict[str, int]] = {
    f"{name}_quantization_{end}_val": value
    for name in ("lhs", "rhs")
    for end, value in (("min", -128), ("max", 127))
}
_CODES: Final[dict[str, Any]] = {
    "Tin": "qint8",
    "Tout": "qint32",
    **_BYTES,
    "output_quantization_min_val": -(2**31),
    "output_quantization_max_val": 2**31 - 1,
}
_HYBRID: Final[dict[str, Any]] = {
    "Tlhs": "float32",
    "Trhs": "qint8",
    "Tout": "float32",
    "rhs_quantization_min_val": -128,
    "rhs_quantization_max_val": 127,
}


def _numbers(lhs: list[int], rhs: list[int], output: list[int]) -> bytes:
    """Serialize the places of batch, features and spatial dimensions; of a kernel, output features first."""
    return UniformQuantizedConvolutionDimensionNumbersAttr(
        input_batch_dimension=lhs[0],
        input_feature_dimension=lhs[1],
        input_spatial_dimensions=lhs[2:],
        kernel_output_feature_dimension=rhs[0],
        kernel_input_feature_dimension=rhs[1],
        kernel_spatial_dimensions=rhs[2:],
        output_batch_dimension=output[0],
        output_feature_dimension=output[1],
        output_spatial_dimensions=output[2:],
    ).SerializeToString()


_LINE: Final = [[[1, 2, 3, 4]]]
_PAIR: Final = [[[1, -1]]]
_PLAIN: Final = (0.5, 0, 0.5, 0, 1.0, 0)


def _refused(message: str, lhs: Any = _LINE, rhs: Any = _PAIR, scales: Any = _PLAIN, **attrs: Any) -> Any:
    return bad("InvalidArgumentError", message, lhs, rhs, *scales, **{**_CODES, "padding": "VALID", **attrs})


RECORDS: Final = [
    OpRecord(
        "UniformQuantizedConvolution",
        [
            told(
                (
                    [[[-113, 76], [-58, 64], [-105, 64], [0, -42], [118, 122]]],
                    [[[-95]]],
                    1.8543423,
                    -20,
                    [1.2671869],
                    [-2],
                    [1.2366037],
                    [-15],
                ),
                [[[[16420, -16980], [6700, -14859], [15006, -14859], [-3549, 3873], [-24402, -25109]]]],
                {
                    **_CODES,
                    "padding": "SAME",
                    "rhs_dilation": [2],
                    "rhs_quantization_axis": 1,
                    "output_quantization_axis": 0,
                    "dimension_numbers": _numbers([2, 0, 1], [1, 0, 2], [2, 0, 1]),
                },
            ),
            told(
                (
                    [[[12], [-79]], [[-33], [0]], [[-33], [-95]], [[-80], [32]]],
                    [[[-122], [14]], [[-26], [105]]],
                    1.9516046,
                    -19,
                    [0.53582853, 1.3896544],
                    [18, -10],
                    0.4047305,
                    -20,
                ),
                [[[[-10613], [-57085]], [[4848], [45821]]]],
                {
                    **_CODES,
                    "padding": "VALID",
                    "window_strides": [1],
                    "lhs_dilation": [3],
                    "batch_group_count": 2,
                    "rhs_quantization_axis": 0,
                },
            ),
            told(
                (
                    [[[[82]], [[99]]], [[[-39]], [[-85]]], [[[-3]], [[-90]]]],
                    [[[[-104, -122], [55, 104], [-121, 71]]], [[[21, -106], [103, 73], [17, 106]]]],
                    0.36651915,
                    -4,
                    1.420184,
                    -16,
                    0.29178917,
                    11,
                ),
                [[[[[6074], [22428]], [[-15448], [-48103]]]]],
                {
                    **_CODES,
                    "padding": "EXPLICIT",
                    "explicit_padding": [1, 0, 2, 0],
                    "window_strides": [2, 2],
                    "rhs_dilation": [2, 1],
                    "dimension_numbers": _numbers([3, 2, 1, 0], [3, 1, 0, 2], [0, 2, 3, 1]),
                },
            ),
            told(
                (
                    [[[[-99, 21], [43, 118], [-69, 115]]]],
                    [[[[61, -75]]]],
                    1.1443744,
                    -12,
                    [0.83243459],
                    [19],
                    1.7174958,
                    10,
                ),
                [[[[[10, -2017], [10, 1291], [10, -1318], [10, 10]]]]],
                {
                    **_CODES,
                    "padding": "EXPLICIT",
                    "explicit_padding": [0, 1, 3, 1],
                    "window_strides": [1, 3],
                    "rhs_dilation": [3, 2],
                    "rhs_quantization_axis": 0,
                },
            ),
            told(
                (
                    [[[[12]], [[93]], [[-42]], [[33]], [[58]]], [[[96]], [[-83]], [[33]], [[-23]], [[56]]]],
                    [[[[-33, 12]]], [[[-98, -126]]]],
                    1.8339993,
                    3,
                    [1.4793301, 1.8584571],
                    [13, -4],
                    [1.9715323, 0.6324563],
                    [5, -14],
                ),
                [[[[[-565, -1894]]], [[[8005, -2256]]]]],
                {
                    **_CODES,
                    "padding": "SAME",
                    "window_strides": [3, 1],
                    "lhs_dilation": [1, 1],
                    "rhs_dilation": [1, 1],
                    "feature_group_count": 2,
                    "rhs_quantization_axis": 3,
                    "output_quantization_axis": 0,
                    "dimension_numbers": _numbers([2, 0, 1, 3], [3, 2, 1, 0], [1, 0, 3, 2]),
                },
            ),
        ],
        bad=[
            _refused("feature_group_count (2)", feature_group_count=2),
            _refused("batch_group_count", batch_group_count=0),
            _refused("1 input features", rhs=[[[1, -1], [2, 3]]]),
            _refused("rank", lhs=[[[[1]]]]),
            _refused("window_strides", window_strides=[1, 1]),
            _refused("lhs_dilation must be at least 1", lhs_dilation=[0]),
            _refused("must be empty where padding is VALID", explicit_padding=[1, 1]),
            _refused("two numbers", padding="EXPLICIT"),
            _refused("not be negative", padding="EXPLICIT", explicit_padding=[-1, 0]),
            _refused("reaches over 6 places", rhs=[[[1, 1]]], rhs_dilation=[5]),
            _refused("one meaning", dimension_numbers=b"\x10\x01"),
            _refused("no UniformQuantizedConvolutionDimensionNumbersAttr", dimension_numbers=b"\xff"),
            _refused("EXPLICIT, SAME or VALID", padding="FULL"),
            _refused("lhs_quantization_axis", lhs_quantization_axis=0),
            _refused("output features (0)", scales=(0.5, 0, [0.5], [0], 1.0, 0), rhs_quantization_axis=1),
            _refused(
                "where rhs_quantization_axis is",
                scales=(0.5, 0, 0.5, 0, [1.0], [0]),
                output_quantization_axis=1,
            ),
        ],
        only=[{"Tin": "qint8", "Tout": "qint32"}],
    ),
    OpRecord(
        "UniformQuantizedConvolutionHybrid",
        [
            told(
                (
                    [
                        [[2.7143, -5.4286], [4.2857, -9.8571], [0.1429, -14.8571], [-1.8571, 7.2857]],
                        [[3.5714, -9.4286], [1.8571, -17.7143], [4.0, 3.8571], [10.7143, -10.5714]],
                    ],
                    [[[-124, -79, 59], [78, -98, 36]], [[-117, 65, 81], [-70, 115, -56]]],
                    [0.41855958, 0.73468298],
                    [-4, -9],
                ),
                [[[[-396.375244140625, 806.9017333984375], [522.1325073242188, -2492.231689453125]]]],
                {
                    **_HYBRID,
                    "padding": "SAME",
                    "window_strides": [3],
                    "feature_group_count": 2,
                    "rhs_quantization_axis": 1,
                    "dimension_numbers": _numbers([2, 1, 0], [1, 0, 2], [1, 2, 0]),
                },
            ),
            told(
                (
                    [
                        [[-4.0], [-17.4286], [-13.7143], [-2.0], [-1.5714]],
                        [[-4.7143], [17.5714], [-0.8571], [10.7143], [-13.7143]],
                    ],
                    [[[-33]], [[-72]]],
                    [0.15967011, 1.9261005],
                    [-6, 1],
                ),
                [
                    [
                        [[17.38445472717285, 655.528076171875]],
                        [[75.13619232177734, -2466.85546875]],
                        [[59.22500228881836, 120.75517272949219]],
                        [[8.544900894165039, -1500.814208984375]],
                        [[6.7769904136657715, 1932.082763671875]],
                    ]
                ],
                {
                    **_HYBRID,
                    "padding": "VALID",
                    "batch_group_count": 2,
                    "rhs_quantization_axis": 0,
                    "dimension_numbers": _numbers([0, 2, 1], [0, 1, 2], [1, 2, 0]),
                },
            ),
            told(
                (np.zeros((1, 1, 0)), [[[1]], [[2]]], 0.5, 3),
                [[[[0.0, 0.0], [0.0, 0.0]]]],
                {**_HYBRID, "padding": "EXPLICIT", "explicit_padding": [1, 1]},
            ),
        ],
        bad=[
            bad("InvalidArgumentError", "rank", [[[[1.0]]]], _PAIR, 0.5, 0, **_HYBRID, padding="VALID"),
            bad(
                *("InvalidArgumentError", "output features (0)", _LINE, _PAIR, [0.5, 0.5], [0, 0]),
                **{**_HYBRID, "padding": "VALID", "rhs_quantization_axis": 2},
            ),
        ],
        only=[{"Tlhs": "float32", "Trhs": "qint8", "Tout": "float32"}],
    ),
]
