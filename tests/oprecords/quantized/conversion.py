"""Numbers to quantised ones and back, and the ranges that this needs.

What comes out is what TensorFlow gave for these inputs; codes are equal, numbers but for their last bits.
"""

from __future__ import annotations

from typing import Final

from tests.oprecords.record import OpRecord, bad, grid, told

RECORDS: Final = [
    OpRecord(
        "QuantizeV2",
        [
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], -1.5, 2.5],
                [[0, 0, 80, 96, 128, 191, 242], -1.5, 2.5],
                {"T": "quint8", "mode": "MIN_COMBINED", "round_mode": "HALF_AWAY_FROM_ZERO"},
            ),
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], 1.0, 3.0],
                [[-128, -128, -128, -128, -86, -1, 68], 0.0, 3.0],
                {"T": "qint8", "mode": "MIN_COMBINED", "round_mode": "HALF_AWAY_FROM_ZERO"},
            ),
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], -3.0, -1.0],
                [[0, 127, 234, 255, 255, 255, 255], -3.0, 0.0],
                {"T": "quint8", "mode": "MIN_FIRST", "round_mode": "HALF_AWAY_FROM_ZERO"},
            ),
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], -1.5, 2.5],
                [[-32768, -32768, -12288, -8192, 0, 16384, 29491], -1.5, 2.5],
                {"T": "qint16", "mode": "MIN_FIRST", "round_mode": "HALF_AWAY_FROM_ZERO"},
            ),
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], 1.0, 3.0],
                [[0, 0, 0, 0, 42, 128, 196], 0.0, 3.0],
                {"T": "quint8", "mode": "SCALED", "round_mode": "HALF_TO_EVEN"},
            ),
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], 1.0, 3.0],
                [[0, 0, 0, 0, 43, 128, 196], 0.0, 3.0],
                {"T": "quint8", "mode": "SCALED", "round_mode": "HALF_AWAY_FROM_ZERO"},
            ),
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], -1.5, 2.5],
                [[-128, -76, -13, 0, 25, 76, 117], -2.519685, 2.5],
                {"T": "qint8", "mode": "SCALED", "round_mode": "HALF_AWAY_FROM_ZERO"},
            ),
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], 0.0, 0.0],
                [[-128, -128, -128, 0, 127, 127, 127], -0.01007874, 0.01],
                {"T": "qint8", "mode": "SCALED", "round_mode": "HALF_AWAY_FROM_ZERO"},
            ),
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], -1.5, 2.5],
                [[-2147483648, -1288490240, -214748368, 0, 429496736, 1288490240, 1975684992], -2.5, 2.5],
                {"T": "qint32", "mode": "SCALED", "round_mode": "HALF_AWAY_FROM_ZERO"},
            ),
            told(
                [[-300.0, -1.5, -0.25, 0.0, 0.5, 1.5, 2.3], -1.5, 2.5],
                [[0, 0, 20480, 24576, 32768, 49151, 62258], -1.5, 2.5],
                {"T": "quint16", "mode": "MIN_COMBINED", "round_mode": "HALF_AWAY_FROM_ZERO"},
            ),
            told(
                [[[-1.5, 0.25], [0.7, 3.0]], [-1.0, -2.0], [3.0, 1.0]],
                [[[-64, 16], [30, 127]], [-3.0, -2.0], [3.0, 2.0]],
                {
                    "T": "qint8",
                    "mode": "SCALED",
                    "axis": 1,
                    "narrow_range": True,
                    "round_mode": "HALF_TO_EVEN",
                },
            ),
            told(
                [[[-1.5, 0.25], [0.7, 3.0]], [-1.0, -2.0], [3.0, 1.0]],
                [[[0, 80], [230, 255]], [-1.0, -2.0], [3.0, 1.0]],
                {"T": "quint8", "mode": "MIN_COMBINED", "axis": 0},
            ),
        ],
        bad=[
            bad("InvalidArgumentError", "larger", [1.0], 2.0, 1.0, T="qint8"),
            bad(
                "InvalidArgumentError",
                "only supported",
                [1.0],
                0.0,
                1.0,
                T="qint8",
                round_mode="HALF_TO_EVEN",
            ),
            bad(
                "UnimplementedError",
                "MIN_FIRST",
                [[1.0, 2.0]],
                [0.0, 0.0],
                [1.0, 1.0],
                T="qint8",
                mode="MIN_FIRST",
                axis=1,
            ),
            bad("InvalidArgumentError", "-2", [[1.0]], 0.0, 1.0, T="qint8", axis=-2),
            bad("InvalidArgumentError", "2", [[1.0, 2.0]], [0.0], [1.0], T="qint8", axis=1),
        ],
    ),
    OpRecord(
        "Dequantize",
        [
            told(
                [[0, 1, 100, 255], -1.5, 2.5],
                [[-1.5, -1.4843137, 0.068627596, 2.5]],
                {"mode": "MIN_COMBINED", "T": "quint8"},
            ),
            told(
                [[-128, -1, 100, 127], 1.0, 3.0],
                [[1.0, 1.9960785, 2.7882354, 3.0]],
                {"mode": "MIN_COMBINED", "T": "qint8"},
            ),
            told(
                [[0, 1, 100, 255], -1.5, 2.5],
                [[-1.5058825, -1.4901962, 0.062745094, 2.4941175]],
                {"mode": "MIN_FIRST", "T": "quint8"},
            ),
            told(
                [[-128, -1, 100, 127], 1.0, 3.0],
                [[0.9960784, 1.9921569, 2.7843137, 2.9960785]],
                {"mode": "MIN_FIRST", "T": "qint8"},
            ),
            told(
                [[0, 1, 100, 255], -1.5, 2.5],
                [[0.0, 0.009803922, 0.9803922, 2.5]],
                {"mode": "SCALED", "T": "quint8"},
            ),
            told(
                [[-128, -1, 100, 127], 1.0, 3.0],
                [[-3.023622, -0.023622047, 2.3622048, 3.0]],
                {"mode": "SCALED", "T": "qint8"},
            ),
            told(
                [[-2147483648, 5, 1073741824], -1.0, 3.0],
                [[-1.0, 1.0, 2.0]],
                {"mode": "MIN_FIRST", "T": "qint32"},
            ),
            told(
                [[[-50, -30], [10, 30]], [-1.0, -2.0], [1.0, 3.0]],
                [[[-0.39370078, -0.70866144], [0.07874016, 0.70866144]]],
                {"axis": 1, "mode": "SCALED", "narrow_range": True, "T": "qint8"},
            ),
        ],
        bad=[
            bad("InvalidArgumentError", "2", [[1, 2]], [0.0], [1.0], T="quint8", axis=1),
            bad("InvalidArgumentError", "axis", [1], 0.0, 1.0, T="quint8", axis=1),
            bad(
                "UnimplementedError",
                "MIN_FIRST",
                [[1, 2]],
                [0.0, 0.0],
                [1.0, 1.0],
                T="quint8",
                mode="MIN_FIRST",
                axis=1,
            ),
            bad(
                "InvalidArgumentError", "bfloat16", [1], 0.0, 1.0, T="quint8", mode="SCALED", dtype="bfloat16"
            ),
        ],
    ),
    OpRecord(
        "QuantizeDownAndShrinkRange",
        [
            told(
                [[-1073741824, 5, 1048576, 536870912], -7.0, 9.0],
                [[0, 170, 170, 255], -3.0, 3.0],
                {"out_type": "quint8", "Tinput": "qint32"},
            ),
            told([[], -7.0, 9.0], [[], 0.0, -7.0], {"out_type": "quint8", "Tinput": "qint32"}),
        ],
    ),
    OpRecord(
        "RequantizationRange",
        [
            told([[-1073741824, 5, 1048576, 536870912], -7.0, 9.0], [-3.0, 3.0], {"Tinput": "qint32"}),
            told([[2123947342], -7.0, 9.0], [0.0, 8.912321], {"Tinput": "qint32"}),
        ],
    ),
    OpRecord(
        "Requantize",
        [
            told(
                [[-1073741824, 5, 1048576, 536870912], -7.0, 9.0, -1.0, 2.0],
                [[0, 170, 170, 255], -1.0, 2.0],
                {"out_type": "quint8", "Tinput": "qint32"},
            ),
            told(
                [[-1073741824, 5, 1048576, 536870912], -7.0, 9.0, 0.0, 0.0],
                [[0, 0, 0, 0], 0.0, 0.0],
                {"out_type": "quint8", "Tinput": "qint32"},
            ),
            told(
                [[-1073741824, 5, 1048576, 536870912], -7.0, 9.0, -1.0, 2.0],
                [[-128, 42, 42, 127], -1.0, 2.0],
                {"out_type": "qint8", "Tinput": "qint32"},
            ),
        ],
        bad=[
            bad(
                "InvalidArgumentError",
                "<= 0, but got 1",
                [1],
                0.0,
                1.0,
                1.0,
                2.0,
                Tinput="qint32",
                out_type="quint8",
            ),
            bad("InvalidArgumentError", "-2", [1], 0.0, 1.0, -1.0, -2.0, Tinput="qint32", out_type="quint8"),
        ],
    ),
    OpRecord(
        "RequantizationRangePerChannel",
        [
            told(
                [grid([1, 1, 2, 2], "1 -1073741824 7 536870912"), [-7.0, -1.0], [9.0, 2.0]],
                [-1.0, 1.0],
                {"clip_value_max": 3.0, "T": "qint32"},
            ),
            told(
                [grid([1, 1, 2, 2], "1 1073741824 7 536870912"), [-7.0, -1.0], [9.0, 2.0]],
                [0.0, 0.5],
                {"clip_value_max": 0.5, "T": "qint32"},
            ),
        ],
        bad=[
            bad(
                "InvalidArgumentError",
                "4-dimensional",
                [[1, 2]],
                [0.0],
                [1.0],
                T="qint32",
                clip_value_max=1.0,
            ),
        ],
    ),
    OpRecord(
        "RequantizePerChannel",
        [
            told(
                [grid([1, 1, 2, 2], "1 -1073741824 7 536870912"), [-7.0, -1.0], [9.0, 2.0], -1.0, 1.5],
                [grid([1, 1, 2, 2], "0 -85 0 42"), -1.0, 1.5],
                {"out_type": "qint8", "T": "qint32"},
            ),
            told(
                [grid([1, 1, 2, 2], "1 -1073741824 7 536870912"), [-7.0, -1.0], [9.0, 2.0], 0.0, 1.5],
                [grid([1, 1, 2, 2], "0 0 0 85"), 0.0, 1.5],
                {"out_type": "quint8", "T": "qint32"},
            ),
        ],
        bad=[
            bad("InvalidArgumentError", "2 channels", [[[[1, 2]]]], [0.0], [1.0], 0.0, 1.0, T="qint32"),
            bad("InvalidArgumentError", "4-dim", [[1, 2]], [0.0, 0.0], [1.0, 1.0], 0.0, 1.0, T="qint32"),
        ],
    ),
]
