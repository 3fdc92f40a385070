"""Inputs passed on: identities, no-ops, and the checks that do nothing else."""

from __future__ import annotations

from typing import Final

import numpy as np

from tests.oprecords.elementwise import unary
from tests.oprecords.record import MOVED, OpRecord, bad, sample, strings

_M = np.arange(12.0).reshape(3, 4) - 3
_T = {"T": MOVED}
_MATRIX = np.arange(6.0).reshape(2, 3)

RECORDS: Final = [
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
EXCUSED: Final = {
    "no inputs to sample, or nothing that comes out": """
        Abort Assert NoOp SyncDevice
    """,
}
