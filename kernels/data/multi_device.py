"""Multi-device iterators as nodes: made, begun with a dataset, asked by shards, named by strings, deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.core.shapes import TensorShape
from flowengine.ir.graph import Node
from flowengine.kernels.context import KernelContext
from flowengine.kernels.data.iterator_handles import handle_text, made_once, parsed_handle
from flowengine.kernels.registry import kernel
from flowengine.resources.data.dataset import check_types, checked_dataset
from flowengine.resources.data.multi_device import MultiDeviceIterator
from flowengine.resources.names import resource_name

_KIND = "MultiDeviceIterator"


def _new(ctx: KernelContext, node: Node, where: str, name: str) -> MultiDeviceIterator:
    attrs = node.attrs
    return MultiDeviceIterator(
        ctx.resources.services,
        attrs["devices"],
        attrs["output_types"],
        attrs["output_shapes"],
        name=name,
        container=where,
        device=ctx.device,
    )


@kernel("MultiDeviceIterator", heavy=False)
def multi_device_iterator(
    *, ctx: KernelContext, node: Node, container: bytes, shared_name: bytes
) -> MultiDeviceIterator:
    """The multi-device iterator (resource, rank 0) of this container and name."""
    where, name = resource_name(container, shared_name, node.name)
    return made_once(ctx, node, where, name, MultiDeviceIterator, lambda: _new(ctx, node, where, name))


@kernel("AnonymousMultiDeviceIteratorV3", heavy=False)
def anonymous_multi_device_iterator_v3(*, ctx: KernelContext, node: Node) -> MultiDeviceIterator:
    """One (resource, rank 0) that only its handle names."""
    name = ctx.resources.unique_name(node.name)
    return ctx.resources.put("", name, MultiDeviceIterator, _new(ctx, node, "", name))


@kernel("AnonymousMultiDeviceIterator", heavy=False)
def anonymous_multi_device_iterator(*, ctx: KernelContext, node: Node) -> Any:
    """One (resource, rank 0), and what deletes it (variant, rank 0)."""
    made = anonymous_multi_device_iterator_v3(ctx=ctx, node=node)
    return made, made


def _checked(handle: Any) -> MultiDeviceIterator:
    if isinstance(handle, np.ndarray) and handle.shape == () and handle.dtype.hasobject:
        handle = handle.item()
    if isinstance(handle, MultiDeviceIterator):
        return handle
    raise InvalidArgumentError(f"the handle of a multi-device iterator is wanted, not {handle!r:.80}")


@kernel("MultiDeviceIteratorInit", heavy=False)
async def multi_device_iterator_init(dataset: Any, multi_device_iterator: Any, max_buffer_size: Any) -> Any:
    """Begin with a dataset; the number of this incarnation (int64, rank 0)."""
    found = _checked(multi_device_iterator)
    return np.int64(await found.begin(checked_dataset(dataset, "dataset"), int(max_buffer_size)))


@kernel("MultiDeviceIteratorGetNextFromShard", heavy=False)
async def multi_device_iterator_get_next_from_shard(
    multi_device_iterator: Any, shard_num: Any, incarnation_id: Any
) -> Any:
    """The next element of a shard. OutOfRangeError after the last."""
    element = await _checked(multi_device_iterator).get(int(shard_num), int(incarnation_id))
    return element[0] if len(element) == 1 else element


@kernel("MultiDeviceIteratorToStringHandle", heavy=False)
def multi_device_iterator_to_string_handle(multi_device_iterator: Any) -> bytes:
    """Return the text that names the iterator (string, rank 0)."""
    found = _checked(multi_device_iterator)
    if found.is_removed:
        raise found.missing()
    return handle_text(found.device, found.container, found.name, _KIND)


@kernel("MultiDeviceIteratorFromStringHandle", heavy=False)
def multi_device_iterator_from_string_handle(
    string_handle: Any,
    *,
    ctx: KernelContext,
    output_types: Sequence[DType],
    output_shapes: Sequence[TensorShape],
) -> MultiDeviceIterator:
    """The iterator (resource, rank 0) that a string names."""
    proto = parsed_handle(string_handle)
    found = ctx.resources.find(proto.container, proto.name, MultiDeviceIterator)
    if found is None:
        raise NotFoundError(f"Resource {proto.container}/{proto.name}/{_KIND} does not exist.")
    if output_types:
        check_types(found.types, output_types, output_shapes, found.shapes)
    return found


@kernel("DeleteMultiDeviceIterator", heavy=False)
async def delete_multi_device_iterator(
    multi_device_iterator: Any, iterators: tuple[Any, ...], deleter: Any, *, ctx: KernelContext
) -> None:
    """Remove one; its tasks have ended when this returns.

    NotFoundError for one with a name that was removed before.
    """
    found = _checked(multi_device_iterator)
    if not await ctx.resources.remove(found) and ctx.resources.is_shared(found):
        raise found.missing()
