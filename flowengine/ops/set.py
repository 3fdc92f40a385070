"""Operations on sets held as sparse tensors."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, Dimension, TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, merge_dims, prefix, ranked, vector


def set_operation(c: ShapeContext) -> Sequence[TensorShape]:
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


define(
    "DenseToDenseSetOperation",
    inputs=["set1: T", "set2: T"],
    outputs=["result_indices: int64", "result_values: T", "result_shape: int64"],
    attrs=[
        "set_operation: string",
        "validate_indices: bool = true",
        "T: {int8, int16, int32, int64, uint8, uint16, string}",
    ],
    shape=set_operation,
)
define(
    "DenseToSparseSetOperation",
    inputs=["set1: T", "set2_indices: int64", "set2_values: T", "set2_shape: int64"],
    outputs=["result_indices: int64", "result_values: T", "result_shape: int64"],
    attrs=[
        "set_operation: string",
        "validate_indices: bool = true",
        "T: {int8, int16, int32, int64, uint8, uint16, string}",
    ],
    shape=set_operation,
)
define(
    "SparseToSparseSetOperation",
    inputs=[
        "set1_indices: int64",
        "set1_values: T",
        "set1_shape: int64",
        "set2_indices: int64",
        "set2_values: T",
        "set2_shape: int64",
    ],
    outputs=["result_indices: int64", "result_values: T", "result_shape: int64"],
    attrs=[
        "set_operation: string",
        "validate_indices: bool = true",
        "T: {int8, int16, int32, int64, uint8, uint16, string}",
    ],
    shape=set_operation,
)


def set_size(c: ShapeContext) -> Sequence[TensorShape]:
    """One count for every set: the dense shape without its last dimension."""
    shape = c.input_as_shape(2)
    return [UNKNOWN_SHAPE if shape.dims is None else prefix(shape, -1)]


define(
    "SetSize",
    inputs=["set_indices: int64", "set_values: T", "set_shape: int64"],
    outputs=["size: int32"],
    attrs=["validate_indices: bool = true", "T: {int8, int16, int32, int64, uint8, uint16, string}"],
    shape=set_size,
)
