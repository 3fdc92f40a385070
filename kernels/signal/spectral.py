"""Fourier transforms over the innermost axes, or over named ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from flowengine.core.arrays import Array, is_numpy
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.common.array_args import brackets, integers
from flowengine.kernels.common.parallel import cores
from flowengine.kernels.registry import kernel

# Fourier transforms over the innermost one, two or three axes.
#
# SciPy computes them for NumPy's arrays: it goes through a batch with vectors, large ones on several cores.

#: Elements, times the logarithm of their number, that a core transforms in a microsecond.
_STEPS_A_MICROSECOND: Final = 1_000.0
#: Elements from which a transform is worth threads of its own.
_LARGE: Final = 1 << 17


def _cost(x: Array, *rest: Any) -> float:
    return float(x.size * math.log2(x.size + 2) / _STEPS_A_MICROSECOND)


def _transform(xp: Any, name: str, x: Array, axes: int, lengths: list[int] | None = None) -> Any:
    """Apply the function of this name to the last axes of x."""
    where = (None if lengths is None else lengths[0], -1) if axes == 1 else (lengths, tuple(range(-axes, 0)))
    name += "" if axes == 1 else "n"
    if not is_numpy(xp):
        return getattr(xp.fft, name)(x, *where)
    import scipy.fft

    return getattr(scipy.fft, name)(x, *where, workers=cores() if x.size >= _LARGE else 1)


def _check_rank(x: Array, axes: int) -> None:
    if x.ndim < axes:
        raise InvalidArgumentError(f"Input must have rank of at least {axes} but got: {brackets(x.shape)}")


def _cropped(x: Array, fft_length: Any, axes: int, *, halved: bool) -> tuple[Array, list[int]]:
    """The part of the input that is transformed, and the lengths; InvalidArgumentError where it has less.

    halved   the input has one more than half of the elements of the last axis
    """
    _check_rank(x, axes)
    if fft_length.shape != (axes,):
        raise InvalidArgumentError(
            f"fft_length must have shape [{axes}], but has {brackets(fft_length.shape)}"
        )
    lengths = integers(fft_length, "fft_length")
    for index, length in enumerate(lengths):
        if length < 0:
            raise InvalidArgumentError(f"fft_length[{index}] must >= 0, but got: {length}")
    wanted = [*lengths[:-1], lengths[-1] // 2 + 1] if halved else lengths
    for place, least in enumerate(wanted, x.ndim - axes):
        # An empty axis has nothing to transform, and gives zeros.
        if x.shape[place] and x.shape[place] < least:
            raise InvalidArgumentError(
                f"Input dimension {place} must have length of at least {least} but got: {x.shape[place]}"
            )
    part: Any = x
    for place, length in enumerate(wanted, x.ndim - axes):
        part = part[(*[slice(None)] * place, slice(length))]
    return part, lengths


def _check_types(real: DType, complex_: DType) -> None:
    if complex_.size != 2 * real.size:
        raise InvalidArgumentError(f"Wrong types for a real FFT: {real.name} and {complex_.name}")


def _forward(axes: int) -> Callable[..., Any]:
    def transform(xp: Any, x: Array, fft_length: Any, *, Treal: DType, Tcomplex: DType) -> Any:
        """The first half of the transform of real numbers: (..., N) -> (..., N / 2 + 1)."""
        _check_types(Treal, Tcomplex)
        part, lengths = _cropped(x, fft_length, axes, halved=False)
        if part.size:
            return _transform(xp, "rfft", part, axes, lengths)
        last = lengths[-1] // 2 + 1 if lengths[-1] else 0
        return xp.zeros((*x.shape[: x.ndim - axes], *lengths[:-1], last), Tcomplex.as_numpy_dtype)

    return transform


def _inverse(axes: int) -> Callable[..., Any]:
    def transform(xp: Any, x: Array, fft_length: Any, *, Treal: DType, Tcomplex: DType) -> Any:
        """The real numbers of which the input is the first half of the transform."""
        _check_types(Treal, Tcomplex)
        part, lengths = _cropped(x, fft_length, axes, halved=True)
        if part.size and 0 not in lengths:
            return _transform(xp, "irfft", part, axes, lengths)
        return xp.zeros((*x.shape[: x.ndim - axes], *lengths), Treal.as_numpy_dtype)

    return transform


def _complex(name: str, axes: int) -> Callable[..., Any]:
    def transform(xp: Any, x: Array) -> Any:
        """The transform of complex numbers."""
        _check_rank(x, axes)
        return _transform(xp, name, x, axes) if x.size else x.copy()

    return transform


for _axes, _suffix in enumerate(("", "2D", "3D"), 1):
    kernel(f"FFT{_suffix}", fresh=True, heavy=_cost)(_complex("fft", _axes))
    kernel(f"IFFT{_suffix}", fresh=True, heavy=_cost)(_complex("ifft", _axes))
    kernel(f"RFFT{_suffix}", fresh=True, heavy=_cost, host=("fft_length",))(_forward(_axes))
    kernel(f"IRFFT{_suffix}", fresh=True, heavy=_cost, host=("fft_length",))(_inverse(_axes))
    kernel(f"BatchFFT{_suffix}", fresh=True, heavy=_cost)(_complex("fft", _axes))
    kernel(f"BatchIFFT{_suffix}", fresh=True, heavy=_cost)(_complex("ifft", _axes))


# Fourier transforms over axes that are named, each to a length of its own.


def _checked(x: Array, fft_length: Any, axes: Any) -> tuple[list[int], list[int]]:
    """(lengths, axes counted from the front)"""
    lengths, places = integers(fft_length, "fft_length"), integers(axes, "axes")
    if len(lengths) != len(places) or not places:
        raise InvalidArgumentError(
            f"fft_length and axes must have one number for each axis, at least one: {lengths} and {places}"
        )
    if min(lengths) < 1:
        raise InvalidArgumentError(f"fft_length must be positive, but is {lengths}")
    if not all(-x.ndim <= place < x.ndim for place in places):
        raise InvalidArgumentError(f"axes must be in [{-x.ndim}, {x.ndim}), but are {places}")
    places = [place % x.ndim for place in places]
    if len(set(places)) != len(places):
        raise InvalidArgumentError(f"each of the axes may be named once, but they are {places}")
    return lengths, places


def _over_axes(name: str) -> Callable[..., Any]:
    def transform(xp: Any, x: Array, fft_length: Any, axes: Any, *, node: Node) -> Any:
        """Axes cut, or filled up with zeros, to their lengths, and transformed."""
        lengths, places = _checked(x, fft_length, axes)
        real, kind = node.attrs.get("Treal"), node.attrs["Tcomplex"]
        if real is not None and kind.size != 2 * real.size:
            raise InvalidArgumentError(f"Wrong types for a real FFT: {real.name} and {kind.name}")
        found = getattr(xp.fft, name)(x, lengths, places)
        wanted = node.output_types[0].as_numpy_dtype
        return found.astype(wanted, copy=False)

    return transform


_HOST: Final = ("fft_length", "axes")
kernel("FFTND", fresh=True, host=_HOST)(_over_axes("fftn"))
kernel("IFFTND", fresh=True, host=_HOST)(_over_axes("ifftn"))
kernel("RFFTND", fresh=True, host=_HOST)(_over_axes("rfftn"))
kernel("IRFFTND", fresh=True, host=_HOST)(_over_axes("irfftn"))
