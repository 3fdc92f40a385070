"""Convolutions, depthwise ones too, and layouts of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, Sample, bad, sample, told
from tests.oprecords.windows import windows

# Layouts of images (NHWC, NCHW), and axes and vectors carried from one to another.


def _axis_places(x: Any, *, src_format: Any, dst_format: Any) -> Any:
    return np.vectorize(lambda axis: dst_format.index(src_format[int(axis)]), otypes=[x.dtype])(x)


_OF_DATA_FORMAT: Final = [
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


# Convolutions, depthwise ones too, and their gradients.


class Convolved:
    """A convolution or one of its gradients, channels last or first, by the definition.

    kind    "forward", "input" or "filter"; depthwise: one filter a channel
    """

    def __init__(self, kind: str, *, depthwise: bool = False, explicit: bool = False) -> None:
        self.kind, self.depthwise = kind, depthwise
        self.attr_names = ["strides", "padding", "data_format", "dilations"]
        self.attr_names += ["explicit_paddings"] if explicit else []

    def __call__(
        self,
        a: Any,
        b: Any,
        c: Any = None,
        *,
        strides: Any,
        padding: bytes,
        data_format: bytes,
        dilations: Any,
        explicit_paddings: Any = (),
    ) -> Any:
        first = data_format.startswith(b"NC")

        def last(x: Any) -> Any:
            return np.moveaxis(x, 1, -1) if first else x

        def spatial(values: Any) -> Any:
            return tuple(values[2:]) if first else tuple(values[1:-1])

        grad: Any = None
        if self.kind == "forward":
            x, w = last(a), b
        elif self.kind == "input":
            x, w, grad = last(np.zeros(tuple(a))), b, last(c)
        else:
            x, w, grad = last(a), np.zeros(tuple(b)), last(c)
        rank = x.ndim - 2
        pads = np.reshape(explicit_paddings, (-1, 2))
        chosen = spatial(pads).__iter__() if len(pads) else ()
        outs, pairs = windows(
            x.shape[1:-1],
            w.shape[:rank],
            spatial(strides),
            spatial(dilations),
            padding,
            [int(v) for pair in chosen for v in pair],
        )
        channels = w.shape[-1] * w.shape[-2] if self.depthwise else w.shape[-1]
        y = np.zeros((x.shape[0], *outs, channels)) if grad is None else grad
        dx, dw = np.zeros(x.shape), np.zeros(w.shape)
        for o, i, k in pairs:
            at_o: Any = (slice(None), *o)
            at_i: Any = (slice(None), *i)
            if self.depthwise:
                if grad is None:
                    y[at_o] += (x[at_i][:, :, None] * w[k]).reshape(x.shape[0], -1)
                else:
                    g = y[at_o].reshape(x.shape[0], *w.shape[-2:])
                    dx[at_i] += (g * w[k]).sum(-1)
                    dw[k] += (x[at_i][:, :, None] * g).sum(0)
            elif grad is None:
                y[at_o] += x[at_i] @ w[k]
            else:
                dx[at_i] += y[at_o] @ w[k].T
                dw[k] += x[at_i].T @ y[at_o]
        if self.kind == "filter":
            return dw
        result = y if self.kind == "forward" else dx
        return np.moveaxis(result, -1, 1) if first else result


def _wave(*shape: int) -> Any:
    return np.round(np.sin(np.arange(np.prod(shape)) * 1.3).reshape(shape) * 8) / 8


_X, _W = _wave(2, 5, 4, 3), _wave(3, 2, 3, 2)

_CALLS: list[dict[str, Any]] = [
    {"strides": [1, 1, 1, 1], "padding": "SAME"},
    {"strides": [1, 2, 1, 1], "padding": "VALID"},
    {"strides": [1, 1, 1, 1], "padding": "SAME", "dilations": [1, 2, 1, 1]},
]
_EXPLICIT = {"strides": [1, 1, 1, 1], "padding": "EXPLICIT", "explicit_paddings": [0, 0, 1, 2, 0, 1, 0, 0]}
_TYPES = {"T": ("float32", "float64", "float16")}


def _forward_samples(x: Any, w: Any, calls: Sequence[dict[str, Any]]) -> list[Sample]:
    return [sample(x, w, **call) for call in calls]


def _gradient_samples(
    forward: Convolved, kind: str, x: Any, w: Any, calls: Sequence[dict[str, Any]]
) -> list[Sample]:
    samples = []
    for call in calls:
        settings = {
            "data_format": b"NHWC" if x.ndim == 4 else b"NDHWC",
            "dilations": [1] * x.ndim,
            **call,
            "padding": call["padding"].encode(),
        }
        g = np.round(np.cos(forward(x, w, **settings)) * 8) / 8
        samples.append(sample(x.shape, w, g, **call) if kind == "input" else sample(x, w.shape, g, **call))
    return samples


_STRAY = {"strides": [1, 1, 1, 1], "padding": "VALID"}
_TOO_MANY = bad("InvalidArgumentError", "4", _X, _wave(3, 2, 4, 2), **_STRAY)


def _convolutions() -> list[OpRecord]:
    conv, deep, volume = Convolved("forward"), Convolved("forward", depthwise=True), Convolved("forward")
    full = Convolved("forward", explicit=True)
    calls_2d = [*_CALLS, _EXPLICIT]
    square = [_CALLS[0], {"strides": [1, 2, 2, 1], "padding": "VALID"}]
    x5, w5 = _wave(1, 3, 4, 3, 2), _wave(2, 2, 1, 2, 3)
    calls_3d: list[dict[str, Any]] = [
        {"strides": [1, 1, 1, 1, 1], "padding": "SAME"},
        {"strides": [1, 1, 2, 1, 1], "padding": "VALID"},
    ]
    found = [
        OpRecord(
            "Conv2D",
            [*_forward_samples(_X, _W, calls_2d), sample(np.zeros((0, 5, 4, 3)), _W, **_CALLS[0])],
            full,
            [_TOO_MANY, bad("InvalidArgumentError", "zero elements", _X, _W[:0], **_CALLS[0])],
            _TYPES,
            loose=6,
            differentiable=True,
        ),
        OpRecord(
            "DepthwiseConv2dNative",
            _forward_samples(_X, _W, square),
            deep,
            [_TOO_MANY],
            _TYPES,
            loose=6,
            differentiable=True,
        ),
        OpRecord(
            "Conv3D", _forward_samples(x5, w5, calls_3d), volume, dtypes=_TYPES, loose=6, differentiable=True
        ),
    ]
    for kind, suffix in (("input", "Input"), ("filter", "Filter")):
        explicit = Convolved(kind, explicit=True)
        found += [
            OpRecord(
                f"Conv2DBackprop{suffix}",
                _gradient_samples(full, kind, _X, _W, calls_2d),
                explicit,
                dtypes=_TYPES,
                loose=20,
                differentiable=True,
                partial=False,
            ),
            OpRecord(
                f"DepthwiseConv2dNativeBackprop{suffix}",
                _gradient_samples(deep, kind, _X, _W, square),
                Convolved(kind, depthwise=True),
                dtypes=_TYPES,
                loose=20,
                differentiable=True,
            ),
            OpRecord(
                f"Conv3DBackprop{suffix}V2",
                _gradient_samples(conv, kind, x5, w5, calls_3d),
                Convolved(kind),
                dtypes=_TYPES,
                loose=20,
                differentiable=True,
            ),
        ]
    for kind, suffix in (("input", "Input"), ("filter", "Filter")):
        samples = [
            sample(x5, w5, gradient.inputs[2], **call)
            for call, gradient in zip(calls_3d, _gradient_samples(conv, kind, x5, w5, calls_3d), strict=True)
        ]
        found.append(
            OpRecord(
                f"Conv3DBackprop{suffix}",
                samples,
                _volume_gradient(kind),
                dtypes=_TYPES,
                loose=20,
                # The other input only says how large the result is.
                differentiable=("filter" if kind == "input" else "input", "out_backprop"),
            )
        )
    return found


def _volume_gradient(kind: str) -> Any:
    """Of a convolution of volumes whose input and filters stand where their sizes would."""

    def gradient(x: Any, w: Any, g: Any, *, strides: Any, padding: bytes, dilations: Any) -> Any:
        given = (x.shape, w, g) if kind == "input" else (x, w.shape, g)
        return Convolved(kind)(
            *given, strides=strides, padding=padding, dilations=dilations, data_format=b"NDHWC"
        )

    return gradient


_OF_CONVOLUTION: Final = [
    *_convolutions(),
]


RECORDS: Final = [*_OF_DATA_FORMAT, *_OF_CONVOLUTION]
