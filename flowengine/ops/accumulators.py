"""Accumulators of gradients and barriers: values gathered from many steps."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "AccumulatorApplyGradient",
    inputs=["handle: Ref(string)", "local_step: int64", "gradient: dtype"],
    attrs=["dtype: numbertype"],
)
define("AccumulatorNumAccumulated", inputs=["handle: Ref(string)"], outputs=["num_accumulated: int32"])
define("AccumulatorSetGlobalStep", inputs=["handle: Ref(string)", "new_global_step: int64"])
define(
    "AccumulatorTakeGradient",
    inputs=["handle: Ref(string)", "num_required: int32"],
    outputs=["average: dtype"],
    attrs=["dtype: numbertype"],
)
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
)
define("BarrierClose", inputs=["handle: Ref(string)"], attrs=["cancel_pending_enqueues: bool = false"])
define("BarrierIncompleteSize", inputs=["handle: Ref(string)"], outputs=["size: int32"])
define(
    "BarrierInsertMany",
    inputs=["handle: Ref(string)", "keys: string", "values: T"],
    attrs=["T: type", "component_index: int"],
)
define("BarrierReadySize", inputs=["handle: Ref(string)"], outputs=["size: int32"])
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
)
define(
    "ResourceAccumulatorApplyGradient",
    inputs=["handle: resource", "local_step: int64", "gradient: dtype"],
    attrs=["dtype: numbertype"],
    is_stateful=True,
)
define(
    "ResourceAccumulatorNumAccumulated",
    inputs=["handle: resource"],
    outputs=["num_accumulated: int32"],
    is_stateful=True,
)
define(
    "ResourceAccumulatorSetGlobalStep",
    inputs=["handle: resource", "new_global_step: int64"],
    is_stateful=True,
)
define(
    "ResourceAccumulatorTakeGradient",
    inputs=["handle: resource", "num_required: int32"],
    outputs=["average: dtype"],
    attrs=["dtype: numbertype"],
    is_stateful=True,
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
define(
    "SparseAccumulatorTakeGradient",
    inputs=["handle: Ref(string)", "num_required: int32"],
    outputs=["indices: int64", "values: dtype", "shape: int64"],
    attrs=["dtype: numbertype"],
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
)
