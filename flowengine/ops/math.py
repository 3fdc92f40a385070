"""Sequences, selections and sums of many tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence

from flowengine.core.arrays import to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import SCALAR, UNKNOWN_SHAPE, TensorShape, broadcast_shapes
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    VECTOR,
    check_scalars,
    merge,
    merge_dims,
    merged,
    replace_dim,
    scalar_value,
    vector,
)

define(
    "AddN",
    inputs=["inputs: N * T"],
    outputs=["sum: T"],
    attrs=[
        "N: int >= 1",
        (
            "T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, "
            "bfloat16, uint16, complex128, half, uint32, uint64, variant}"
        ),
    ],
    is_commutative=True,
    is_aggregate=True,
    shape=merged,
)


def accumulate(c: ShapeContext) -> Sequence[TensorShape]:
    return [merge(c, range(c.num_inputs)).merge_with(c.attrs["shape"])]


define(
    "AccumulateNV2",
    inputs=["inputs: N * T"],
    outputs=["sum: T"],
    attrs=["N: int >= 1", "T: numbertype", "shape: shape"],
    is_commutative=True,
    is_aggregate=True,
    shape=accumulate,
)


def betainc(c: ShapeContext) -> Sequence[TensorShape]:
    """Three tensors of one shape, scalars aside."""
    result = SCALAR
    for index in range(3):
        shape = c.input(index)
        if shape.dims is None:
            result = shape if result.rank == 0 else result
        elif shape.dims:
            result = shape if not result.rank else result.merge_with(shape)
    known = [c.input(i) for i in range(3)]
    if result.rank == 0 and any(s.dims is None for s in known):
        return [UNKNOWN_SHAPE]
    return [result]


define(
    "Betainc", inputs=["a: T", "b: T", "x: T"], outputs=["z: T"], attrs=["T: {float, double}"], shape=betainc
)


def clip(c: ShapeContext) -> Sequence[TensorShape]:
    """The bounds are scalars or have the shape of the tensor."""
    shape = c.input(0)
    for index in (1, 2):
        bound = c.input(index)
        if bound.rank not in (None, 0) and not bound.is_compatible_with(shape):
            raise InvalidArgumentError(f"a bound of shape {bound} does not fit a tensor of shape {shape}")
    return [shape]


define(
    "ClipByValue",
    inputs=["t: T", "clip_value_min: T", "clip_value_max: T"],
    outputs=["output: T"],
    attrs=["T: numbertype"],
    shape=clip,
)


def lin_space(c: ShapeContext) -> Sequence[TensorShape]:
    check_scalars(c, 0, 1, 2)
    count = scalar_value(c, 2)
    if count is not None and count <= 0:
        raise InvalidArgumentError(f"Requires num > 0: {count}")
    return [vector(count)]


define(
    "LinSpace",
    inputs=["start: T", "stop: T", "num: Tidx"],
    outputs=["output: T"],
    attrs=["T: {bfloat16, float, double}", "Tidx: {int32, int64} = int32"],
    shape=lin_space,
)


def range_of(c: ShapeContext) -> Sequence[TensorShape]:
    check_scalars(c, 0, 1, 2)
    values = [c.input_value(i) for i in range(3)]
    if any(v is None for v in values):
        return [VECTOR]
    start, limit, delta = (to_array(v).item() for v in values)
    if delta == 0:
        raise InvalidArgumentError("Requires delta != 0")
    if (start > limit) if delta > 0 else (start < limit):
        sign, relation = (">", "<=") if delta > 0 else ("<", ">=")
        raise InvalidArgumentError(
            f"Requires start {relation} limit when delta {sign} 0: start = {start}, limit = {limit}"
        )
    if isinstance(start, int) and isinstance(limit, int) and isinstance(delta, int):
        return [vector(-((start - limit) // delta))]
    # Rounding as at run time: in the type's own precision for half types, in double otherwise.
    return [vector(math.ceil(abs((limit - start) / delta)))] if c.output_types[0].size >= 4 else [VECTOR]


define(
    "Range",
    inputs=["start: Tidx", "limit: Tidx", "delta: Tidx"],
    outputs=["output: Tidx"],
    attrs=["Tidx: {bfloat16, float, double, int32, int64} = int32"],
    shape=range_of,
)


def select(c: ShapeContext) -> Sequence[TensorShape]:
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


define(
    "Select",
    inputs=["condition: bool", "t: T", "e: T"],
    outputs=["output: T"],
    attrs=["T: type"],
    shape=select,
)


def select_broadcast(c: ShapeContext) -> Sequence[TensorShape]:
    return [broadcast_shapes(c.input(0), broadcast_shapes(c.input(1), c.input(2)))]


define(
    "SelectV2",
    inputs=["condition: bool", "t: T", "e: T"],
    outputs=["output: T"],
    attrs=["T: type"],
    shape=select_broadcast,
)
