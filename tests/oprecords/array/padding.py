"""Tensors made larger at their edges."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import MOVED, OpRecord, Sample, bad, sample

_M = np.arange(12.0).reshape(3, 4) - 3
_NOTHING = np.zeros((0, 4))
_T = {"T": MOVED}


def _mirror(x: Any, paddings: Any, *, mode: bytes) -> Any:
    return np.pad(x, [tuple(p) for p in paddings], "reflect" if mode == b"REFLECT" else "symmetric")


def _mirror_grad(g: Any, paddings: Any, *, mode: bytes) -> Any:
    """Each element of the padded gradient goes back to the element of which it was a copy."""
    inner = tuple(n - int(p.sum()) for n, p in zip(g.shape, paddings, strict=True))
    source = _mirror(np.arange(int(np.prod(inner))).reshape(inner), paddings, mode=mode)
    result = np.zeros(int(np.prod(inner)), g.dtype)
    np.add.at(result, source.ravel(), g.ravel())
    return result.reshape(inner)


_PADS = [sample(_M, [[1, 2], [0, 1]]), sample(_M, [[0, 0], [0, 0]]), sample(_NOTHING, [[1, 1], [0, 0]])]
_MIRRORS = [sample(_M, [[1, 2], [0, 1]], mode=mode) for mode in ("REFLECT", "SYMMETRIC")]

RECORDS: Final = [
    OpRecord(
        "Pad",
        _PADS,
        lambda x, p: np.pad(x, [tuple(i) for i in p]),
        [
            bad("InvalidArgumentError", "-1", _M, [[-1, 0], [0, 0]]),
            bad("InvalidArgumentError", "", _M, [[1, 0]]),
        ],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "PadV2",
        [Sample((*each.inputs, 9.0)) for each in _PADS],
        lambda x, p, v: np.pad(x, [tuple(i) for i in p], constant_values=v),
        [bad("InvalidArgumentError", "-1", _M, [[-1, 0], [0, 0]], 1.0)],
        _T,
        differentiable=("input",),
    ),
    OpRecord(
        "MirrorPad",
        _MIRRORS,
        _mirror,
        [bad("InvalidArgumentError", "3", _M, [[3, 0], [0, 0]], mode="REFLECT")],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "MirrorPadGrad",
        [sample(np.ones((6, 5)), *m.inputs[1:], **m.attrs) for m in _MIRRORS],
        _mirror_grad,
        dtypes={"T": ("float32", "int32", "float64")},
        partial=True,
        differentiable=True,
    ),
]
