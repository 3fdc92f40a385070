"""Pooling over windows of two neighbouring sizes in random order, and its gradients."""

from __future__ import annotations

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.nn.convolution import sizes_from
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import add_dims, dims_of, of_rank, ranked, vector


@define(
    "FractionalAvgPool, "
    "FractionalMaxPool(value: T) -> output: T, row_pooling_sequence, col_pooling_sequence: int64",
    "pooling_ratio: list(float) >= 4; pseudo_random, overlapping, deterministic: bool = false",
    "seed, seed2: int = 0; T: {float, double, int32, int64}",
)
def fractional_pool(c: ShapeContext) -> Shapes:
    """Each dimension divided by its ratio, rounded down; and where the rows and columns were cut."""
    dims = dims_of(ranked(c, 0, 4), 4)
    ratios = c.attrs["pooling_ratio"]
    if len(ratios) != 4 or any(ratio < 1 for ratio in ratios):
        raise InvalidArgumentError(f"pooling_ratio must have 4 elements of at least 1, not {list(ratios)}")
    sizes = [None if d is None else int(d / ratio) for d, ratio in zip(dims, ratios, strict=True)]
    return [TensorShape(sizes), vector(add_dims(sizes[1], 1)), vector(add_dims(sizes[2], 1))]


define(
    "FractionalAvgPoolGrad(orig_input_tensor_shape: int64, out_backprop: T, row_pooling_sequence, "
    "col_pooling_sequence: int64) -> output: T",
    "overlapping: bool = false; T: {float, double, int32, int64}",
    shape=sizes_from(0, 4),
)


define(
    "FractionalMaxPoolGrad(orig_input, orig_output, out_backprop: T, row_pooling_sequence, "
    "col_pooling_sequence: int64) -> output: T",
    "overlapping: bool = false; T: {float, double, int32, int64}",
    shape=of_rank(4),
)
