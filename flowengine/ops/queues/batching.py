"""Dynamic batches of what concurrent steps bring."""

from __future__ import annotations

from flowengine.core.shapes import SCALAR, UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import Newer
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import ranked_at_least, replace_dim


@define(
    "Batch(in_tensors: T) -> batched_tensors: T, batch_index, id: int64",
    "num_batch_threads, max_batch_size: int; max_enqueued_batches: int = 10; batch_timeout_micros: int",
    "allowed_batch_sizes: list(int) = []; grad_timeout_micros: int",
    "container, shared_name, batching_queue: string = ''; T: list(type) >= 1",
)
def batch(c: ShapeContext) -> Shapes:
    """Inputs of several steps joined, which rows are whose, and the id of this step."""
    joined = [replace_dim(ranked_at_least(c, i, 1), 0, None) for i in range(c.num_inputs)]
    return [*joined, TensorShape([None, 3]), SCALAR]


@define(
    "Unbatch(batched_tensor: T, batch_index, id: int64) -> unbatched_tensor: T",
    "timeout_micros: int; container, shared_name: string = ''; T: type",
)
def unbatch(c: ShapeContext) -> Shapes:
    return [replace_dim(c.input(0), 0, None)]


@define(
    "UnbatchGrad(original_input: T, batch_index: int64, grad: T, id: int64) -> batched_grad: T",
    "container, shared_name: string = ''; T: type",
)
def unbatch_grad(c: ShapeContext) -> Shapes:
    """The gradients of a batch: as many rows as it had, for one of its steps; none for the others."""
    return [UNKNOWN_SHAPE]


define(
    "BatchFunction(in_tensors: Tin, captured_tensors: Tcaptured) -> out_tensors: Tout",
    "f: func; num_batch_threads, max_batch_size, batch_timeout_micros: int",
    "max_enqueued_batches: int = 10; allowed_batch_sizes: list(int) = []",
    "container, shared_name, batching_queue: string = ''",
    "low_priority_max_batch_size, low_priority_batch_timeout_micros: int = 0",
    "low_priority_allowed_batch_sizes: list(int) = []; low_priority_max_enqueued_batches: int = 0",
    "mixed_priority_policy: {'low_priority_padding_with_max_batch_size', "
    "'low_priority_padding_with_next_allowed_batch_size', 'priority_isolation', 'priority_merge'}"
    " = 'low_priority_padding_with_max_batch_size'",
    "batch_padding_policy: {'PAD_UP', 'BATCH_DOWN', 'MINIMIZE_TPU_COST_PER_REQUEST'} = 'PAD_UP'",
    "Tin: list(type) >= 1; Tcaptured: list(type) >= 0; Tout: list(type) >= 1",
    "enable_large_batch_splitting: bool = false",
    Newer(
        (
            "low_priority_max_batch_size",
            "low_priority_batch_timeout_micros",
            "low_priority_allowed_batch_sizes",
            "low_priority_max_enqueued_batches",
            "mixed_priority_policy",
            "batch_padding_policy",
            "enable_large_batch_splitting",
        )
    ),
)
