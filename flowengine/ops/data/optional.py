"""Optional values, and values of several components."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import check_scalars, scalars

# Values that may not be there.


@define(
    "OptionalGetValue(optional: variant) -> components: output_types",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
)
def components(c: ShapeContext) -> Shapes:
    """Return the shapes in the attribute; every element is checked against them."""
    shapes: Sequence[TensorShape] = c.attrs["output_shapes"]
    if len(shapes) != c.num_outputs:
        raise InvalidArgumentError(f"output_shapes has {len(shapes)} elements for {c.num_outputs} outputs")
    return shapes


define(
    "OptionalFromValue(components: Toutput_types) -> optional: variant",
    "Toutput_types: list(type) >= 1",
    shape=scalars,
)
define("OptionalHasValue(optional: variant) -> has_value: bool", NotDifferentiable(), shape=scalars)
define("OptionalNone() -> optional: variant", NotDifferentiable(), shape=scalars)


# Several tensors that make one value, such as a sparse tensor, as one variant.

define(
    "CompositeTensorVariantFromComponents(composite_components: Tcomponents) -> encoded: variant",
    "metadata: string; Tcomponents: list(type) >= 0",
    NotDifferentiable(),
    shape=scalars,
)


@define(
    "CompositeTensorVariantToComponents(encoded: variant) -> composite_components: Tcomponents",
    "metadata: string; Tcomponents: list(type) >= 0",
    NotDifferentiable(),
)
def composite_components(c: ShapeContext) -> Shapes:
    check_scalars(c, 0)
    return [UNKNOWN_SHAPE] * c.num_outputs
