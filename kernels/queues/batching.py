"""Dynamic batching as nodes: `Batch`, the computation in between, `Unbatch`; or a function of batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import WOULD_WAIT, Array, Value, to_array
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel
from flowengine.resources.batching.calls import BatcherOptions, CallBatcher, FunctionCall
from flowengine.resources.batching.steps import Batcher, BatchShare, Regatherer, Unbatcher
from flowengine.resources.names import resource_name


def _place(node: Node) -> tuple[str, str]:
    """The container and the name of what collects batches; queues of one name are apart."""
    where, name = resource_name(node.attrs["container"], node.attrs["shared_name"], node.name)
    queue = node.attrs["batching_queue"].decode("utf-8", "replace")
    return where, f"{name}/{queue}" if queue else name


def _batcher(ctx: KernelContext, node: Node) -> Batcher:
    attrs = node.attrs
    where, name = _place(node)
    return ctx.resources.lookup_or_create(
        where,
        name,
        Batcher,
        lambda: Batcher(
            name,
            ctx.resources.services,
            max_batch_size=attrs["max_batch_size"],
            timeout_seconds=attrs["batch_timeout_micros"] / 1e6,
            allowed_batch_sizes=attrs["allowed_batch_sizes"],
        ),
    )


def _outputs(batched: BatchShare) -> tuple[Any, ...]:
    return (*batched.tensors, batched.batch_index, np.int64(batched.id))


def _batch_nowait(in_tensors: tuple[Value, ...], *, ctx: KernelContext, node: Node) -> Any:
    batched = _batcher(ctx, node).submit_nowait(tuple([to_array(tensor) for tensor in in_tensors]))
    return batched if batched is WOULD_WAIT else _outputs(batched)


@kernel("Batch", heavy=False, nowait=_batch_nowait)
async def batch(in_tensors: tuple[Value, ...], *, ctx: KernelContext, node: Node) -> tuple[Any, ...]:
    """All rows of the batch or none, whose they are (int64, (n, 3)), and this step's id (int64, rank 0)."""
    return _outputs(await _batcher(ctx, node).submit(tuple([to_array(tensor) for tensor in in_tensors])))


def _unbatcher(ctx: KernelContext, node: Node) -> tuple[Unbatcher, float | None]:
    """The resource, and how many seconds a step waits for its rows."""
    attrs = node.attrs
    where, name = resource_name(attrs["container"], attrs["shared_name"], node.name)
    micros = attrs["timeout_micros"]
    unbatcher = ctx.resources.lookup_or_create(where, name, Unbatcher, Unbatcher)
    return unbatcher, micros / 1e6 if micros > 0 else None


def _unbatch_nowait(
    batched_tensor: Value, batch_index: Any, batch_id: Any, *, ctx: KernelContext, node: Node
) -> Any:
    unbatcher, timeout = _unbatcher(ctx, node)
    return unbatcher.get_nowait(to_array(batched_tensor), batch_index, int(batch_id), timeout)


@kernel("Unbatch", heavy=False, nowait=_unbatch_nowait)
async def unbatch(
    batched_tensor: Value, batch_index: Any, batch_id: Any, *, ctx: KernelContext, node: Node
) -> Array:
    """The rows that belong to `batch_id` (int64, rank 0), waiting for the step that has them."""
    unbatcher, timeout = _unbatcher(ctx, node)
    return await unbatcher.get(to_array(batched_tensor), batch_index, int(batch_id), timeout)


@kernel("UnbatchGrad", heavy=False)
async def unbatch_grad(
    original_input: Value, batch_index: Any, grad: Value, batch_id: Any, *, ctx: KernelContext, node: Node
) -> Array:
    """The gradients of all of the batch for the step that computed it, no rows for the others."""
    attrs = node.attrs
    where, name = resource_name(attrs["container"], attrs["shared_name"], node.name)
    regatherer = ctx.resources.lookup_or_create(where, name, Regatherer, Regatherer)
    return await regatherer.get(
        to_array(original_input), to_array(batch_index), to_array(grad), int(batch_id)
    )


def _call_batcher(ctx: KernelContext, node: Node) -> CallBatcher:
    attrs = node.attrs
    where, name = _place(node)
    return ctx.resources.lookup_or_create(
        where,
        name,
        CallBatcher,
        lambda: CallBatcher(
            name,
            ctx.resources.services,
            BatcherOptions(
                max_batch_size=attrs["max_batch_size"],
                timeout_seconds=attrs["batch_timeout_micros"] / 1e6,
                num_batch_threads=attrs["num_batch_threads"],
                max_enqueued_batches=attrs["max_enqueued_batches"],
                allowed_batch_sizes=tuple(attrs["allowed_batch_sizes"]),
                splits=attrs["enable_large_batch_splitting"],
                trims=attrs["batch_padding_policy"] == b"BATCH_DOWN",
            ),
            len(attrs["Tout"]),
        ),
    )


@kernel("BatchFunction", heavy=False)
async def batch_function(
    in_tensors: tuple[Value, ...], captured_tensors: tuple[Value, ...], *, ctx: KernelContext, node: Node
) -> Any:
    """The rows of a function's results that belong to this step's rows: it is called once for many steps.

    All steps are of one priority, so the attributes of low priority say nothing here.
    """
    rows = tuple([to_array(tensor) for tensor in in_tensors])
    caller = ctx.functions
    if caller is None:
        raise FailedPreconditionError("BatchFunction calls a function, and this graph has no library of them")
    batcher = _call_batcher(ctx, node)
    call = FunctionCall(batcher.function_of(caller, node.attrs["f"]), captured_tensors)
    results = await batcher.call(rows, call)
    for result, dtype in zip(results, node.attrs["Tout"], strict=True):
        found = to_array(result).dtype
        if found != dtype.as_numpy_dtype:
            raise InvalidArgumentError(
                f"a result of '{node.attrs['f'].name}' is {found}, the node's is {dtype.name}"
            )
    return results[0] if len(results) == 1 else results
