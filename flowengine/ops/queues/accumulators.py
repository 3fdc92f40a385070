"""Accumulators of gradients."""

from __future__ import annotations

from typing import Final

from flowengine.core.shapes import UNKNOWN_SHAPE
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable, Uses
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, ranked, scalars, two_strings

#: Of a node that makes an accumulator.
ACCUMULATOR: Final = (
    "dtype: numbertype; shape: shape; container, shared_name: string = ''; "
    "reduction_type: {'MEAN', 'SUM'} = 'MEAN'"
)

define(
    "ConditionalAccumulator() -> handle: Ref(string)",
    "stateful",
    ACCUMULATOR,
    NotDifferentiable(),
    shape=two_strings,
)
define(
    "SparseConditionalAccumulator() -> handle: Ref(string)",
    "stateful",
    ACCUMULATOR,
    NotDifferentiable(),
    shape=two_strings,
)
define(
    "ResourceConditionalAccumulator() -> handle: resource",
    "stateful",
    ACCUMULATOR,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "AccumulatorNumAccumulated(handle: Ref(string)) -> num_accumulated: int32",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ResourceAccumulatorNumAccumulated(handle: resource) -> num_accumulated: int32",
    "stateful",
    Uses("handle"),
    NotDifferentiable(),
    shape=scalars,
)


@define(
    "AccumulatorTakeGradient(handle: Ref(string), num_required: int32) -> average: dtype",
    "dtype: numbertype",
    NotDifferentiable(),
)
@define(
    "ResourceAccumulatorTakeGradient(handle: resource, num_required: int32) -> average: dtype",
    "stateful; dtype: numbertype",
    Uses("handle"),
    NotDifferentiable(),
)
def take_gradient(c: ShapeContext) -> Shapes:
    """The shape that the accumulator demands, where the handle leads to it."""
    ranked(c, 1, 0)
    source = c.handle_source(0)
    if source is None or "ConditionalAccumulator" not in source.op:
        return [UNKNOWN_SHAPE]
    return [source.attrs["shape"]]


@define(
    "SparseAccumulatorTakeGradient(handle: Ref(string), num_required: int32) "
    "-> indices: int64, values: dtype, shape: int64",
    "dtype: numbertype",
    NotDifferentiable(),
)
def take_sparse_gradient(c: ShapeContext) -> Shapes:
    """Indices of rows, the rows, and the dense shape."""
    ranked(c, 1, 0)
    return [VECTOR, UNKNOWN_SHAPE, VECTOR]


define(
    "AccumulatorApplyGradient(handle: Ref(string), local_step: int64, gradient: dtype)",
    "dtype: numbertype",
    NotDifferentiable(),
)
define("AccumulatorSetGlobalStep(handle: Ref(string), new_global_step: int64)", NotDifferentiable())
define(
    "ResourceAccumulatorApplyGradient(handle: resource, local_step: int64, gradient: dtype)",
    "stateful; dtype: numbertype",
    Uses("handle"),
    NotDifferentiable(),
)
define(
    "ResourceAccumulatorSetGlobalStep(handle: resource, new_global_step: int64)",
    "stateful",
    Uses("handle"),
    NotDifferentiable(),
)
define(
    "SparseAccumulatorApplyGradient(handle: Ref(string), local_step, gradient_indices: int64, "
    "gradient_values: dtype, gradient_shape: int64)",
    "dtype: numbertype; has_known_shape: bool",
    NotDifferentiable(),
)
