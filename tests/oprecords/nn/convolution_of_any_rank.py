"""Convolution of images or volumes, with any number of batch dimensions."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.nn.convolution import Convolved
from tests.oprecords.record import OpRecord, bad, sample

_X: Final = np.round(np.sin(np.arange(2 * 5 * 4 * 3) * 1.3).reshape(2, 5, 4, 3) * 8) / 8
_W: Final = np.round(np.cos(np.arange(3 * 2 * 3 * 4) * 0.7).reshape(3, 2, 3, 4) * 8) / 8
_VOLUME: Final = np.round(np.sin(np.arange(3 * 4 * 3 * 2) * 1.1).reshape(1, 3, 4, 3, 2) * 8) / 8
_WINDOW: Final = np.round(np.cos(np.arange(2 * 2 * 2 * 2 * 3) * 0.9).reshape(2, 2, 2, 2, 3) * 8) / 8
_PLAIN: Final[dict[str, Any]] = {"strides": [1, 1, 1, 1], "padding": "VALID"}
_FORWARD: Final = Convolved("forward", explicit=True)


def _conv(
    x: Any,
    w: Any,
    *,
    strides: Any,
    padding: bytes,
    explicit_paddings: Any,
    data_format: bytes,
    dilations: Any,
    batch_dims: int,
) -> Any:
    batch = x.shape[:batch_dims]
    out = _FORWARD(
        x.reshape(int(np.prod(batch)), *x.shape[batch_dims:]),
        w,
        strides=strides,
        padding=padding,
        data_format=b"NCHW" if data_format == b"CHANNELS_FIRST" else b"NHWC",
        dilations=dilations or [1] * w.ndim,
        explicit_paddings=explicit_paddings,
    )
    return out.reshape(*batch, *out.shape[1:])


RECORDS: Final = [
    OpRecord(
        "Conv",
        [
            sample(_X, _W, **_PLAIN),
            sample(_X, _W, strides=[1, 2, 1, 1], padding="SAME", dilations=[1, 1, 2, 1]),
            sample(
                _X, _W, strides=[1, 1, 1, 1], padding="EXPLICIT", explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0]
            ),
            sample(np.moveaxis(_X, -1, 1), _W, data_format="CHANNELS_FIRST", **_PLAIN),
            sample(_X[0], _W, batch_dims=0, **_PLAIN),
            sample(np.stack([_X, _X[::-1], 2 * _X]), _W, batch_dims=2, **_PLAIN),
            sample(_X[:0], _W, **_PLAIN),
            sample(_VOLUME, _WINDOW, strides=[1, 1, 2, 1, 1], padding="SAME"),
            sample(
                np.moveaxis(_VOLUME, -1, 1),
                _WINDOW,
                strides=[1] * 5,
                padding="VALID",
                data_format="CHANNELS_FIRST",
            ),
        ],
        _conv,
        [
            bad("UnimplementedError", "groups is 3", _X, _W[:, :, :1, :3], groups=3, **_PLAIN),
            bad("InvalidArgumentError", "3 vs 2", _X, _W[:, :, :2], **_PLAIN),
            bad("InvalidArgumentError", "2 or 3 spatial", _X[0], _W[0], strides=[1, 1, 1], padding="VALID"),
            bad("InvalidArgumentError", "4", _X, _W, strides=[1, 1], padding="VALID"),
            bad("InvalidArgumentError", "batch_dims", _X, _W, batch_dims=-1, **_PLAIN),
        ],
        {"T": ("float32", "float64", "float16", "int32")},
        loose=6,
    ),
]
