"""Comparisons and logic of two tensors."""

from __future__ import annotations

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import SCALAR, UNKNOWN_SHAPE, broadcast_shapes
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import Broadcasts, NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import broadcast, divide_dim, merged, ranked, ranked_at_least, replace_dim

define(
    "Greater(x, y: T) -> z: bool",
    "T: realnumbertype",
    Broadcasts("x", "y"),
    NotDifferentiable(),
    shape=broadcast,
)
define(
    "GreaterEqual(x, y: T) -> z: bool",
    "T: realnumbertype",
    Broadcasts("x", "y"),
    NotDifferentiable(),
    shape=broadcast,
)
define(
    "Less(x, y: T) -> z: bool",
    "T: realnumbertype",
    Broadcasts("x", "y"),
    NotDifferentiable(),
    shape=broadcast,
)
define(
    "LessEqual(x, y: T) -> z: bool",
    "T: realnumbertype",
    Broadcasts("x", "y"),
    NotDifferentiable(),
    shape=broadcast,
)
define(
    "LogicalAnd(x, y: bool) -> z: bool",
    "commutative",
    Broadcasts("x", "y"),
    NotDifferentiable(),
    shape=broadcast,
)
define(
    "LogicalOr(x, y: bool) -> z: bool",
    "commutative",
    Broadcasts("x", "y"),
    NotDifferentiable(),
    shape=broadcast,
)


@define(
    "Equal(x, y: T) -> z: bool",
    "commutative; T: equatabletype; incompatible_shape_error: bool = true",
    NotDifferentiable(),
)
@define(
    "NotEqual(x, y: T) -> z: bool",
    "commutative; T: equatabletype; incompatible_shape_error: bool = true",
    NotDifferentiable(),
)
def equal(c: ShapeContext) -> Shapes:
    """Broadcast; where that cannot work and the attribute allows it, one scalar that says so."""
    try:
        shape = broadcast_shapes(c.input(0), c.input(1))
    except InvalidArgumentError:
        if c.attrs["incompatible_shape_error"]:
            raise
        return [SCALAR]
    if c.attrs["incompatible_shape_error"] or (c.input(0).is_fully_defined and c.input(1).is_fully_defined):
        return [shape]
    # Shapes found incompatible when the step runs would give a scalar.
    return [UNKNOWN_SHAPE]


define(
    "ApproximateEqual(x, y: T) -> z: bool",
    "commutative; T: numbertype; tolerance: float = 1e-05",
    NotDifferentiable(),
    shape=merged,
)


@define(
    "CompareAndBitpack(input, threshold: T) -> output: uint8",
    "T: {bool, half, float, double, int8, int16, int32, int64}",
    NotDifferentiable(),
)
def bitpack(c: ShapeContext) -> Shapes:
    shape = ranked_at_least(c, 0, 1)
    ranked(c, 1, 0)
    return [replace_dim(shape, -1, divide_dim(shape[-1], 8, "The last dimension"))]
