"""Batch normalisation in its versions, and local response normalisation."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from tests.oprecords.record import OpRecord, bad, sample


def _lrn(x: Any, *, depth_radius: int, bias: float, alpha: float, beta: float) -> Any:
    result = np.empty_like(x)
    for c in range(x.shape[-1]):
        window = x[..., max(0, c - depth_radius) : c + depth_radius + 1]
        result[..., c] = x[..., c] / (bias + alpha * (window**2).sum(-1)) ** beta
    return result


def _lrn_grad(g: Any, x: Any, y: Any, *, depth_radius: int, bias: float, alpha: float, beta: float) -> Any:
    """By finite differences of the definition, in float64."""
    result = np.zeros_like(x)
    settings: dict[str, Any] = {"depth_radius": depth_radius, "bias": bias, "alpha": alpha, "beta": beta}
    step = 1e-5
    for index in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[index] += step
        down[index] -= step
        result[index] = (g * (_lrn(up, **settings) - _lrn(down, **settings))).sum() / (2 * step)
    return result


def _channels(x: Any, data_format: bytes) -> Any:
    return np.moveaxis(x, 1, -1) if data_format == b"NCHW" else x


def _unchannels(x: Any, data_format: bytes) -> Any:
    return np.moveaxis(x, -1, 1) if data_format == b"NCHW" else x


def _batch_norm(
    x: Any,
    scale: Any,
    offset: Any,
    mean: Any,
    variance: Any,
    *,
    epsilon: float,
    data_format: bytes,
    is_training: bool,
) -> tuple[Any, ...]:
    x = _channels(x, data_format)
    count = x.size // x.shape[-1]
    unbiased = variance
    if is_training:
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        unbiased = variance * count / max(count - 1, 1)
    y = (x - mean) / np.sqrt(variance + epsilon) * scale + offset
    return _unchannels(y, data_format), mean, unbiased, mean, variance


def _batch_norm_grad(
    g: Any,
    x: Any,
    scale: Any,
    mean: Any,
    variance: Any,
    *,
    epsilon: float,
    data_format: bytes,
    is_training: bool,
) -> tuple[Any, ...]:
    g, x = _channels(g, data_format), _channels(x, data_format)
    inverse = 1 / np.sqrt(variance + epsilon)
    centred = (x - mean) * inverse
    d_scale, d_offset = (g * centred).sum((0, 1, 2)), g.sum((0, 1, 2))
    if is_training:
        dx = scale * inverse * (g - g.mean((0, 1, 2)) - centred * (g * centred).mean((0, 1, 2)))
    else:
        dx = g * scale * inverse
    return _unchannels(dx, data_format), d_scale, d_offset


def _global_norm(
    t: Any, m: Any, v: Any, beta: Any, gamma: Any, *, variance_epsilon: float, scale_after_normalization: bool
) -> Any:
    return (t - m) / np.sqrt(v + variance_epsilon) * (gamma if scale_after_normalization else 1) + beta


_PICTURE = np.sin(np.arange(2 * 3 * 2 * 4)).reshape(2, 3, 2, 4)
_PER_CHANNEL = (np.array([1.0, 0.5, -2.0, 1.5]), np.array([0.0, 1.0, -1.0, 0.5]))
_MOMENTS = (np.array([0.5, -0.25, 0.0, 1.0]), np.array([1.0, 2.0, 0.5, 0.25]))
_NONE = np.zeros((0,))
_NORM = [
    sample(_PICTURE, *_PER_CHANNEL, *_MOMENTS, is_training=False, epsilon=0.01),
    sample(_PICTURE, *_PER_CHANNEL, _NONE, _NONE, epsilon=0.01),
    sample(np.moveaxis(_PICTURE, -1, 1), *_PER_CHANNEL, *_MOMENTS, is_training=False, data_format="NCHW"),
    sample(_PICTURE[:0], *_PER_CHANNEL, *_MOMENTS, is_training=False),
    sample(_PICTURE[:0], *_PER_CHANNEL, _NONE, _NONE),
    sample(_PICTURE, *_PER_CHANNEL, *_MOMENTS, exponential_avg_factor=0.25),
]
_NORM_GRADS = [
    sample(np.cos(_PICTURE), _PICTURE, _PER_CHANNEL[0], *_MOMENTS, is_training=is_training, epsilon=0.01)
    for is_training in (False,)
] + [
    sample(
        np.cos(_PICTURE * 3),
        _PICTURE,
        _PER_CHANNEL[0],
        _PICTURE.mean((0, 1, 2)),
        _PICTURE.var((0, 1, 2)),
        epsilon=0.01,
    ),
    sample(_PICTURE[:0], _PICTURE[:0], _PER_CHANNEL[0], _PER_CHANNEL[0] * np.nan, _PER_CHANNEL[1] * np.nan),
]


def _norm_values(
    outputs: Any,
    inputs: Any,
    *,
    epsilon: float,
    data_format: bytes,
    is_training: bool,
    exponential_avg_factor: float,
) -> None:
    """The five results with a meaning; a sixth is whatever the library keeps for itself."""
    wide = [np.asarray(i, np.float64) for i in inputs]
    if not inputs[0].size:
        kept = np.nan if is_training else 0.0
        assert [np.unique(got).tolist() for got in outputs[1:5]] == [
            pytest.approx([value], nan_ok=True) for value in (np.nan, np.nan, kept, kept)
        ]
        assert outputs[0].shape == inputs[0].shape
        return
    wanted = list(_batch_norm(*wide, epsilon=epsilon, data_format=data_format, is_training=is_training))
    if is_training and exponential_avg_factor != 1:
        for place, old in ((1, wide[3]), (2, wide[4])):
            wanted[place] = old + exponential_avg_factor * (wanted[place] - old)
    bound = 0.05 if outputs[0].dtype.itemsize == 2 else 1e-5
    for got, want in zip(outputs[:5], wanted, strict=True):
        np.testing.assert_allclose(np.asarray(got, np.float64), want, bound, bound)


_GRAD_INPUTS = (np.cos(_PICTURE), _PICTURE, _PER_CHANNEL[0])


def _norm_grad_values(
    outputs: Any, inputs: Any, *, epsilon: float, data_format: bytes, is_training: bool
) -> None:
    wide = [np.asarray(i, np.float64) for i in inputs[:5]]
    if not inputs[0].size:
        assert outputs[0].shape == inputs[0].shape
        assert not any(map(np.any, outputs[1:3]))
        return
    wanted = _batch_norm_grad(*wide, epsilon=epsilon, data_format=data_format, is_training=is_training)
    bound = 0.1 if outputs[0].dtype.itemsize == 2 else 1e-4
    for got, want in zip(outputs[:3], wanted, strict=True):
        np.testing.assert_allclose(np.asarray(got, np.float64), want, bound, bound)


_NORM_BAD = [
    bad("InvalidArgumentError", "scale must be 1-dimensional", _PICTURE, np.ones((4, 1)), *_MOMENTS, _NONE),
    bad(
        "InvalidArgumentError",
        "mean must have as many",
        _PICTURE,
        *_PER_CHANNEL,
        [1.0],
        [1.0],
        is_training=False,
    ),
    bad("InvalidArgumentError", "4-dimensional", _PICTURE[0], *_PER_CHANNEL, *_MOMENTS, is_training=False),
]
_NORM_GRADS_BAD = [
    bad(
        "InvalidArgumentError",
        "saved_mean must be 1-dimensional",
        *_GRAD_INPUTS,
        np.ones((4, 1)),
        _MOMENTS[1],
    ),
    bad("InvalidArgumentError", "saved_variance must have as many", *_GRAD_INPUTS, _MOMENTS[0], [1.0]),
    bad("InvalidArgumentError", "must have the same shape", _PICTURE[:1], *_GRAD_INPUTS[1:], *_MOMENTS),
]

_MIXED = [
    {"T": "float32", "U": "float32"},
    {"T": "float16", "U": "float32"},
    {"T": "bfloat16", "U": "float32"},
]

RECORDS: Final = [
    OpRecord(
        "LRN",
        [sample(_PICTURE), sample(_PICTURE, depth_radius=1, bias=2.0, alpha=0.5, beta=0.75)],
        _lrn,
        [bad("InvalidArgumentError", "", [1.0])],
        loose=4,
        differentiable=True,
    ),
    OpRecord(
        "LRNGrad",
        [
            sample(
                np.cos(_PICTURE),
                _PICTURE,
                _lrn(_PICTURE, depth_radius=1, bias=2.0, alpha=0.5, beta=0.75),
                depth_radius=1,
                bias=2.0,
                alpha=0.5,
                beta=0.75,
            )
        ],
        _lrn_grad,
        dtypes={"T": ("float32", "float16")},
        loose=20,
        differentiable=True,
    ),
    OpRecord(
        "FusedBatchNorm",
        _NORM,
        bad=_NORM_BAD,
        check=_norm_values,
        dtypes={"T": ("float32",)},
        differentiable=("x", "scale", "offset"),
    ),
    OpRecord(
        "FusedBatchNormV2", _NORM, check=_norm_values, only=_MIXED, differentiable=("x", "scale", "offset")
    ),
    OpRecord(
        "FusedBatchNormV3",
        _NORM,
        check=_norm_values,
        only=_MIXED,
        partial=True,
        differentiable=("x", "scale", "offset"),
    ),
    OpRecord(
        "FusedBatchNormGrad",
        _NORM_GRADS,
        bad=_NORM_GRADS_BAD,
        check=_norm_grad_values,
        dtypes={"T": ("float32",)},
        partial=True,
        differentiable=("y_backprop", "x", "scale"),
    ),
    OpRecord(
        "FusedBatchNormGradV2",
        _NORM_GRADS,
        check=_norm_grad_values,
        only=_MIXED,
        partial=True,
        differentiable=("y_backprop", "x", "scale"),
    ),
    OpRecord(
        "FusedBatchNormGradV3",
        [type(each)((*each.inputs, _NONE), each.attrs) for each in _NORM_GRADS],
        check=_norm_grad_values,
        only=_MIXED,
        partial=True,
        differentiable=("y_backprop", "x", "scale"),
    ),
    OpRecord(
        "BatchNormWithGlobalNormalization",
        [
            sample(
                _PICTURE, *_MOMENTS, *_PER_CHANNEL, variance_epsilon=0.01, scale_after_normalization=scaled
            )
            for scaled in (True, False)
        ],
        _global_norm,
        loose=4,
        differentiable=True,
    ),
]

#: {why they have no record: ops}
EXCUSED: Final = {
    "not yet; tests/kernels and tests/conformance compare them with recorded values": """
        BatchNormWithGlobalNormalizationGrad
    """,
}
