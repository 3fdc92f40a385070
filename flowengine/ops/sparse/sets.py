"""Sets and counts of the values in rows."""

from __future__ import annotations

from typing import Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, Dimension, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    VECTOR,
    add_dims,
    dimension_value,
    merge_dims,
    prefix,
    ranked,
    ranked_at_most,
    vector,
)

# Sets and sequences that the rows of sparse tensors hold.

#: Of a node whose sets lie in sparse tensors.
SETS: Final = "validate_indices: bool = true; T: {int8, int16, int32, int64, uint8, uint16, string}"


@define(
    "EditDistance(hypothesis_indices: int64, hypothesis_values: T, hypothesis_shape, "
    "truth_indices: int64, truth_values: T, truth_shape: int64) -> output: float",
    "normalize: bool = true; T: type",
    NotDifferentiable(),
)
def edit_distance(c: ShapeContext) -> Shapes:
    """All dimensions of the dense shapes but the last, the larger of both."""
    a, b = c.input_as_shape(2), c.input_as_shape(5)
    if a.dims is None or b.dims is None:
        return [UNKNOWN_SHAPE]
    if len(a.dims) != len(b.dims):
        raise InvalidArgumentError(f"hypothesis and truth differ in rank: {a} and {b}")
    pairs = zip(a.dims[:-1], b.dims[:-1], strict=True)
    return [TensorShape([None if x is None or y is None else max(x, y) for x, y in pairs])]


@define(
    "DenseToDenseSetOperation(set1, set2: T) -> result_indices: int64, result_values: T, result_shape: int64",
    "set_operation: string",
    SETS,
    NotDifferentiable(),
)
@define(
    "DenseToSparseSetOperation(set1: T, set2_indices: int64, set2_values: T, set2_shape: int64) "
    "-> result_indices: int64, result_values: T, result_shape: int64",
    "set_operation: string",
    SETS,
    NotDifferentiable(),
)
@define(
    "SparseToSparseSetOperation(set1_indices: int64, set1_values: T, set1_shape, set2_indices: int64, "
    "set2_values: T, set2_shape: int64) -> result_indices: int64, result_values: T, result_shape: int64",
    "set_operation: string",
    SETS,
    NotDifferentiable(),
)
def set_operation(c: ShapeContext) -> Shapes:
    """A sparse tensor: indices, values, dense shape."""
    rank = _rank(c)
    return [TensorShape([None, rank]), VECTOR, vector(rank)]


def _rank(c: ShapeContext) -> Dimension:
    """The rank of the sets' tensors, from whichever input tells it."""
    if c.num_inputs == 2:
        first, second = c.input(0).rank, c.input(1).rank
    elif c.num_inputs == 4:
        first, second = c.input(0).rank, ranked(c, 3, 1)[0]
    else:
        first, second = ranked(c, 2, 1)[0], ranked(c, 5, 1)[0]
    rank = merge_dims(first, second, "The ranks of the sets")
    if rank is not None and rank < 2:
        raise InvalidArgumentError(f"sets must have at least rank 2, but have {rank}")
    return rank


@define(
    "SetSize(set_indices: int64, set_values: T, set_shape: int64) -> size: int32", SETS, NotDifferentiable()
)
def set_size(c: ShapeContext) -> Shapes:
    """One count for every set: the dense shape without its last dimension."""
    shape = c.input_as_shape(2)
    return [UNKNOWN_SHAPE if shape.dims is None else prefix(shape, -1)]


# How often values occur in each row.


@define(
    "DenseBincount(input, size: Tidx, weights: T) -> output: T",
    "Tidx: indextype; T: {int32, int64, float, double}; binary_output: bool = false",
)
def dense_bincount(c: ShapeContext) -> Shapes:
    """A vector of bins, or one for each row of a matrix."""
    shape = ranked_at_most(c, 0, 2)
    bins = dimension_value(c, 1)
    if shape.dims is None:
        return [UNKNOWN_SHAPE]
    return [TensorShape([shape.dims[0], bins]) if len(shape.dims) == 2 else vector(bins)]


@define(
    "SparseBincount(indices: int64, values: Tidx, dense_shape: int64, size: Tidx, weights: T) -> output: T",
    "Tidx: indextype; T: {int32, int64, float, double}; binary_output: bool = false",
)
def sparse_bincount(c: ShapeContext) -> Shapes:
    shape, bins = c.input_as_shape(2), dimension_value(c, 3)
    if shape.dims is None:
        return [UNKNOWN_SHAPE]
    return [TensorShape([shape.dims[0], bins]) if len(shape.dims) > 1 else vector(bins)]


@define(
    "RaggedBincount(splits: int64, values, size: Tidx, weights: T) -> output: T",
    "Tidx: indextype; T: {int32, int64, float, double}; binary_output: bool = false",
)
def ragged_bincount(c: ShapeContext) -> Shapes:
    return [TensorShape([add_dims(c.input(0).num_elements(), -1), dimension_value(c, 2)])]


@define(
    "DenseCountSparseOutput(values: T, weights: output_type) "
    "-> output_indices: int64, output_values: output_type, output_dense_shape: int64",
    "T: indextype; minlength, maxlength: int >= -1 = -1; binary_output: bool",
    "output_type: {int32, int64, float, double}",
)
def dense_counts(c: ShapeContext) -> Shapes:
    """One column of indices for a vector, two for a matrix."""
    rank = c.input(0).rank
    if rank is not None and rank not in (1, 2):
        raise InvalidArgumentError(f"Input must be a 1 or 2-dimensional tensor. Got: {rank}")
    return [TensorShape([None, rank]), VECTOR, vector(rank)]


@define(
    "SparseCountSparseOutput(indices: int64, values: T, dense_shape: int64, weights: output_type) "
    "-> output_indices: int64, output_values: output_type, output_dense_shape: int64",
    "T: indextype; minlength, maxlength: int >= -1 = -1; binary_output: bool",
    "output_type: {int32, int64, float, double}",
)
def sparse_counts(c: ShapeContext) -> Shapes:
    rank = ranked(c, 0, 2)[1]
    rank = rank if rank is None else min(rank, 2)
    return [TensorShape([None, rank]), VECTOR, vector(rank)]


@define(
    "RaggedCountSparseOutput(splits: int64, values: T, weights: output_type) "
    "-> output_indices: int64, output_values: output_type, output_dense_shape: int64",
    "T: indextype; minlength, maxlength: int >= -1 = -1; binary_output: bool",
    "output_type: {int32, int64, float, double}",
)
def ragged_counts(c: ShapeContext) -> Shapes:
    return [TensorShape([None, 2]), VECTOR, vector(2)]
