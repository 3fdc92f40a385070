"""Strings from numbers, and from other strings."""

from __future__ import annotations

from flowengine.core.shapes import SCALAR, UNKNOWN_SHAPE
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars, unchanged

define(
    "AsString(input: T) -> output: string",
    "T: {int8, int16, int32, int64, uint8, uint16, uint32, uint64, complex64, complex128, "
    "bfloat16, half, float, double, bool, string}; precision: int = -1",
    "scientific, shortest: bool = false; width: int = -1; fill: string = ''",
    NotDifferentiable(),
    shape=unchanged,
)
define(
    "StringFormat(inputs: T) -> output: string",
    "T: list(type) >= 0; template, placeholder: string = '%s'; summarize: int = 3",
    NotDifferentiable(),
    shape=scalars,
)


@define(
    "StringJoin(inputs: N * string) -> output: string",
    "N: int >= 1; separator: string = ''",
    NotDifferentiable(),
)
def join(c: ShapeContext) -> Shapes:
    """Tensors of one shape; a scalar goes with each element."""
    shape = UNKNOWN_SHAPE
    open_rank = False
    for index in range(c.num_inputs):
        other = c.input(index)
        if other.dims is None:
            open_rank = True
        elif other.dims:
            shape = shape.merge_with(other)
    if shape.dims is None and not open_rank:
        return [SCALAR]
    return [shape]
