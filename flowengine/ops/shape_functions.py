"""Helpers for many ops' shape functions: common shape functions, and checks with their messages.

A shape function takes a `ShapeContext` and returns one `TensorShape` per output. It may say less than is
true of every run, never more; it raises InvalidArgumentError where no run could succeed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from flowengine.core.arrays import to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import (
    SCALAR,
    UNKNOWN_SHAPE,
    Dimension,
    TensorShape,
    broadcast_shapes,
    unknown_of_rank,
)
from flowengine.ir.opdef import ShapeContext, ShapeFunction

#: A vector of unknown length.
VECTOR: Final = unknown_of_rank(1)
MATRIX: Final = unknown_of_rank(2)

# --------------------------------------------------------------------------- whole shape functions


def unchanged(c: ShapeContext) -> Sequence[TensorShape]:
    """x -> x"""
    return [c.input(0)] * c.num_outputs


def each_unchanged(c: ShapeContext) -> Sequence[TensorShape]:
    """x, y, ... -> x, y, ..."""
    return [c.input(i) for i in range(c.num_outputs)]


def scalars(c: ShapeContext) -> Sequence[TensorShape]:
    """Every output is a scalar."""
    return [SCALAR] * c.num_outputs


def vectors(c: ShapeContext) -> Sequence[TensorShape]:
    """Every output is a vector of unknown length."""
    return [VECTOR] * c.num_outputs


def two_strings(c: ShapeContext) -> Sequence[TensorShape]:
    """A reference handle: container and name, a vector of two."""
    return [TensorShape([2])] * c.num_outputs


def broadcast(c: ShapeContext) -> Sequence[TensorShape]:
    """x, y -> x and y broadcast together."""
    x, y = c.input(0), c.input(1)
    return [x if x.dims == y.dims else broadcast_shapes(x, y)]


def merged(c: ShapeContext) -> Sequence[TensorShape]:
    """All inputs and outputs have one shape."""
    return [merge(c, range(c.num_inputs))] * c.num_outputs


def attr_shape(c: ShapeContext) -> Sequence[TensorShape]:
    """The attribute `shape`."""
    return [c.attrs["shape"]]


def shape_from_input(index: int) -> ShapeFunction:
    """The output has the shape that an integer vector input spells."""

    def function(c: ShapeContext) -> Sequence[TensorShape]:
        ranked(c, index, 1)
        return [c.input_as_shape(index)] * c.num_outputs

    return function


def of_rank(rank: int) -> ShapeFunction:
    """The input, which has this rank, unchanged."""

    def function(c: ShapeContext) -> Sequence[TensorShape]:
        return [ranked(c, 0, rank)] * c.num_outputs

    return function


def at_least(rank: int) -> ShapeFunction:
    """The input, which has at least this rank, unchanged."""

    def function(c: ShapeContext) -> Sequence[TensorShape]:
        return [ranked_at_least(c, 0, rank)] * c.num_outputs

    return function


def like_input(index: int) -> ShapeFunction:
    """Every output has the shape of one input."""

    def function(c: ShapeContext) -> Sequence[TensorShape]:
        return [c.input(index)] * c.num_outputs

    return function


def fixed(*shapes: Sequence[Dimension] | None) -> ShapeFunction:
    """Outputs of these shapes, whatever the inputs."""
    known = [TensorShape(shape) for shape in shapes]

    def function(c: ShapeContext) -> Sequence[TensorShape]:
        return known

    return function


def square(c: ShapeContext) -> Sequence[TensorShape]:
    """(..., M, M) -> (..., M, M)"""
    return [square_at(c, 0)]


# --------------------------------------------------------------------------- checks


def ranked(c: ShapeContext, index: int, rank: int) -> TensorShape:
    """An input's shape, which must have this rank."""
    shape = c.input(index)
    if shape.dims is None:
        return unknown_of_rank(rank)
    if len(shape.dims) != rank:
        raise InvalidArgumentError(
            f"Shape must be rank {rank} but is rank {len(shape.dims)} (input {index}: {shape})"
        )
    return shape


def ranked_at_least(c: ShapeContext, index: int, rank: int) -> TensorShape:
    """An input's shape, of at least this rank; unknown where the rank is."""
    shape = c.input(index)
    if shape.dims is not None and len(shape.dims) < rank:
        raise InvalidArgumentError(
            f"Shape must be at least rank {rank} but is rank {len(shape.dims)} (input {index}: {shape})"
        )
    return shape


def square_at(c: ShapeContext, index: int) -> TensorShape:
    shape = ranked_at_least(c, index, 2)
    if shape.dims is None:
        return UNKNOWN_SHAPE
    size = merge_dims(shape.dims[-1], shape.dims[-2], "The rows and columns of a square matrix")
    return TensorShape((*shape.dims[:-2], size, size))


def ranked_at_most(c: ShapeContext, index: int, rank: int) -> TensorShape:
    """An input's shape, of at most this rank."""
    shape = c.input(index)
    if shape.dims is not None and len(shape.dims) > rank:
        raise InvalidArgumentError(
            f"Shape must be at most rank {rank} but is rank {len(shape.dims)} (input {index}: {shape})"
        )
    return shape


def check_scalars(c: ShapeContext, *indices: int) -> None:
    """These inputs must be scalars."""
    for index in indices:
        ranked(c, index, 0)


