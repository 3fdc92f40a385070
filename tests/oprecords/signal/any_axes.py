"""Fourier transforms over axes that are named."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import COMPLEX, OpRecord, bad, sample

_CUBE: Final = np.random.default_rng(6).normal(size=(2, 3, 4, 6))
_WAVES: Final = _CUBE + 1j * _CUBE[::-1]
_PAIRS: Final = [
    {"Treal": "float32", "Tcomplex": "complex64"},
    {"Treal": "float64", "Tcomplex": "complex128"},
]


def _turned(x: Any, axis: int, length: int, sign: int) -> Any:
    """The sum that defines the transform, along one axis cut or filled up to a length."""
    kept = np.zeros((*x.shape[:axis], length, *x.shape[axis + 1 :]), complex)
    both = [slice(None)] * axis + [slice(min(length, x.shape[axis]))]
    kept[tuple(both)] = x[tuple(both)]
    turns = np.exp(sign * 2j * np.pi * np.outer(np.arange(length), np.arange(length)) / length)
    moved = np.moveaxis(kept, axis, -1) @ turns
    return np.moveaxis(moved / length if sign > 0 else moved, -1, axis)


def _forward(x: Any, lengths: Any, axes: Any) -> Any:
    for length, axis in zip(lengths, axes % x.ndim, strict=True):
        x = _turned(x, int(axis), int(length), -1)
    return x


def _backward(x: Any, lengths: Any, axes: Any) -> Any:
    for length, axis in zip(lengths, axes % x.ndim, strict=True):
        x = _turned(x, int(axis), int(length), 1)
    return x


def _of_real(x: Any, lengths: Any, axes: Any) -> Any:
    return np.take(_forward(x, lengths, axes), range(int(lengths[-1]) // 2 + 1), int(axes[-1]))


def _to_real(x: Any, lengths: Any, axes: Any) -> Any:
    x = _backward(x, lengths[:-1], axes[:-1])
    length = int(lengths[-1])
    half = np.moveaxis(x, int(axes[-1]), -1)[..., : length // 2 + 1]
    whole = np.concatenate([half, np.conj(half[..., 1 : (length + 1) // 2][..., ::-1])], axis=-1)
    return np.moveaxis(np.fft.ifft(whole).real, -1, int(axes[-1]))


_BAD: Final = [
    bad("InvalidArgumentError", "", _CUBE, [3, 4], [1]),
    bad("InvalidArgumentError", "positive", _CUBE, [0], [1]),
    bad("InvalidArgumentError", "[-4, 4)", _CUBE, [3], [4]),
    bad("InvalidArgumentError", "once", _CUBE, [3, 3], [1, -3]),
]
_WAYS: Final = [([4, 6], [2, 3]), ([2, 4, 6], [0, -2, -1]), ([3], [1]), ([6, 3], [3, 1])]
_EVEN: Final = [([4, 6], [2, 3]), ([2, 6], [0, -1])]

RECORDS: Final = [
    OpRecord(
        "FFTND",
        [*(sample(_WAVES, *way) for way in _WAYS), sample(_WAVES, [3, 8], [2, 3])],
        _forward,
        _BAD,
        {"Tcomplex": COMPLEX},
        differentiable=["input"],
        loose=30,
    ),
    OpRecord(
        "IFFTND",
        [sample(_WAVES, *way) for way in _WAYS],
        _backward,
        _BAD,
        {"Tcomplex": COMPLEX},
        differentiable=["input"],
        loose=30,
    ),
    OpRecord(
        "RFFTND",
        [sample(_CUBE, *way) for way in _WAYS],
        _of_real,
        _BAD,
        differentiable=["input"],
        only=_PAIRS,
        loose=30,
    ),
    OpRecord(
        "IRFFTND",
        [sample(_WAVES[..., :4], *way) for way in _EVEN],
        _to_real,
        _BAD,
        differentiable=["input"],
        only=_PAIRS,
        loose=30,
    ),
]
