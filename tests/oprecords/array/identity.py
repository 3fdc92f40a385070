"""Inputs passed on: identities, checks, copies and watches of a debugger."""

from __future__ import annotations

from typing import Final

import numpy as np

from tests.oprecords.elementwise import unary
from tests.oprecords.record import MOVED, OpRecord, bad, sample, strings, told

# Inputs passed on: identities, no-ops, and the checks that do nothing else.

_M = np.arange(12.0).reshape(3, 4) - 3
_T = {"T": MOVED}
_MATRIX = np.arange(6.0).reshape(2, 3)

_OF_IDENTITY: Final = [
    OpRecord(
        "EnsureShape",
        [sample(_M, shape=[None, 4]), sample(_M, shape=None)],
        lambda x: x,
        [bad("InvalidArgumentError", "[3,4]", _M, shape=[2, None])],
        _T,
        differentiable=True,
    ),
    OpRecord("IdentityN", [sample([np.ones(1, np.float32), np.int32(2), strings(b"x")])], lambda xs: xs),
    *[
        unary(op, lambda x: x, differentiable=op not in ("StopGradient", "PreventGradient"))
        for op in (
            "Identity",
            "StopGradient",
            "PreventGradient",
            "Snapshot",
            "DeepCopy",
            "GuaranteeConst",
            "DebugGradientIdentity",
        )
    ],
    OpRecord("RefIdentity", [sample(_MATRIX), sample(2.0)], lambda ref: ref, dtypes={"T": MOVED}),
    OpRecord("DebugGradientRefIdentity", [sample(_MATRIX)], lambda ref: ref, dtypes={"T": MOVED}),
]

#: {why they have no record: ops}


# Watches over tensors, as TensorFlow's debugger puts them into graphs.

_NAME: Final = {"tensor_name": "a:0"}
_MIXED: Final = [1.0, -2.0, 0.0, np.inf, -np.inf, np.nan, 5.0]
_OF_SEVEN: Final = {"tensor_id": 7, "T": "float32"}
_URL: Final = bad("UnimplementedError", "file:///tmp", [1.0], tensor_name="a:0", debug_urls=["file:///tmp"])

_OF_DEBUGGING: Final = [
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


# Copies of a tensor, which TensorFlow's debugger puts between a node and who watches it.

_SAMPLES: Final = [sample([1.0, 0.0]), sample(3.0), sample(np.zeros((0, 2)))]

_OF_COPIES: Final = [
    OpRecord("Copy", _SAMPLES, lambda x: x, dtypes={"T": MOVED}, loose=0),
    OpRecord("CopyHost", _SAMPLES, lambda x: x, dtypes={"T": MOVED}, loose=0),
]


RECORDS: Final = [*_OF_IDENTITY, *_OF_DEBUGGING, *_OF_COPIES]

EXCUSED: Final = {
    "no inputs to sample, or nothing that comes out": "Abort Assert NoOp SyncDevice",
}
