"""Fourier transforms over axes that are named, each to a length of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.common.array_args import integers
from flowengine.kernels.registry import kernel


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
