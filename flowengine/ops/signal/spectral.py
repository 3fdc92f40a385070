"""Fourier transforms over the innermost axes, or over named ones."""

from __future__ import annotations

from typing import Final

from flowengine.core.arrays import to_array
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape, unknown_of_rank
from flowengine.ir.opdef import ShapeContext, ShapeFunction, Shapes
from flowengine.ir.traits import Newer
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import at_least, dims_of, merge_dims, ranked, ranked_at_least

# Fourier transforms.

define("FFT(input: Tcomplex) -> output: Tcomplex", "Tcomplex: complextype = complex64", shape=at_least(1))
define("IFFT(input: Tcomplex) -> output: Tcomplex", "Tcomplex: complextype = complex64", shape=at_least(1))
define("BatchFFT(input: complex64) -> output: complex64", shape=at_least(1))
define("BatchIFFT(input: complex64) -> output: complex64", shape=at_least(1))
define("FFT2D(input: Tcomplex) -> output: Tcomplex", "Tcomplex: complextype = complex64", shape=at_least(2))
define("IFFT2D(input: Tcomplex) -> output: Tcomplex", "Tcomplex: complextype = complex64", shape=at_least(2))
define("BatchFFT2D(input: complex64) -> output: complex64", shape=at_least(2))
define("BatchIFFT2D(input: complex64) -> output: complex64", shape=at_least(2))
define("FFT3D(input: Tcomplex) -> output: Tcomplex", "Tcomplex: complextype = complex64", shape=at_least(3))
define("IFFT3D(input: Tcomplex) -> output: Tcomplex", "Tcomplex: complextype = complex64", shape=at_least(3))
define("BatchFFT3D(input: complex64) -> output: complex64", shape=at_least(3))
define("BatchIFFT3D(input: complex64) -> output: complex64", shape=at_least(3))


def real_transform(axes: int, *, halved: bool) -> ShapeFunction:
    """The last axes get the lengths of the second input; the very last keeps one more than half of them."""

    def function(c: ShapeContext) -> Shapes:
        shape = ranked_at_least(c, 0, axes)
        merge_dims(ranked(c, 1, 1)[0], axes, "The number of lengths and of axes")
        if shape.dims is None:
            return [UNKNOWN_SHAPE]
        lengths = list(dims_of(c.input_as_shape(1), axes))
        if halved and lengths[-1]:
            lengths[-1] = lengths[-1] // 2 + 1
        return [TensorShape((*shape.dims[:-axes], *lengths))]

    return function


#: What holds of the types is checked by the kernel.
_REAL: Final = "Treal: {float, double} = float; Tcomplex: complextype = complex64"
_NEWER: Final = Newer(("Treal", "Tcomplex"))
define(
    "RFFT(input: Treal, fft_length: int32) -> output: Tcomplex",
    _REAL,
    _NEWER,
    shape=real_transform(1, halved=True),
)
define(
    "RFFT2D(input: Treal, fft_length: int32) -> output: Tcomplex",
    _REAL,
    _NEWER,
    shape=real_transform(2, halved=True),
)
define(
    "RFFT3D(input: Treal, fft_length: int32) -> output: Tcomplex",
    _REAL,
    _NEWER,
    shape=real_transform(3, halved=True),
)
define(
    "IRFFT(input: Tcomplex, fft_length: int32) -> output: Treal",
    _REAL,
    _NEWER,
    shape=real_transform(1, halved=False),
)
define(
    "IRFFT2D(input: Tcomplex, fft_length: int32) -> output: Treal",
    _REAL,
    _NEWER,
    shape=real_transform(2, halved=False),
)
define(
    "IRFFT3D(input: Tcomplex, fft_length: int32) -> output: Treal",
    _REAL,
    _NEWER,
    shape=real_transform(3, halved=False),
)


# Fourier transforms over axes that are named.


def _over_axes(halved: bool) -> ShapeFunction:
    """The named axes get the lengths; the last of them keeps one more than half where `halved`."""

    def function(c: ShapeContext) -> Shapes:
        merge_dims(dims_of(ranked(c, 1, 1), 1)[0], dims_of(ranked(c, 2, 1), 1)[0], "Lengths and axes")
        shape, axes, lengths = c.input(0), c.input_value(2), c.input_as_shape(1)
        if shape.dims is None or axes is None or lengths.dims is None:
            return [shape if shape.dims is None else unknown_of_rank(len(shape.dims))]
        dims = list(shape.dims)
        places = to_array(axes).tolist()
        for place, length in zip(places, lengths.dims, strict=False):
            if -len(dims) <= place < len(dims):
                is_last = place == places[-1]
                dims[place] = length // 2 + 1 if halved and is_last and length is not None else length
        return [TensorShape(dims)]

    return function


#: What holds of the types is checked by the kernel.

define(
    "FFTND, IFFTND(input: Tcomplex, fft_length, axes: int32) -> output: Tcomplex",
    "Tcomplex: complextype = complex64",
    shape=_over_axes(False),
)
define(
    "RFFTND(input: Treal, fft_length, axes: int32) -> output: Tcomplex",
    _REAL,
    shape=_over_axes(True),
)
define(
    "IRFFTND(input: Tcomplex, fft_length, axes: int32) -> output: Treal",
    _REAL,
    shape=_over_axes(False),
)
