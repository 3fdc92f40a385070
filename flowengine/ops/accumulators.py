"""Accumulators of gradients and barriers: values gathered from many steps."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, ranked, scalars, two_strings

define(
    "Barrier",
    outputs=["handle: Ref(string)"],
    attrs=[
        "component_types: list(type) >= 1",
        "shapes: list(shape) >= 0 = []",
        "capacity: int = -1",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
    shape=two_strings,
)
define(
    "ConditionalAccumulator",
    outputs=["handle: Ref(string)"],
    attrs=[
        "dtype: numbertype",
        "shape: shape",
        'container: string = ""',
        'shared_name: string = ""',
        "reduction_type: {'MEAN', 'SUM'} = \"MEAN\"",
    ],
    is_stateful=True,
    shape=two_strings,
)
define(
    "SparseConditionalAccumulator",
    outputs=["handle: Ref(string)"],
    attrs=[
        "dtype: numbertype",
        "shape: shape",
        'container: string = ""',
        'shared_name: string = ""',
        "reduction_type: {'MEAN', 'SUM'} = \"MEAN\"",
    ],
    is_stateful=True,
    shape=two_strings,
)
define(
    "ResourceConditionalAccumulator",
    outputs=["handle: resource"],
    attrs=[
        "dtype: numbertype",
        "shape: shape",
        'container: string = ""',
        'shared_name: string = ""',
        "reduction_type: {'MEAN', 'SUM'} = \"MEAN\"",
    ],
    is_stateful=True,
    shape=scalars,
)
define(
    "AccumulatorNumAccumulated",
    inputs=["handle: Ref(string)"],
    outputs=["num_accumulated: int32"],
    shape=scalars,
)
define(
    "ResourceAccumulatorNumAccumulated",
    inputs=["handle: resource"],
    outputs=["num_accumulated: int32"],
    is_stateful=True,
    shape=scalars,
)
define("BarrierIncompleteSize", inputs=["handle: Ref(string)"], outputs=["size: int32"], shape=scalars)
define("BarrierReadySize", inputs=["handle: Ref(string)"], outputs=["size: int32"], shape=scalars)


def take_gradient(c: ShapeContext) -> Sequence[TensorShape]:
    """The shape that the accumulator demands, where the handle leads to it."""
    ranked(c, 1, 0)
    source = c.handle_source(0)
    if source is None or "ConditionalAccumulator" not in source.op:
        return [UNKNOWN_SHAPE]
    return [source.attrs["shape"]]


define(
    "AccumulatorTakeGradient",
    inputs=["handle: Ref(string)", "num_required: int32"],
    outputs=["average: dtype"],
    attrs=["dtype: numbertype"],
    shape=take_gradient,
)
define(
    "ResourceAccumulatorTakeGradient",
    inputs=["handle: resource", "num_required: int32"],
    outputs=["average: dtype"],
    attrs=["dtype: numbertype"],
    is_stateful=True,
    shape=take_gradient,
)


def take_sparse_gradient(c: ShapeContext) -> Sequence[TensorShape]:
    """Indices of rows, the rows, and the dense shape."""
    ranked(c, 1, 0)
    return [VECTOR, UNKNOWN_SHAPE, VECTOR]


define(
    "SparseAccumulatorTakeGradient",
    inputs=["handle: Ref(string)", "num_required: int32"],
    outputs=["indices: int64", "values: dtype", "shape: int64"],
    attrs=["dtype: numbertype"],
    shape=take_sparse_gradient,
)


def take_many(c: ShapeContext) -> Sequence[TensorShape]:
    return [VECTOR, VECTOR, *[UNKNOWN_SHAPE] * (c.num_outputs - 2)]


define(
    "BarrierTakeMany",
    inputs=["handle: Ref(string)", "num_elements: int32"],
    outputs=["indices: int64", "keys: string", "values: component_types"],
    attrs=[
        "component_types: list(type) >= 1",
        "allow_small_batch: bool = false",
        "wait_for_incomplete: bool = false",
        "timeout_ms: int = -1",
    ],
    shape=take_many,
)
define(
    "AccumulatorApplyGradient",
    inputs=["handle: Ref(string)", "local_step: int64", "gradient: dtype"],
    attrs=["dtype: numbertype"],
)
define("AccumulatorSetGlobalStep", inputs=["handle: Ref(string)", "new_global_step: int64"])
define("BarrierClose", inputs=["handle: Ref(string)"], attrs=["cancel_pending_enqueues: bool = false"])
define(
    "BarrierInsertMany",
    inputs=["handle: Ref(string)", "keys: string", "values: T"],
    attrs=["T: type", "component_index: int"],
)
define(
    "ResourceAccumulatorApplyGradient",
    inputs=["handle: resource", "local_step: int64", "gradient: dtype"],
    attrs=["dtype: numbertype"],
    is_stateful=True,
)
define(
    "ResourceAccumulatorSetGlobalStep",
    inputs=["handle: resource", "new_global_step: int64"],
    is_stateful=True,
)
define(
    "SparseAccumulatorApplyGradient",
    inputs=[
        "handle: Ref(string)",
        "local_step: int64",
        "gradient_indices: int64",
        "gradient_values: dtype",
        "gradient_shape: int64",
    ],
    attrs=["dtype: numbertype", "has_known_shape: bool"],
)
