"""Conversions between types, and the check for NaN and infinity."""

from __future__ import annotations

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import Checks
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import unchanged

define(
    "CheckNumerics(tensor: T) -> output: T",
    "stateful; T: floattype; message: string",
    Checks(),
    shape=unchanged,
)
define(
    "CheckNumericsV2(tensor: T) -> output: T",
    "stateful; T: floattype; message: string",
    Checks(),
    shape=unchanged,
)


@define(
    "Bitcast(input: T) -> output: type",
    "T, type: {bfloat16, half, float, double, int64, int32, uint8, uint16, uint32, uint64, int8, "
    "int16, complex64, complex128, qint8, quint8, qint16, quint16, qint32}",
)
def bitcast(c: ShapeContext) -> Shapes:
    """(..., k) of small elements -> (...) of k times larger ones; the reverse; or unchanged."""
    shape = c.input(0)
    small, large = c.attrs["type"].size, c.attrs["T"].size
    if shape.dims is None or not small or not large:
        return [UNKNOWN_SHAPE]
    if small == large:
        return [shape]
    if large > small:
        return [TensorShape((*shape.dims, large // small))]
    if not shape.dims:
        raise InvalidArgumentError("Cannot bitcast a scalar to a larger type")
    if shape.dims[-1] not in (None, small // large):
        raise InvalidArgumentError(
            f"Cannot bitcast {shape} of {large} bytes an element to {small} bytes: "
            f"the last dimension must be {small // large}"
        )
    return [TensorShape(shape.dims[:-1])]


define("Cast(x: SrcT) -> y: DstT", "SrcT, DstT: type; Truncate: bool = false", shape=unchanged)
