"""The greatest elements of rows, and regression by rows that never rise."""

from __future__ import annotations

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, Dimension, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import Newer, NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    dimension_value,
    merge_dims,
    ranked,
    ranked_at_least,
    replace_dim,
    vector,
)

# The greatest elements of rows, and whether a target is among them.


@define(
    "InTopK(predictions: float, targets: T) -> precision: bool",
    "k: int; T: indextype = int32",
    NotDifferentiable(),
)
@define(
    "InTopKV2(predictions: float, targets, k: T) -> precision: bool",
    "T: indextype = int32",
    NotDifferentiable(),
)
def in_top_k(c: ShapeContext) -> Shapes:
    """predictions (batch, classes), targets (batch) -> (batch)"""
    batch = merge_dims(ranked(c, 0, 2)[0], ranked(c, 1, 1)[0], "The rows and the number of targets")
    return [vector(batch)]


@define("TopK(input: T) -> values: T, indices: int32", "k: int >= 0; sorted: bool = true; T: realnumbertype")
def top_k_attr(c: ShapeContext) -> Shapes:
    return _top(ranked_at_least(c, 0, 1), c.attrs["k"])


def _top(shape: TensorShape, count: Dimension) -> Shapes:
    """(..., n) -> values and indices (..., k)"""
    if shape.dims is None:
        return [UNKNOWN_SHAPE, UNKNOWN_SHAPE]
    last = shape.dims[-1]
    if last is not None and count is not None and last < count:
        raise InvalidArgumentError(f"input must have last dimension >= k = {count} but is {last}")
    return [replace_dim(shape, -1, count)] * 2


@define(
    "TopKV2(input: T, k: Tk) -> values: T, indices: index_type",
    "sorted: bool = true; T: realnumbertype; Tk, index_type: {int16, int32, int64} = int32",
    Newer(("Tk", "index_type")),
)
def top_k(c: ShapeContext) -> Shapes:
    return _top(ranked_at_least(c, 0, 1), dimension_value(c, 1))


@define("NthElement(input: T, n: int32) -> values: T", "reverse: bool = false; T: realnumbertype")
def nth_element(c: ShapeContext) -> Shapes:
    """(..., n) -> (...)"""
    shape = ranked_at_least(c, 0, 1)
    position = dimension_value(c, 1)
    if shape.dims is None:
        return [UNKNOWN_SHAPE]
    last = shape.dims[-1]
    if last is not None and position is not None and last <= position:
        raise InvalidArgumentError(f"input must have last dimension > n = {position} but is {last}")
    return [TensorShape(shape.dims[:-1])]


# The greatest elements of rows, where an accelerator may miss some.


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


# Regression by rows that never rise.


@define(
    "IsotonicRegression(input: T) -> output: output_dtype, segments: int32",
    "T: realnumbertype; output_dtype: {half, bfloat16, float, double} = float",
)
def isotonic(c: ShapeContext) -> Shapes:
    return [c.input(0), c.input(0)]
