"""Values that may not be there."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars


@define(
    "OptionalGetValue(optional: variant) -> components: output_types",
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
)
def components(c: ShapeContext) -> Shapes:
    """What the attribute says; every element is checked against it."""
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
