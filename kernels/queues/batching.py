"""Dynamic batching as nodes: `Batch`, the computation in between, `Unbatch`."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import WOULD_WAIT, Array, Value, to_array
from flowengine.ir.graph import Node
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel
from flowengine.resources.batching import Batcher, BatchShare, Regatherer, Unbatcher
from flowengine.resources.names import resource_name


def _batcher(ctx: KernelContext, node: Node) -> Batcher:
    attrs = node.attrs
    where, name = resource_name(attrs["container"], attrs["shared_name"], node.name)
    queue = attrs["batching_queue"].decode("utf-8", "replace")
    return ctx.resources.lookup_or_create(
        where,
        f"{name}/{queue}" if queue else name,
        Batcher,
        lambda: Batcher(
            name,
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
