"""Watches over tensors, as TensorFlow's debugger puts them into graphs."""

from __future__ import annotations

from typing import Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample

_NAME: Final = {"tensor_name": "a:0"}
_NO_NAME: Final = bad("InvalidArgumentError", "Failed to parse", [1.0], tensor_name="a")
_URL: Final = bad("UnimplementedError", "file:///tmp", [1.0], tensor_name="a:0", debug_urls=["file:///tmp"])

RECORDS: Final = [
    OpRecord(
        "DebugIdentity",
        [sample([1.0, np.nan], **_NAME), sample(3.0, **_NAME)],
        lambda x: x,
        [_NO_NAME, _URL],
        dtypes={"T": ["float32", "float16"]},
    ),
    OpRecord(
        "DebugIdentityV2",
        [sample([1.0, np.nan]), sample(np.zeros((0, 2)))],
        lambda x: x,
        [bad("UnimplementedError", "file:///tmp", [1.0], debug_urls=["file:///tmp"])],
        dtypes={"T": ["float32", "float16"]},
    ),
    OpRecord(
        "DebugNanCount",
        [
            sample([1.0, np.nan, np.inf, np.nan], **_NAME),
            sample(3.0, **_NAME),
            sample(np.zeros((0, 2)), **_NAME),
        ],
        lambda x: np.array([np.isnan(x).sum()]),
        [_NO_NAME, _URL],
        dtypes={"T": ["float32", "float16", "bfloat16"]},
    ),
]
