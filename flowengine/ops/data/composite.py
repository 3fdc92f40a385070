"""Several tensors that make one value, such as a sparse tensor, as one variant."""

from __future__ import annotations

from flowengine.core.shapes import UNKNOWN_SHAPE
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import check_scalars, scalars

define(
    "CompositeTensorVariantFromComponents(components: Tcomponents) -> encoded: variant",
    "metadata: string; Tcomponents: list(type) >= 0",
    NotDifferentiable(),
    shape=scalars,
)


@define(
    "CompositeTensorVariantToComponents(encoded: variant) -> components: Tcomponents",
    "metadata: string; Tcomponents: list(type) >= 0",
    NotDifferentiable(),
)
def components(c: ShapeContext) -> Shapes:
    check_scalars(c, 0)
    return [UNKNOWN_SHAPE] * c.num_outputs
