"""The greatest elements of rows, where an accelerator may miss some."""

from __future__ import annotations

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import ranked_at_least, replace_dim


@define(
    "ApproxTopK(input: T) -> values: T, indices: int32",
    "k: int >= 0; reduction_dimension: int = -1; recall_target: float = 0.95; is_max_k: bool = true",
    "reduction_input_size_override: int = -1; aggregate_to_topk: bool = true; T: {half, bfloat16, float}",
)
def approximate(c: ShapeContext) -> Shapes:
    shape = ranked_at_least(c, 0, 1)
    axis = c.attrs["reduction_dimension"]
    if shape.dims is None:
        return [UNKNOWN_SHAPE, UNKNOWN_SHAPE]
    if not -len(shape.dims) <= axis < len(shape.dims):
        raise InvalidArgumentError(f"reduction_dimension {axis} is none of a shape of {shape}")
    found = replace_dim(shape, axis, c.attrs["k"])
    return [found, found]
