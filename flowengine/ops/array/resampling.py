"""Elements moved from one axis to the others, as TensorFlow 1's contrib packages had it."""

from __future__ import annotations

import math

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import attr_shape

_NUMBERS = (
    "T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, bfloat16, "
    "uint16, complex128, half, uint32, uint64}"
)


@define("PeriodicResample(values: T) -> output: T", _NUMBERS, "shape: shape")
def periodic_resample(c: ShapeContext) -> Shapes:
    """As the attribute; its open axis has what is left of the elements."""
    wanted, given = attr_shape(c)[0], c.input(0)
    dims = wanted.dims
    if dims is None or dims.count(None) != 1 or given.num_elements() is None or given.rank != len(dims):
        return [wanted]
    others = math.prod(size for size in dims if size is not None)
    left = None if not others else (given.num_elements() or 0) // others
    return [TensorShape([left if size is None else size for size in dims])]


@define(
    "PeriodicResampleOpGrad(grad: T) -> grad_values: T",
    _NUMBERS,
    "original_shape, desired_shape: shape",
)
def periodic_resample_grad(c: ShapeContext) -> Shapes:
    """As the attribute `original_shape`."""
    shape = c.attrs["original_shape"]
    assert isinstance(shape, TensorShape)
    return [shape]
