"""Elementwise arithmetic of two tensors and more, division and remainders."""

from __future__ import annotations

from typing import Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import broadcast_shapes
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import (
    Broadcasts,
    Droppable,
    Elementwise,
    Multiplies,
    NetworkLayer,
    NotDifferentiable,
)
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import broadcast, merge, merge_dims, merged, replace_dim

# Elementwise arithmetic of two tensors and more.

#: Element by element, of two tensors.
PAIRS: Final = Broadcasts("x", "y")

define(
    "Add(x, y: T) -> z: T",
    "T: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128, string}",
    PAIRS,
    NetworkLayer(),
    shape=broadcast,
)
define(
    "AddV2(x, y: T) -> z: T",
    "commutative; aggregate",
    "T: arithmetictype",
    PAIRS,
    NetworkLayer(),
    shape=broadcast,
)
define("Sub(x, y: T) -> z: T", "T: arithmetictype", PAIRS, shape=broadcast)
define(
    "Mul(x, y: T) -> z: T",
    "commutative; T: arithmetictype",
    PAIRS,
    Multiplies("x", "y"),
    Droppable(),
    shape=broadcast,
)
define("MulNoNan(x, y: T) -> z: T", "T: inexacttype", PAIRS, shape=broadcast)
define(
    "Pow(x, y: T) -> z: T",
    "T: {bfloat16, float, half, double, int8, int16, int32, int64, complex64, complex128}",
    PAIRS,
    shape=broadcast,
)
define("Maximum(x, y: T) -> z: T", "T: realnumbertype", PAIRS, shape=broadcast)
define("Minimum(x, y: T) -> z: T", "T: realnumbertype", PAIRS, shape=broadcast)
define("SquaredDifference(x, y: T) -> z: T", "commutative; T: signedtype", PAIRS, shape=broadcast)
define("Atan2(y, x: T) -> z: T", "T: floattype", PAIRS, shape=broadcast)
define("NextAfter(x1, x2: T) -> output: T", "T: {double, float} = float", shape=broadcast)
define("Xdivy(x, y: T) -> z: T", "T: inexacttype", PAIRS, shape=broadcast)
define(
    "Xlog1py(x, y: T) -> z: T",
    "T: {half, bfloat16, float, double, complex64, complex128}",
    PAIRS,
    shape=broadcast,
)
define("Xlogy(x, y: T) -> z: T", "T: inexacttype", PAIRS, shape=broadcast)
define(
    "AddN(inputs: N * T) -> sum: T",
    "commutative; aggregate; N: int >= 1",
    "T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, bfloat16, "
    "uint16, complex128, half, uint32, uint64, variant}",
    Elementwise(),
    shape=merged,
)


@define(
    "AccumulateNV2(inputs: N * T) -> sum: T",
    "commutative; aggregate; N: int >= 1; T: numbertype; shape: shape",
)
def accumulate(c: ShapeContext) -> Shapes:
    return [merge(c, range(c.num_inputs)).merge_with(c.attrs["shape"])]


@define("ClipByValue(t, clip_value_min, clip_value_max: T) -> output: T", "T: numbertype")
def clip(c: ShapeContext) -> Shapes:
    """The bounds are scalars or have the shape of the tensor."""
    shape = c.input(0)
    for index in (1, 2):
        bound = c.input(index)
        if bound.rank not in (None, 0) and not bound.is_compatible_with(shape):
            raise InvalidArgumentError(f"a bound of shape {bound} does not fit a tensor of shape {shape}")
    return [shape]


@define("Select(condition: bool, t, e: T) -> output: T", "T: type")
def select(c: ShapeContext) -> Shapes:
    """t and e of one shape; the condition has it too, is a scalar, or chooses rows."""
    shape = merge(c, (1, 2))
    condition = c.input(0)
    if condition.dims is None or shape.dims is None:
        return [shape]
    if not condition.dims:
        return [shape]
    if len(condition.dims) == 1 and shape.dims:
        rows = merge_dims(condition.dims[0], shape.dims[0], "The condition's length and the rows")
        return [replace_dim(shape, 0, rows)]
    return [merge(c, (0, 1, 2))]


@define("SelectV2(condition: bool, t, e: T) -> output: T", "T: type")
def select_broadcast(c: ShapeContext) -> Shapes:
    return [broadcast_shapes(c.input(0), broadcast_shapes(c.input(1), c.input(2)))]


define(
    "BitwiseAnd(x, y: T) -> z: T", "commutative; T: integertype", PAIRS, NotDifferentiable(), shape=broadcast
)
define(
    "BitwiseOr(x, y: T) -> z: T", "commutative; T: integertype", PAIRS, NotDifferentiable(), shape=broadcast
)
define(
    "BitwiseXor(x, y: T) -> z: T", "commutative; T: integertype", PAIRS, NotDifferentiable(), shape=broadcast
)
define("LeftShift(x, y: T) -> z: T", "T: integertype", NotDifferentiable(), shape=broadcast)
define("RightShift(x, y: T) -> z: T", "T: integertype", NotDifferentiable(), shape=broadcast)


# Division and remainders.

#: Element by element, of two tensors.


define("Div(x, y: T) -> z: T", "T: arithmetictype", PAIRS, shape=broadcast)
define("DivNoNan(x, y: T) -> z: T", "T: inexacttype", PAIRS, shape=broadcast)
define("RealDiv(x, y: T) -> z: T", "T: arithmetictype", PAIRS, shape=broadcast)
define("FloorDiv(x, y: T) -> z: T", "T: arithmetictype", PAIRS, NotDifferentiable(), shape=broadcast)
define("TruncateDiv(x, y: T) -> z: T", "T: arithmetictype", PAIRS, NotDifferentiable(), shape=broadcast)
define("FloorMod(x, y: T) -> z: T", "T: realnumbertype", PAIRS, shape=broadcast)
define(
    "TruncateMod(x, y: T) -> z: T",
    "T: {int32, int64, bfloat16, half, float, double}",
    PAIRS,
    shape=broadcast,
)
define(
    "Mod(x, y: T) -> z: T", "T: {int32, int64, half, half, bfloat16, float, double}", PAIRS, shape=broadcast
)
