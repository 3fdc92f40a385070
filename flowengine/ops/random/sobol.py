"""Sequences that fill a cube evenly."""

from __future__ import annotations

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import check_scalars, dimension_value


@define(
    "SobolSample(dim, num_results, skip: int32) -> samples: dtype",
    "dtype: {float, double} = float",
    NotDifferentiable(),
)
def sobol(c: ShapeContext) -> Shapes:
    check_scalars(c, 0, 1, 2)
    return [TensorShape([dimension_value(c, 1), dimension_value(c, 0)])]
