"""Batching values across concurrent steps."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.shapes import SCALAR, UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import ranked_at_least, replace_dim


def batch(c: ShapeContext) -> Sequence[TensorShape]:
    """Inputs of several steps joined, which rows are whose, and the id of this step."""
    joined = [replace_dim(ranked_at_least(c, i, 1), 0, None) for i in range(c.num_inputs)]
    return [*joined, TensorShape([None, 3]), SCALAR]


define(
    "Batch",
    inputs=["in_tensors: T"],
    outputs=["batched_tensors: T", "batch_index: int64", "id: int64"],
    attrs=[
        "num_batch_threads: int",
        "max_batch_size: int",
        "max_enqueued_batches: int = 10",
        "batch_timeout_micros: int",
        "allowed_batch_sizes: list(int) = []",
        "grad_timeout_micros: int",
        'container: string = ""',
        'shared_name: string = ""',
        'batching_queue: string = ""',
        "T: list(type) >= 1",
    ],
    shape=batch,
)


def unbatch(c: ShapeContext) -> Sequence[TensorShape]:
    return [replace_dim(c.input(0), 0, None)]


define(
    "Unbatch",
    inputs=["batched_tensor: T", "batch_index: int64", "id: int64"],
    outputs=["unbatched_tensor: T"],
    attrs=["timeout_micros: int", 'container: string = ""', 'shared_name: string = ""', "T: type"],
    shape=unbatch,
)


def unbatch_grad(c: ShapeContext) -> Sequence[TensorShape]:
    """The gradients of a batch: as many rows as it had, for one of its steps; none for the others."""
    return [UNKNOWN_SHAPE]


define(
    "UnbatchGrad",
    inputs=["original_input: T", "batch_index: int64", "grad: T", "id: int64"],
    outputs=["batched_grad: T"],
    attrs=['container: string = ""', 'shared_name: string = ""', "T: type"],
    shape=unbatch_grad,
)
define(
    "BatchFunction",
    inputs=["in_tensors: Tin", "captured_tensors: Tcaptured"],
    outputs=["out_tensors: Tout"],
    attrs=[
        "f: func",
        "num_batch_threads: int",
        "max_batch_size: int",
        "batch_timeout_micros: int",
        "max_enqueued_batches: int = 10",
        "allowed_batch_sizes: list(int) = []",
        'container: string = ""',
        'shared_name: string = ""',
        'batching_queue: string = ""',
        "Tin: list(type) >= 1",
        "Tcaptured: list(type) >= 0",
        "Tout: list(type) >= 1",
    ],
)
