"""Fourier transforms."""

from __future__ import annotations

from typing import Final

from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext, ShapeFunction, Shapes
from flowengine.ir.traits import Newer
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import at_least, dims_of, merge_dims, ranked, ranked_at_least

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