def merge(c: ShapeContext, indices: Iterable[int]) -> TensorShape:
    """The one shape that these inputs have, with the knowledge of all."""
    result = UNKNOWN_SHAPE
    for index in indices:
        shape = c.input(index)
        if not result.is_compatible_with(shape):
            raise InvalidArgumentError(f"Shapes must be equal, but are {result} and {shape} (input {index})")
        result = result.merge_with(shape)
    return result


def merge_dims(a: Dimension, b: Dimension, what: str = "Dimensions") -> Dimension:
    """One dimension that both are."""
    if a is None:
        return b
    if b is not None and a != b:
        raise InvalidArgumentError(f"{what} must be equal, but are {a} and {b}")
    return a


def axis_of(value: Any, rank: int, what: str = "axis") -> int:
    """A constant axis, counted from the front, checked against a rank."""
    array = to_array(value)
    if array.size != 1:
        raise InvalidArgumentError(f"{what} must be one number, but has shape {list(array.shape)}")
    axis = int(array.reshape(()))
    if not -rank <= axis < rank:
        raise InvalidArgumentError(f"{what} must be in the range [{-rank}, {rank}), but is {axis}")
    return axis + rank if axis < 0 else axis


def scalar_value(c: ShapeContext, index: int) -> int | None:
    """The integer that a constant scalar input holds; None if it is not constant."""
    ranked(c, index, 0)
    value = c.input_value(index)
    return None if value is None else int(to_array(value).reshape(()))


def axis_value(c: ShapeContext, index: int) -> int | None:
    """The axis that a constant input of one element holds; None if it is not constant."""
    value = c.input_value(index)
    if value is None:
        return None
    array = to_array(value)
    if array.size != 1:
        raise InvalidArgumentError(
            f"an axis must be one number, but input {index} has shape {list(array.shape)}"
        )
    return int(array.reshape(()))


def dimension_value(c: ShapeContext, index: int) -> Dimension:
    """The dimension that a scalar input gives; InvalidArgumentError if it is constant and negative."""
    value = scalar_value(c, index)
    if value is not None and value < 0:
        raise InvalidArgumentError(f"a size must not be negative, but input {index} is {value}")
    return value


def pairs_value(c: ShapeContext, index: int, count: int) -> list[tuple[int, int]] | None:
    """The rows (before, after) of a constant (count, 2) input; None if it is not constant."""
    shape = ranked(c, index, 2)
    if not shape.is_compatible_with(TensorShape([count, 2])):
        raise InvalidArgumentError(f"input {index} must have shape [{count},2], but has {shape}")
    value = c.input_value(index)
    return None if value is None else [(int(a), int(b)) for a, b in to_array(value)]


# --------------------------------------------------------------------------- arithmetic of dimensions


def add_dims(*dims: Dimension) -> Dimension:
    total = 0
    for d in dims:
        if d is None:
            return None
        total += d
    return total


def multiply_dims(*dims: Dimension) -> Dimension:
    """The product; unknown where one factor is, unless another is zero."""
    if 0 in dims:
        return 0
    product = 1
    for d in dims:
        if d is None:
            return None
        product *= d
    return product


def smaller(a: Dimension, b: Dimension) -> Dimension:
    return None if a is None or b is None else min(a, b)


def divide_dim(d: Dimension, divisor: int, what: str) -> Dimension:
    """The quotient, which must be whole."""
    if d is None:
        return None
    if divisor <= 0 or d % divisor:
        raise InvalidArgumentError(f"{what}: {d} is not a multiple of {divisor}")
    return d // divisor


def dims_of(shape: TensorShape, rank: int) -> tuple[Dimension, ...]:
    """The dimensions of a shape known to have this rank."""
    return (None,) * rank if shape.dims is None else shape.dims


def vector(length: Dimension) -> TensorShape:
    return TensorShape([length])


def prefix(shape: TensorShape, count: int) -> TensorShape:
    """The first dimensions; a negative count leaves that many away at the end."""
    if shape.dims is None:
        return unknown_of_rank(count) if count >= 0 else UNKNOWN_SHAPE
    return TensorShape(shape.dims[:count])


def suffix(shape: TensorShape, start: int) -> TensorShape:
    """The dimensions from one on; unknown where the rank is."""
    return UNKNOWN_SHAPE if shape.dims is None else TensorShape(shape.dims[start:])


def replace_dim(shape: TensorShape, axis: int, dimension: Dimension) -> TensorShape:
    """The shape with one dimension replaced."""
    if shape.dims is None:
        return UNKNOWN_SHAPE
    if not -len(shape.dims) <= axis < len(shape.dims):
        raise InvalidArgumentError(f"a shape of rank {len(shape.dims)} has no dimension {axis}: {shape}")
    axis %= len(shape.dims)
    return TensorShape((*shape.dims[:axis], dimension, *shape.dims[axis + 1 :]))


def windowed(size: Dimension, window: Dimension, stride: int, padding: bytes, dilation: int = 1) -> Dimension:
    """The number of windows along one axis: SAME ceil(size / stride), VALID only the whole ones."""
    if stride <= 0:
        raise InvalidArgumentError(f"a stride must be positive, but is {stride}")
    if dilation <= 0:
        raise InvalidArgumentError(f"a dilation rate must be positive, but is {dilation}")
    if size is None:
        return None
    if padding == b"SAME":
        return -(-size // stride)
    if window is None:
        return None
    effective = (window - 1) * dilation + 1
    count = (size - effective + stride) // stride
    if count < 0:
        raise InvalidArgumentError(
            f"Computed output size would be negative: {count} "
            f"[input_size: {size}, effective_filter_size: {effective}, stride: {stride}]"
        )
    return count
