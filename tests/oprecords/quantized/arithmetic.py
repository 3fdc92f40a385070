"""Sums, products and concatenations of quantised tensors.

What comes out is what TensorFlow gave for these inputs; codes are equal, numbers but for their last bits.
"""

from __future__ import annotations

from typing import Final

from tests.oprecords.record import OpRecord, bad, told

RECORDS: Final = [
    OpRecord(
        "QuantizedAdd",
        [
            told(
                [[[0, 128], [255, 3]], [3, 200], -1.0, 1.0, -2.0, 3.0],
                [[[-128332, 84076], [-41122, 41326]], -49152.0, 49152.0],
                {"Toutput": "qint32", "T1": "quint8", "T2": "quint8"},
            ),
            told(
                [[0, 128, 255], 7, -1.0, 1.0, -2.0, 3.0],
                [[-124904, -81128, -37694], -49152.0, 49152.0],
                {"Toutput": "qint32", "T1": "quint8", "T2": "quint8"},
            ),
            told(
                [[[0, 128], [255, 3]], [3, 200], 1.0, 3.0, -2.0, -1.0],
                [[[-43349, 34242], [44116, -8633]], -49152.0, 49152.0],
                {"Toutput": "qint32", "T1": "quint8", "T2": "quint8"},
            ),
            told(
                [[0, 128, 255], 7, 1.0, 3.0, -2.0, -1.0],
                [[-42663, 1241, 44802], -49152.0, 49152.0],
                {"Toutput": "qint32", "T1": "quint8", "T2": "quint8"},
            ),
        ],
        bad=[
            bad(
                "InvalidArgumentError",
                "max_x",
                [1],
                [2],
                1.0,
                0.0,
                0.0,
                1.0,
                T1="quint8",
                T2="quint8",
                Toutput="qint32",
            ),
            bad(
                "InvalidArgumentError",
                "",
                [1, 2, 3],
                [2, 3],
                0.0,
                1.0,
                0.0,
                1.0,
                T1="quint8",
                T2="quint8",
                Toutput="qint32",
            ),
        ],
    ),
    OpRecord(
        "QuantizedMul",
        [
            told(
                [[[0, 128], [255, 3]], [3, 200], -1.0, 1.0, -2.0, 3.0],
                [[[12672, 0], [-12573, -12250]], -330255.12, 330255.12],
                {"Toutput": "qint32", "T1": "quint8", "T2": "quint8"},
            ),
            told(
                [[[0, 128], [255, 3]], [3, 200], 1.0, 3.0, -2.0, -1.0],
                [[[-64896, -79360], [-194181, -40610]], -66051.02, 66051.02],
                {"Toutput": "qint32", "T1": "quint8", "T2": "quint8"},
            ),
        ],
        bad=[
            bad(
                "InvalidArgumentError",
                "max_y",
                [1],
                [2],
                0.0,
                1.0,
                1.0,
                1.0,
                T1="quint8",
                T2="quint8",
                Toutput="qint32",
            ),
        ],
    ),
    OpRecord(
        "QuantizedMatMul",
        [
            told(
                [[[0, 200, 3], [255, 7, 90]], [[1, 2, 250], [90, 0, 4], [3, 90, 200]], -1.0, 1.0, -2.0, 3.0],
                [[[24439, 6956, -38250], [-7613, 98, 26930]], -330255.12, 330255.12],
                {
                    "Toutput": "qint32",
                    "transpose_a": False,
                    "transpose_b": False,
                    "T1": "quint8",
                    "T2": "quint8",
                },
            ),
            told(
                [
                    [[0, 255], [200, 7], [3, 90]],
                    [[1, 90, 3], [2, 0, 90], [250, 4, 200]],
                    -1.0,
                    1.0,
                    -2.0,
                    3.0,
                ],
                [[[24439, 6956, -38250], [-7613, 98, 26930]], -330255.12, 330255.12],
                {
                    "Toutput": "qint32",
                    "transpose_a": True,
                    "transpose_b": True,
                    "T1": "quint8",
                    "T2": "quint8",
                },
            ),
            told(
                [[[0, 200, 3], [255, 7, 90]], [[1, 90, 3], [2, 0, 90], [250, 4, 200]], -1.0, 1.0, -2.0, 3.0],
                [[[24439, 6956, -38250], [-7613, 98, 26930]], -330255.12, 330255.12],
                {
                    "Toutput": "qint32",
                    "transpose_a": False,
                    "transpose_b": True,
                    "T1": "quint8",
                    "T2": "quint8",
                },
            ),
            told(
                [[[0, 200, 3], [255, 7, 90]], [[1, 2, 250], [90, 0, 4], [3, 90, 200]], 1.0, 3.0, -2.0, -1.0],
                [[[-269329, -287324, -239858], [-362173, -354974, -235470]], -66051.02, 66051.02],
                {
                    "Toutput": "qint32",
                    "transpose_a": False,
                    "transpose_b": False,
                    "T1": "quint8",
                    "T2": "quint8",
                },
            ),
            told(
                [
                    [[0, 255], [200, 7], [3, 90]],
                    [[1, 90, 3], [2, 0, 90], [250, 4, 200]],
                    1.0,
                    3.0,
                    -2.0,
                    -1.0,
                ],
                [[[-269329, -287324, -239858], [-362173, -354974, -235470]], -66051.02, 66051.02],
                {
                    "Toutput": "qint32",
                    "transpose_a": True,
                    "transpose_b": True,
                    "T1": "quint8",
                    "T2": "quint8",
                },
            ),
            told(
                [[[0, 200, 3], [255, 7, 90]], [[1, 90, 3], [2, 0, 90], [250, 4, 200]], 1.0, 3.0, -2.0, -1.0],
                [[[-269329, -287324, -239858], [-362173, -354974, -235470]], -66051.02, 66051.02],
                {
                    "Toutput": "qint32",
                    "transpose_a": False,
                    "transpose_b": True,
                    "T1": "quint8",
                    "T2": "quint8",
                },
            ),
        ],
        bad=[
            bad(
                "InvalidArgumentError",
                "max_a",
                [[1]],
                [[2]],
                1.0,
                0.0,
                0.0,
                1.0,
                T1="quint8",
                T2="quint8",
                Toutput="qint32",
            ),
            bad(
                "InvalidArgumentError",
                "",
                [[1, 2]],
                [[2]],
                0.0,
                1.0,
                0.0,
                1.0,
                T1="quint8",
                T2="quint8",
                Toutput="qint32",
            ),
            bad(
                "InvalidArgumentError",
                "",
                [1],
                [[2]],
                0.0,
                1.0,
                0.0,
                1.0,
                T1="quint8",
                T2="quint8",
                Toutput="qint32",
            ),
        ],
    ),
    OpRecord(
        "QuantizedConcat",
        [
            told(
                [0, [[0, 100, 255], [3, 4]], [-1.0, 0.0], [3.0, 5.0]],
                [[0, 67, 170, 46, 46], -1.0, 5.0],
                {"T": "quint8", "N": 2},
            ),
            told(
                [1, [[[0], [1]], [[3, 4], [5, 6]]], [-1.0, -1.0], [3.0, 3.0]],
                [[[0, 3, 4], [1, 5, 6]], -1.0, 3.0],
                {"T": "quint8", "N": 2},
            ),
            told(
                [0, [[0, 100, 255], [3, 4]], [-1.0, 0.0], [3.0, 5.0]],
                [[429496736, 429496800, 429496832, 1073741824, 1073741824], -5.0, 5.0],
                {"T": "qint32", "N": 2},
            ),
        ],
        bad=[
            bad("InvalidArgumentError", "got -1", -1, [[1], [2]], [0.0, 0.0], [1.0, 1.0], N=2, T="quint8"),
            bad(
                "InvalidArgumentError", "match", 0, [[[1]], [[2, 3]]], [0.0, 0.0], [1.0, 1.0], N=2, T="quint8"
            ),
        ],
    ),
    OpRecord(
        "QuantizedConcatV2",
        [
            told(
                [[[0, 100, 255], [3, 4]], 0, [-1.0, 0.0], [3.0, 5.0]],
                [[0, 67, 170, 46, 46], -1.0, 5.0],
                {"T": "quint8", "N": 2},
            ),
            told(
                [[[[0], [1]], [[3, 4], [5, 6]]], -1, [-1.0, -1.0], [3.0, 3.0]],
                [[[0, 3, 4], [1, 5, 6]], -1.0, 3.0],
                {"T": "quint8", "N": 2},
            ),
        ],
        bad=[
            bad("InvalidArgumentError", "got -1", [[1], [2]], -2, [0.0, 0.0], [1.0, 1.0], N=2, T="quint8"),
            bad(
                "InvalidArgumentError", "match", [[[1]], [[2, 3]]], 0, [0.0, 0.0], [1.0, 1.0], N=2, T="quint8"
            ),
        ],
    ),
]
