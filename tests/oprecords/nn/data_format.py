"""Layouts of images (NHWC, NCHW), and axes and vectors carried from one to another."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample, told


def _axis_places(x: Any, *, src_format: Any, dst_format: Any) -> Any:
    return np.vectorize(lambda axis: dst_format.index(src_format[int(axis)]), otypes=[x.dtype])(x)


RECORDS: Final = [
    OpRecord(
        "DataFormatDimMap",
        [
            sample([0, 1, 2, 3, -1, -4], src_format="NHWC", dst_format="NCHW"),
            sample([[2], [-2]], src_format="NCHW", dst_format="HWNC"),
            told(
                [[*range(-9, -3), 4, 5, 6, 7, 8]],
                [[1, 0, 1, 1, 1, 0, 0, 2, 3, 1, 0]],
                {"src_format": "NHWC", "dst_format": "NCHW"},
            ),
            told(
                [[-6, -5, 5, 6]],
                [[1, 0, 0, 2]],
                {"src_format": "NDHWC", "dst_format": "NCDHW"},
            ),
            sample(np.zeros((0,)), src_format="NHWC", dst_format="NCHW"),
        ],
        _axis_places,
        [bad("InvalidArgumentError", "permutation", [1], src_format="NHWC", dst_format="NHCC")],
    ),
    OpRecord(
        "DataFormatVecPermute",
        [
            sample([7, 8, 9, 10], src_format="NHWC", dst_format="NCHW"),
            sample([[0, 1], [2, 3], [4, 5], [6, 7]], src_format="NCHW", dst_format="NHWC"),
        ],
        lambda x, *, src_format, dst_format: np.stack([x[src_format.index(axis)] for axis in dst_format]),
        [
            bad("InvalidArgumentError", "[3]", [7, 8, 9], src_format="NHWC", dst_format="NCHW"),
            bad("InvalidArgumentError", "NCHH", [7, 8, 9, 1], src_format="NHWC", dst_format="NCHH"),
        ],
    ),
]
