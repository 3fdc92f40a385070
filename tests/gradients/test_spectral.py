"""Derivatives of Fourier transforms: even and odd lengths, cropped inputs, one axis to three."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from tests.gradients.differences import check, numbers

_SHAPES: Final = pytest.mark.parametrize("shapes", ["known", "unknown"])
_AXES: Final = pytest.mark.parametrize(("axes", "suffix"), [(1, ""), (2, "2D"), (3, "3D")])


def _some(*shape: int, dtype: str) -> Any:
    return numbers(np.random.default_rng(shape), shape, dtype)


@_SHAPES
@_AXES
def test_complex_transforms(axes: int, suffix: str, shapes: str) -> None:
    def build(ops: Any, v: Any) -> Any:
        return [getattr(ops, name + suffix)(v[0]) for name in ("FFT", "IFFT")]

    check(build, [_some(2, 2, 3, 4, dtype="complex128")], shapes=shapes)


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("last", [1, 2, 4, 5])
@_SHAPES
@_AXES
def test_transforms_of_real_numbers(axes: int, suffix: str, shapes: str, last: int, more: int) -> None:
    lengths = [2, 3, last][-axes:]

    def build(ops: Any, v: Any) -> Any:
        types = {"Treal": "float64", "Tcomplex": "complex128"}
        there = getattr(ops, "RFFT" + suffix)(v[0], v[2], **types)
        return [there, getattr(ops, "IRFFT" + suffix)(v[1], v[2], **types)]

    real = _some(2, *(size + more for size in lengths), dtype="float64")
    half = _some(2, *lengths[:-1], lengths[-1] // 2 + 1 + more, dtype="complex128")
    check(build, [real, half, np.array(lengths, np.int32)], shapes=shapes)


@_SHAPES
@_AXES
def test_an_empty_axis_has_an_empty_gradient(axes: int, suffix: str, shapes: str) -> None:
    lengths = np.full(axes, 4, np.int32)

    def build(ops: Any, v: Any) -> Any:
        types = {"Treal": "float64", "Tcomplex": "complex128"}
        there = getattr(ops, "RFFT" + suffix)(v[0], lengths, **types)
        return [there, getattr(ops, "IRFFT" + suffix)(v[1], lengths, **types)]

    empty = (*[4] * (axes - 1), 0)
    check(build, [np.zeros(empty), np.zeros(empty, complex)], shapes=shapes)
