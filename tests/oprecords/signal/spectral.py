"""Fourier transforms over the innermost axes, or over named ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tests.oprecords.record import COMPLEX, OpRecord, bad, sample

# Fourier transforms.

_CUBE: Final = np.random.default_rng(6).normal(size=(2, 3, 4, 6))
_WAVES: Final = _CUBE + 1j * _CUBE[::-1]
_PAIRS: Final = [
    {"Treal": "float32", "Tcomplex": "complex64"},
    {"Treal": "float64", "Tcomplex": "complex128"},
]


def _turned(x: Any, axis: int, length: int, sign: int) -> Any:
    """The sum that defines the transform, along one axis."""
    turns = np.exp(sign * 2j * np.pi * np.outer(np.arange(length), np.arange(length)) / max(length, 1))
    moved = np.moveaxis(x, axis, -1) @ turns
    return np.moveaxis(moved / length if sign > 0 and length else moved, -1, axis)


def _complex(axes: int, sign: int) -> Callable[..., Any]:
    def transform(x: Any) -> Any:
        for axis in range(-axes, 0):
            x = _turned(x, axis, x.shape[axis], sign)
        return x

    return transform


def _forward(axes: int) -> Callable[..., Any]:
    def transform(x: Any, fft_length: Any) -> Any:
        for axis, length in zip(range(-axes, 0), fft_length, strict=True):
            kept = np.zeros((*x.shape[:axis], length, *x.shape[axis:][1:]))
            kept = np.take(x, range(length), axis) if x.shape[axis] else kept
            x = _turned(kept, axis, length, -1)
        last = fft_length[-1]
        return x[..., : last // 2 + 1 if last else 0]

    return transform


def _inverse(axes: int) -> Callable[..., Any]:
    def transform(x: Any, fft_length: Any) -> Any:
        for axis, length in zip(range(-axes, -1), fft_length[:-1], strict=True):
            x = _turned(np.take(x, range(length), axis), axis, length, 1)
        last = fft_length[-1]
        if not x.shape[-1] or not last:
            return np.zeros((*x.shape[:-1], last))
        # The other half has the conjugates, from the end.
        half = x[..., : last // 2 + 1]
        whole = np.concatenate([half, np.conj(half[..., 1 : (last + 1) // 2][..., ::-1])], axis=-1)
        return np.fft.ifft(whole).real

    return transform


def _records(axes: int) -> list[OpRecord]:
    name = f"{axes}D" if axes > 1 else ""
    sizes = _CUBE.shape[-axes:]
    fewer = [max(size - 1, 1) for size in sizes]
    low = np.ones(()) if axes == 1 else np.ones((2,) * (axes - 1))
    flat = bad("InvalidArgumentError", "rank", low)
    wrong = [
        bad("InvalidArgumentError", "", _CUBE, [99] * axes),
        bad("InvalidArgumentError", "", _CUBE, [1] * (axes + 1)),
        bad("InvalidArgumentError", "", _CUBE, [*sizes[:-1], -1]),
        bad("InvalidArgumentError", "rank", low, [1] * axes),
        bad("InvalidArgumentError", "Wrong types", _CUBE, sizes, Tcomplex="complex128"),
    ]
    halved = [sample(_WAVES, [*lengths[:-1], last]) for lengths in (sizes, fewer) for last in (1, 6, 7, 10)]
    batches = [
        OpRecord(
            f"Batch{way}{name}",
            [sample(_WAVES), sample(np.zeros((0, *sizes))), sample(np.zeros((*sizes[:-1], 0)))],
            _complex(axes, sign),
            [flat],
            loose=30,
            differentiable=True,
        )
        for way, sign in (("FFT", -1), ("IFFT", 1))
    ]
    return [
        *batches,
        OpRecord(
            f"FFT{name}",
            [sample(_WAVES), sample(np.zeros((0, *sizes))), sample(np.zeros((*sizes[:-1], 0)))],
            _complex(axes, -1),
            [flat],
            {"Tcomplex": COMPLEX},
            loose=30,
            differentiable=True,
        ),
        OpRecord(
            f"IFFT{name}",
            [sample(_WAVES), sample(np.zeros((0, *sizes))), sample(np.zeros((*sizes[:-1], 0)))],
            _complex(axes, 1),
            [flat],
            {"Tcomplex": COMPLEX},
            loose=30,
            differentiable=True,
        ),
        OpRecord(
            f"RFFT{name}",
            [
                sample(_CUBE, sizes),
                sample(_CUBE, fewer),
                sample(_CUBE, [*sizes[:-1], 0]),
                sample(np.zeros((0, *sizes)), sizes),
                sample(np.zeros((*sizes[:-1], 0)), sizes),
            ],
            _forward(axes),
            wrong,
            only=_PAIRS,
            loose=30,
            differentiable=True,
        ),
        OpRecord(
            f"IRFFT{name}",
            [
                *halved,
                sample(_WAVES, [*sizes[:-1], 0]),
                sample(np.zeros((0, *sizes)), sizes),
                sample(np.zeros((*sizes[:-1], 0)), sizes),
            ],
            _inverse(axes),
            [*wrong[:4], bad("InvalidArgumentError", "Wrong types", _CUBE, sizes, Treal="float64")],
            only=_PAIRS,
            loose=30,
            differentiable=True,
        ),
    ]


_OF_SPECTRAL: Final = [record for axes in (1, 2, 3) for record in _records(axes)]


# Fourier transforms over axes that are named.

_CUBE_ANY_AXES: Final = np.random.default_rng(6).normal(size=(2, 3, 4, 6))
_WAVES_ANY_AXES: Final = _CUBE_ANY_AXES + 1j * _CUBE_ANY_AXES[::-1]
_PAIRS_ANY_AXES: Final = [
    {"Treal": "float32", "Tcomplex": "complex64"},
    {"Treal": "float64", "Tcomplex": "complex128"},
]


def _turned_any_axes(x: Any, axis: int, length: int, sign: int) -> Any:
    """The sum that defines the transform, along one axis cut or filled up to a length."""
    kept = np.zeros((*x.shape[:axis], length, *x.shape[axis + 1 :]), complex)
    both = [slice(None)] * axis + [slice(min(length, x.shape[axis]))]
    kept[tuple(both)] = x[tuple(both)]
    turns = np.exp(sign * 2j * np.pi * np.outer(np.arange(length), np.arange(length)) / length)
    moved = np.moveaxis(kept, axis, -1) @ turns
    return np.moveaxis(moved / length if sign > 0 else moved, -1, axis)


def _forward_any_axes(x: Any, lengths: Any, axes: Any) -> Any:
    for length, axis in zip(lengths, axes % x.ndim, strict=True):
        x = _turned_any_axes(x, int(axis), int(length), -1)
    return x


def _backward(x: Any, lengths: Any, axes: Any) -> Any:
    for length, axis in zip(lengths, axes % x.ndim, strict=True):
        x = _turned_any_axes(x, int(axis), int(length), 1)
    return x


def _of_real(x: Any, lengths: Any, axes: Any) -> Any:
    return np.take(_forward_any_axes(x, lengths, axes), range(int(lengths[-1]) // 2 + 1), int(axes[-1]))


def _to_real(x: Any, lengths: Any, axes: Any) -> Any:
    x = _backward(x, lengths[:-1], axes[:-1])
    length = int(lengths[-1])
    half = np.moveaxis(x, int(axes[-1]), -1)[..., : length // 2 + 1]
    whole = np.concatenate([half, np.conj(half[..., 1 : (length + 1) // 2][..., ::-1])], axis=-1)
    return np.moveaxis(np.fft.ifft(whole).real, -1, int(axes[-1]))


_BAD: Final = [
    bad("InvalidArgumentError", "", _CUBE_ANY_AXES, [3, 4], [1]),
    bad("InvalidArgumentError", "positive", _CUBE_ANY_AXES, [0], [1]),
    bad("InvalidArgumentError", "[-4, 4)", _CUBE_ANY_AXES, [3], [4]),
    bad("InvalidArgumentError", "once", _CUBE_ANY_AXES, [3, 3], [1, -3]),
]
_WAYS: Final = [([4, 6], [2, 3]), ([2, 4, 6], [0, -2, -1]), ([3], [1]), ([6, 3], [3, 1])]
_EVEN: Final = [([4, 6], [2, 3]), ([2, 6], [0, -1])]

_OF_ANY_AXES: Final = [
    OpRecord(
        "FFTND",
        [*(sample(_WAVES_ANY_AXES, *way) for way in _WAYS), sample(_WAVES_ANY_AXES, [3, 8], [2, 3])],
        _forward_any_axes,
        _BAD,
        {"Tcomplex": COMPLEX},
        differentiable=["input"],
        loose=30,
    ),
    OpRecord(
        "IFFTND",
        [sample(_WAVES_ANY_AXES, *way) for way in _WAYS],
        _backward,
        _BAD,
        {"Tcomplex": COMPLEX},
        differentiable=["input"],
        loose=30,
    ),
    OpRecord(
        "RFFTND",
        [sample(_CUBE_ANY_AXES, *way) for way in _WAYS],
        _of_real,
        _BAD,
        differentiable=["input"],
        only=_PAIRS_ANY_AXES,
        loose=30,
    ),
    OpRecord(
        "IRFFTND",
        [sample(_WAVES_ANY_AXES[..., :4], *way) for way in _EVEN],
        _to_real,
        _BAD,
        differentiable=["input"],
        only=_PAIRS_ANY_AXES,
        loose=30,
    ),
]


RECORDS: Final = [*_OF_SPECTRAL, *_OF_ANY_AXES]
