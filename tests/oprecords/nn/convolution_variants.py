"""Convolutions of any rank or with padding of their own, and grayscale dilation."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np

from tests.oprecords.nn.convolution import Convolved
from tests.oprecords.record import OpRecord, bad, sample
from tests.oprecords.windows import windows

# Convolution of images or volumes, with any number of batch dimensions.

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


_OF_CONVOLUTION_OF_ANY_RANK: Final = [
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


# Convolutions of images that are resized, and made larger by their mirror image, on the way.

_MIRRORS: Final[dict[bytes, Any]] = {b"REFLECT": "reflect", b"SYMMETRIC": "symmetric"}


def _pad_conv(x: Any, paddings: Any, filters: Any, *, mode: bytes, strides: Any, padding: bytes) -> Any:
    x = np.pad(x, paddings, _MIRRORS[mode])
    outs, pairs = windows(x.shape[1:3], filters.shape[:2], strides[1:3], (1, 1), padding)
    result = np.zeros((x.shape[0], *outs, filters.shape[3]))
    for (i, j), (top, left), place in pairs:
        result[:, i, j] += x[:, top, left] @ filters[place]
    return result


def _resized(x: Any, axis: int, wanted: int, corners: bool) -> Any:
    size = x.shape[axis]
    scale = (size - 1) / (wanted - 1) if corners and wanted > 1 else size / wanted
    places = np.arange(wanted) * np.float64(np.float32(scale))
    low = np.minimum(places.astype(int), size - 1)
    high = np.minimum(low + 1, size - 1)
    weight = (places - low).reshape((-1,) + (1,) * (x.ndim - axis - 1))
    return x.take(low, axis) * (1 - weight) + x.take(high, axis) * weight


def _resize_pad_conv(
    x: Any,
    size: Any,
    paddings: Any,
    filters: Any,
    *,
    resize_align_corners: bool,
    mode: bytes,
    strides: Any,
    padding: bytes,
) -> Any:
    for axis, wanted in ((1, size[0]), (2, size[1])):
        x = _resized(x, axis, int(wanted), resize_align_corners)
    return _pad_conv(x, paddings, filters, mode=mode, strides=strides, padding=padding)


_IMAGES: Final = np.arange(2 * 4 * 5 * 2).reshape(2, 4, 5, 2) % 7 - 3.0
_FILTERS: Final = np.arange(2 * 3 * 2 * 3).reshape(2, 3, 2, 3) % 5 - 2.0
_PADS: Final = [[0, 0], [1, 2], [3, 0], [0, 0]]
_ATTRS: Final[dict[str, Any]] = {"mode": "REFLECT", "strides": [1, 1, 1, 1], "padding": "VALID"}
_OTHER: Final[dict[str, Any]] = {"mode": "SYMMETRIC", "strides": [1, 2, 2, 1], "padding": "SAME"}

_OF_PADDED_CONVOLUTION: Final = [
    OpRecord(
        "FusedPadConv2D",
        [
            sample(_IMAGES, _PADS, _FILTERS, **_ATTRS),
            sample(_IMAGES, _PADS, _FILTERS, **_OTHER),
            sample(_IMAGES, np.zeros((4, 2)), _FILTERS, **_OTHER),
        ],
        _pad_conv,
        [
            bad(
                "InvalidArgumentError",
                "less than",
                _IMAGES,
                [[0, 0], [4, 0], [0, 0], [0, 0]],
                _FILTERS,
                **_ATTRS,
            ),
            bad(
                "InvalidArgumentError",
                "spatial",
                _IMAGES,
                [[1, 0], [0, 0], [0, 0], [0, 0]],
                _FILTERS,
                **_OTHER,
            ),
            bad("InvalidArgumentError", "2", _IMAGES, [[1, 0], [0, 0]], _FILTERS, **_OTHER),
            bad("InvalidArgumentError", "empty", _IMAGES[:0], _PADS, _FILTERS, **_OTHER),
            bad("InvalidArgumentError", "2", _IMAGES, _PADS, _FILTERS[:, :, :1], **_OTHER),
            bad("InvalidArgumentError", "", _IMAGES[0], _PADS, _FILTERS, **_OTHER),
            bad("InvalidArgumentError", "-1", _IMAGES, [[0, 0], [-1, 0], [0, 0], [0, 0]], _FILTERS, **_ATTRS),
        ],
        loose=4,
        differentiable=True,
    ),
    OpRecord(
        "FusedResizeAndPadConv2D",
        [
            sample(_IMAGES, [3, 4], _PADS, _FILTERS, **_ATTRS),
            sample(_IMAGES, [7, 5], _PADS, _FILTERS, **_OTHER, resize_align_corners=True),
            sample(_IMAGES, [4, 5], _PADS, _FILTERS, **_OTHER),
        ],
        _resize_pad_conv,
        [
            bad("InvalidArgumentError", "positive", _IMAGES, [3, 0], _PADS, _FILTERS, **_OTHER),
            bad("InvalidArgumentError", "two elements", _IMAGES, [3], _PADS, _FILTERS, **_OTHER),
            bad("InvalidArgumentError", "", _IMAGES, [1, 1], _PADS, _FILTERS, **_ATTRS),
        ],
        loose=60,
        differentiable=True,
    ),
]


# Grayscale dilation and its gradients.

_TYPES = {"T": ("float32", "float64", "float16")}


class _Dilation:
    """Largest sum of input and filter in a window, or its gradient; the first of equals wins."""

    attr_names = ("strides", "rates", "padding")

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, x: Any, w: Any, g: Any = None, *, strides: Any, rates: Any, padding: bytes) -> Any:
        outs, pairs = windows(x.shape[1:-1], w.shape[:2], strides[1:-1], rates[1:-1], padding)
        y, dx, dw = np.zeros((x.shape[0], *outs, x.shape[-1])), np.zeros(x.shape), np.zeros(w.shape)
        for o, group in itertools.groupby(pairs, lambda p: p[0]):
            members = [(i, k) for _, i, k in group]
            sums = np.stack([x[(slice(None), *i)] + w[k] for i, k in members])
            at: Any = (slice(None), *o)
            y[at] = sums.max(0)
            if g is None:
                continue
            best = sums.argmax(0)
            for n, c in np.ndindex(*best.shape):
                i, k = members[best[n, c]]
                dx[(n, *i, c)] += g[(n, *o, c)]
                dw[(*k, c)] += g[(n, *o, c)]
        return {"forward": y, "input": dx, "filter": dw}[self.kind]


_P = np.random.RandomState(3).permutation(2 * 5 * 4 * 2).reshape(2, 5, 4, 2) / 8.0 - 3
_SPREAD = {"strides": [1, 2, 1, 1], "rates": [1, 1, 2, 1], "padding": "SAME"}
_SHARP = np.random.RandomState(5).permutation(3 * 2 * 2).reshape(3, 2, 2) / 16.0
_DILATED = _Dilation("forward")(_P, _SHARP, strides=(1, 2, 1, 1), rates=(1, 1, 2, 1), padding=b"SAME")
_BACK = np.arange(_DILATED.size).reshape(_DILATED.shape) % 5.0

_OF_DILATION: Final = [
    OpRecord(
        "Dilation2D",
        [sample(_P, _SHARP, **_SPREAD)],
        _Dilation("forward"),
        [
            *(
                bad(
                    "InvalidArgumentError",
                    f"{name} must have 4 entries",
                    _P,
                    _SHARP,
                    **{**_SPREAD, name: wrong},
                )
                for name in ("strides", "rates")
                for wrong in ([1, 1, 1, 1, 1], [2, 1, 1, 1], [1, 1, 1, 2])
            ),
            bad("InvalidArgumentError", "input must be 4-dimensional", _P[0], _SHARP, **_SPREAD),
            bad("InvalidArgumentError", "filter must be 3-dimensional", _P, _SHARP[0], **_SPREAD),
            bad("InvalidArgumentError", "the same depth: 2 vs 1", _P, _SHARP[..., :1], **_SPREAD),
        ],
        dtypes=_TYPES,
        differentiable=True,
    ),
    OpRecord(
        "Dilation2DBackpropInput",
        [sample(_P, _SHARP, _BACK, **_SPREAD)],
        _Dilation("input"),
        dtypes=_TYPES,
        differentiable=True,
    ),
    OpRecord(
        "Dilation2DBackpropFilter",
        [sample(_P, _SHARP, _BACK, **_SPREAD)],
        _Dilation("filter"),
        dtypes=_TYPES,
        differentiable=True,
    ),
]


RECORDS: Final = [*_OF_CONVOLUTION_OF_ANY_RANK, *_OF_PADDED_CONVOLUTION, *_OF_DILATION]
