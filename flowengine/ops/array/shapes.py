"""The shape of a tensor as a value, and the same elements under another shape."""

from __future__ import annotations

import math

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import SCALAR, UNKNOWN_SHAPE, TensorShape, unknown_of_rank
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NetworkLayer, NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    axis_of,
    dims_of,
    merge_dims,
    multiply_dims,
    ranked,
    ranked_at_most,
    replace_dim,
    scalars,
    vector,
)


@define("Shape(input: T) -> output: out_type", "T: type; out_type: indextype = int32", NotDifferentiable())
@define(
    "ShapeN(input: N * T) -> output: N * out_type",
    "N: int >= 1; T: type; out_type: indextype = int32",
    NotDifferentiable(),
)
def shape_of(c: ShapeContext) -> Shapes:
    return [vector(c.input(i).rank) for i in range(c.num_inputs)]


define("Rank(input: T) -> output: int32", "T: type", NotDifferentiable(), shape=scalars)
define(
    "Size(input: T) -> output: out_type",
    "T: type; out_type: indextype = int32",
    NotDifferentiable(),
    shape=scalars,
)


@define(
    "Reshape(tensor: T, shape: Tshape) -> output: T", "T: type; Tshape: indextype = int32", NetworkLayer()
)
def reshape(c: ShapeContext) -> Shapes:
    """(...), target -> target, with the one dimension given as -1 found from the number of elements."""
    source = c.input(0)
    ranked_at_most(c, 1, 1)
    target = c.input_as_shape(1)
    if target.dims is None:
        return [UNKNOWN_SHAPE]
    unknown = [axis for axis, d in enumerate(target.dims) if d is None]
    count = source.num_elements()
    if count is None or len(unknown) > 1:
        return [target]
    known = math.prod(d for d in target.dims if d is not None)
    if not unknown:
        if known != count:
            raise InvalidArgumentError(
                f"Cannot reshape a tensor with {count} elements to shape {target} ({known} elements) "
                f"from input shape {source}"
            )
        return [target]
    if known == 0:
        # A dimension of zero leaves the other free; at run time it becomes zero.
        return [target]
    if count % known:
        raise InvalidArgumentError(
            f"Cannot reshape a tensor with {count} elements to shape {target}: "
            f"{count} is not a multiple of {known}"
        )
    return [replace_dim(target, unknown[0], count // known)]


@define("ExpandDims(input: T, dim: Tdim) -> output: T", "T: type; Tdim: indextype = int32")
def expand_dims(c: ShapeContext) -> Shapes:
    shape = c.input(0)
    axis = c.input_value(1)
    if shape.dims is None:
        return [UNKNOWN_SHAPE]
    rank = len(shape.dims) + 1
    if axis is None:
        return [unknown_of_rank(rank)]
    where = axis_of(axis, rank, "dim")
    return [TensorShape((*shape.dims[:where], 1, *shape.dims[where:]))]


@define("Squeeze(input: T) -> output: T", "T: type; squeeze_dims: list(int) >= 0 = []", NetworkLayer())
def squeeze(c: ShapeContext) -> Shapes:
    shape = c.input(0)
    if shape.dims is None:
        return [UNKNOWN_SHAPE]
    rank = len(shape.dims)
    axes = {axis_of(axis, rank, "squeeze_dims") for axis in c.attrs["squeeze_dims"]}
    if not axes:
        # An unknown dimension may be 1 and then goes.
        if None in shape.dims:
            return [UNKNOWN_SHAPE]
        return [TensorShape([d for d in shape.dims if d != 1])]
    for axis in axes:
        if shape.dims[axis] not in (1, None):
            raise InvalidArgumentError(f"Can not squeeze dim[{axis}], expected a dimension of 1, got {shape}")
    return [TensorShape([d for axis, d in enumerate(shape.dims) if axis not in axes])]


@define("BroadcastArgs(s0, s1: T) -> r0: T", "T: indextype = int32", NotDifferentiable())
def broadcast_args(c: ShapeContext) -> Shapes:
    a, b = ranked(c, 0, 1)[0], ranked(c, 1, 1)[0]
    return [vector(None if a is None or b is None else max(a, b))]


@define("Tile(input: T, multiples: Tmultiples) -> output: T", "T: type; Tmultiples: indextype = int32")
def tile(c: ShapeContext) -> Shapes:
    shape, length = c.input(0), ranked(c, 1, 1)[0]
    multiples = c.input_as_shape(1)
    rank = shape.rank if shape.rank is not None else length
    if rank is None:
        return [UNKNOWN_SHAPE]
    merge_dims(rank, length, "The rank and the length of multiples")
    pairs = zip(dims_of(shape, rank), dims_of(multiples, rank), strict=True)
    return [TensorShape([multiply_dims(d, m) for d, m in pairs])]


define("TileGrad(input: T, multiples: int32) -> output: T", "T: type")


@define("BroadcastTo(input: T, shape: Tidx) -> output: T", "T: type; Tidx: indextype = int32")
def broadcast_to(c: ShapeContext) -> Shapes:
    ranked(c, 1, 1)
    shape, target = c.input(0), c.input_as_shape(1)
    if shape.dims is not None and target.dims is not None:
        if len(shape.dims) > len(target.dims):
            raise InvalidArgumentError(f"shape {shape} has more dimensions than the target {target}")
        for own, wanted in zip(reversed(shape.dims), reversed(target.dims), strict=False):
            if own not in (None, 1) and wanted is not None and own != wanted:
                raise InvalidArgumentError(f"Incompatible shapes: {shape} vs. {target}")
    return [target]


@define(
    "QuantizedReshape(tensor: T, shape: Tshape, input_min, input_max: float) "
    "-> output: T, output_min, output_max: float",
    "T: type; Tshape: indextype = int32",
    NotDifferentiable(),
)
def quantized_reshape(c: ShapeContext) -> Shapes:
    return [*reshape(c), SCALAR, SCALAR]
