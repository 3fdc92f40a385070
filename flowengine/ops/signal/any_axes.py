"""Fourier transforms over axes that are named."""

from __future__ import annotations

from typing import Final

from flowengine.core.arrays import to_array
from flowengine.core.shapes import TensorShape, unknown_of_rank
from flowengine.ir.opdef import ShapeContext, ShapeFunction, Shapes
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import dims_of, merge_dims, ranked


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
_REAL: Final = "Treal: {float, double} = float; Tcomplex: complextype = complex64"
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
