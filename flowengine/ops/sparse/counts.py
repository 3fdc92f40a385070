"""How often values occur in each row."""

from __future__ import annotations

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, add_dims, dimension_value, ranked, ranked_at_most, vector


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
