"""Watches over tensors, as TensorFlow's debugger puts them into graphs."""

from __future__ import annotations

from typing import Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample, told

_NAME: Final = {"tensor_name": "a:0"}
_MIXED: Final = [1.0, -2.0, 0.0, np.inf, -np.inf, np.nan, 5.0]
_OF_SEVEN: Final = {"tensor_id": 7, "T": "float32"}
_URL: Final = bad("UnimplementedError", "file:///tmp", [1.0], tensor_name="a:0", debug_urls=["file:///tmp"])

RECORDS: Final = [
    OpRecord(
        "DebugIdentity",
        [sample([1.0, np.nan], **_NAME), sample(3.0, **_NAME)],
        lambda x: x,
        [_URL],
        dtypes={"T": ["float32", "float16"]},
        differentiable=True,
    ),
    OpRecord(
        "DebugIdentityV2",
        [sample([1.0, np.nan]), sample(np.zeros((0, 2)))],
        lambda x: x,
        [bad("UnimplementedError", "file:///tmp", [1.0], debug_urls=["file:///tmp"])],
        dtypes={"T": ["float32", "float16"]},
        differentiable=True,
    ),
    OpRecord(
        "DebugIdentityV3",
        [sample([1.0, np.nan], **_NAME), sample(3.0, **_NAME, is_input=True, io_index=2)],
        lambda x: x,
        [_URL],
        dtypes={"T": ["float32", "float16"]},
        differentiable=True,
    ),
    OpRecord(
        "DebugNanCount",
        [
            sample([1.0, np.nan, np.inf, np.nan], **_NAME),
            sample(3.0, **_NAME),
            sample(np.zeros((0, 2)), **_NAME),
        ],
        lambda x: np.array([np.isnan(x).sum()]),
        [_URL],
        dtypes={"T": ["float32", "float16", "bfloat16"]},
    ),
    OpRecord(
        "DebugNumericSummary",
        [
            told([_MIXED], [[1, 7, 1, 1, 1, 1, 2, 1, -2, 5, 1, 6.5, 1, 1, 7]], {**_NAME, "T": "float32"}),
            told(
                [_MIXED],
                [[1, 7, 1, 2, 0, 1, 1, 2, -2, 5, 1, 6.5, 1, 1, 7]],
                {**_NAME, "T": "float32", "lower_bound": -1.0, "upper_bound": 2.0},
            ),
            told(
                [np.zeros((2, 0))],
                [[1, 0, 0, 0, 0, 0, 0, 0, np.inf, -np.inf, np.nan, np.nan, 1, 2, 2, 0]],
                {**_NAME, "T": "float32"},
            ),
            told(
                [[[1, 2], [3, 4]]],
                [[1, 4, 0, 0, 0, 0, 4, 0, 1, 4, 2.5, 1.25, 6, 2, 2, 2]],
                {**_NAME, "T": "int8"},
            ),
            told([2.5], [[1, 1, 0, 0, 0, 0, 1, 0, 2.5, 2.5, 2.5, 0, 2, 0]], {**_NAME, "T": "float64"}),
            told(
                [[True, False]],
                [[1, 2, 0, 0, 0, 1, 1, 0, 0, 1, 0.5, 0.25, 10, 1, 2]],
                {**_NAME, "T": "bool"},
            ),
        ],
        bad=[_URL],
        dtypes={"T": ["float32"]},
    ),
    OpRecord(
        "DebugNumericSummaryV2",
        [
            told([_MIXED], [[7, 1]], {**_OF_SEVEN, "tensor_debug_mode": 2}),
            told([_MIXED], [[7, 7, 1, 1, 1]], {**_OF_SEVEN, "tensor_debug_mode": 3}),
            told([_MIXED], [[7, -1, 1, 1, 7, 1, 1, 1, 1, 1, 2]], {**_OF_SEVEN, "tensor_debug_mode": 4}),
            told([_MIXED], [[7, 1, 1, 7, 7, 0, 0, 0, 0, 0]], {**_OF_SEVEN, "tensor_debug_mode": 5}),
            told([_MIXED], [[-np.inf, np.inf, np.nan]], {**_OF_SEVEN, "tensor_debug_mode": 8}),
            told([[1.0]], [[0, 0, 0]], {**_OF_SEVEN, "tensor_debug_mode": 8}),
            told(
                [np.zeros((1, 2, 1, 2, 3, 1, 2, 2))],
                [[7, 1, 8, 48, 1, 2, 3, 1, 2, 2]],
                {**_OF_SEVEN, "tensor_debug_mode": 5},
            ),
            told(
                [[[1, -2], [0, 4]]],
                [[7, -1, 3, 2, 4, 0, 0, 0, 1, 1, 2]],
                {**_OF_SEVEN, "T": "int32", "tensor_debug_mode": 4},
            ),
        ],
        bad=[
            bad("UnimplementedError", "mode: 6", [1.0], tensor_debug_mode=6),
            bad("InvalidArgumentError", "20000000", [1.0], tensor_debug_mode=2, tensor_id=20000000),
        ],
        dtypes={"T": ["float32"]},
    ),
]
