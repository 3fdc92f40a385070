"""Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext, ShapeFunction
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import at_least, dims_of, merge_dims, ranked, ranked_at_least

define(
    "FFT",
    inputs=["input: Tcomplex"],
    outputs=["output: Tcomplex"],
    attrs=["Tcomplex: {complex64, complex128} = complex64"],
    shape=at_least(1),
)
define(
    "IFFT",
    inputs=["input: Tcomplex"],
    outputs=["output: Tcomplex"],
    attrs=["Tcomplex: {complex64, complex128} = complex64"],
    shape=at_least(1),
)
define("BatchFFT", inputs=["input: complex64"], outputs=["output: complex64"], shape=at_least(1))
define("BatchIFFT", inputs=["input: complex64"], outputs=["output: complex64"], shape=at_least(1))
define(
    "FFT2D",
    inputs=["input: Tcomplex"],
    outputs=["output: Tcomplex"],
    attrs=["Tcomplex: {complex64, complex128} = complex64"],
    shape=at_least(2),
)
define(
    "IFFT2D",
    inputs=["input: Tcomplex"],
    outputs=["output: Tcomplex"],
    attrs=["Tcomplex: {complex64, complex128} = complex64"],
    shape=at_least(2),
)
define("BatchFFT2D", inputs=["input: complex64"], outputs=["output: complex64"], shape=at_least(2))
define("BatchIFFT2D", inputs=["input: complex64"], outputs=["output: complex64"], shape=at_least(2))
define(
    "FFT3D",
    inputs=["input: Tcomplex"],
    outputs=["output: Tcomplex"],
    attrs=["Tcomplex: {complex64, complex128} = complex64"],
    shape=at_least(3),
)
define(
    "IFFT3D",
    inputs=["input: Tcomplex"],
    outputs=["output: Tcomplex"],
    attrs=["Tcomplex: {complex64, complex128} = complex64"],
    shape=at_least(3),
)
define("BatchFFT3D", inputs=["input: complex64"], outputs=["output: complex64"], shape=at_least(3))
define("BatchIFFT3D", inputs=["input: complex64"], outputs=["output: complex64"], shape=at_least(3))


def real_transform(axes: int, *, halved: bool) -> ShapeFunction:
    """The last axes get the lengths of the second input; the very last keeps one more than half of them."""

    def function(c: ShapeContext) -> Sequence[TensorShape]:
        shape = ranked_at_least(c, 0, axes)
        merge_dims(ranked(c, 1, 1)[0], axes, "The number of lengths and of axes")
        if shape.dims is None:
            return [UNKNOWN_SHAPE]
        lengths = list(dims_of(c.input_as_shape(1), axes))
        if halved and lengths[-1]:
            lengths[-1] = lengths[-1] // 2 + 1
        return [TensorShape((*shape.dims[:-axes], *lengths))]

    return function


define(
    "RFFT",
    inputs=["input: float", "fft_length: int32"],
    outputs=["output: complex64"],
    shape=real_transform(1, halved=True),
)
define(
    "RFFT2D",
    inputs=["input: float", "fft_length: int32"],
    outputs=["output: complex64"],
    shape=real_transform(2, halved=True),
)
define(
    "RFFT3D",
    inputs=["input: float", "fft_length: int32"],
    outputs=["output: complex64"],
    shape=real_transform(3, halved=True),
)
define(
    "IRFFT",
    inputs=["input: complex64", "fft_length: int32"],
    outputs=["output: float"],
    shape=real_transform(1, halved=False),
)
define(
    "IRFFT2D",
    inputs=["input: complex64", "fft_length: int32"],
    outputs=["output: float"],
    shape=real_transform(2, halved=False),
)
define(
    "IRFFT3D",
    inputs=["input: complex64", "fft_length: int32"],
    outputs=["output: float"],
    shape=real_transform(3, halved=False),
)
