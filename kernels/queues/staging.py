"""Staging areas and maps as nodes. Their ops name the area by attributes; no handle flows."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import WOULD_WAIT, Value, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel
from flowengine.resources.names import resource_name
from flowengine.resources.staging import StagingArea, StagingMap


def _area(ctx: KernelContext, node: Node) -> StagingArea:
    attrs = node.attrs
    where, name = resource_name(attrs["container"], attrs["shared_name"], node.name)
    return ctx.resources.lookup_or_create(
        where,
        name,
        StagingArea,
        lambda: StagingArea(
            name, capacity=attrs["capacity"], memory_limit=attrs["memory_limit"], container=where
        ),
    )


def _map(ctx: KernelContext, node: Node) -> StagingMap:
    attrs = node.attrs
    where, name = resource_name(attrs["container"], attrs["shared_name"], node.name)
    return ctx.resources.lookup_or_create(
        where,
        name,
        StagingMap,
        lambda: StagingMap(
            name,
            len(attrs["dtypes"]),
            ordered=node.op.startswith("Ordered"),
            capacity=attrs["capacity"],
            memory_limit=attrs["memory_limit"],
            container=where,
        ),
    )


def _outputs(values: tuple[Value, ...]) -> Any:
    """One output by itself, several as a tuple."""
    return values[0] if len(values) == 1 else values


def _stage_nowait(values: tuple[Value, ...], *, ctx: KernelContext, node: Node) -> Any:
    return _area(ctx, node).put_nowait(values)


@kernel("Stage", heavy=False, nowait=_stage_nowait)
async def stage(values: tuple[Value, ...], *, ctx: KernelContext, node: Node) -> None:
    """Add an element, waiting for room."""
    await _area(ctx, node).put(values)


def _unstage_nowait(*, ctx: KernelContext, node: Node) -> Any:
    values = _area(ctx, node).get_nowait()
    return values if values is WOULD_WAIT else _outputs(values)


@kernel("Unstage", heavy=False, nowait=_unstage_nowait)
async def unstage(*, ctx: KernelContext, node: Node) -> Any:
    """Take the oldest element, waiting for one."""
    return _outputs(await _area(ctx, node).get())


def _stage_peek_nowait(index: Any, *, ctx: KernelContext, node: Node) -> Any:
    values = _area(ctx, node).peek_nowait(int(index))
    return values if values is WOULD_WAIT else _outputs(values)


@kernel("StagePeek", heavy=False, nowait=_stage_peek_nowait)
async def stage_peek(index: Any, *, ctx: KernelContext, node: Node) -> Any:
    """The element at `index` (int32, rank 0), which stays, waiting for it."""
    return _outputs(await _area(ctx, node).peek(int(index)))


@kernel("StageSize", heavy=False)
def stage_size(*, ctx: KernelContext, node: Node) -> Any:
    """How many elements there are (int32, rank 0)."""
    return np.int32(len(_area(ctx, node)))


@kernel("StageClear", heavy=False)
def stage_clear(*, ctx: KernelContext, node: Node) -> None:
    """Drop all elements."""
    _area(ctx, node).clear()


def _key(value: Any) -> int:
    if getattr(value, "ndim", 0):
        raise InvalidArgumentError(f"the key of a staged entry must be a scalar, not {list(value.shape)}")
    return int(value)


def _indices(value: Any) -> list[int]:
    array = to_array(value)
    if array.ndim != 1:
        raise InvalidArgumentError(f"indices of staged tensors must be a vector, not {list(array.shape)}")
    indices: list[int] = array.tolist()
    return indices


def _map_stage_nowait(
    key: Any, indices: Any, values: tuple[Value, ...], *, ctx: KernelContext, node: Node
) -> Any:
    return _map(ctx, node).put_nowait(_key(key), _indices(indices), values)


@kernel("MapStage", "OrderedMapStage", heavy=False, nowait=_map_stage_nowait)
async def map_stage(
    key: Any, indices: Any, values: tuple[Value, ...], *, ctx: KernelContext, node: Node
) -> None:
    """Add components of the entry `key` (int64, rank 0), waiting for room."""
    await _map(ctx, node).put(_key(key), _indices(indices), values)


def _map_unstage_nowait(key: Any, indices: Any, *, ctx: KernelContext, node: Node) -> Any:
    found = _map(ctx, node).get_nowait(_key(key), _indices(indices))
    return found if found is WOULD_WAIT else _outputs(found[1])


@kernel("MapUnstage", "OrderedMapUnstage", heavy=False, nowait=_map_unstage_nowait)
async def map_unstage(key: Any, indices: Any, *, ctx: KernelContext, node: Node) -> Any:
    """Take components of the entry `key`, waiting for it."""
    return _outputs((await _map(ctx, node).get(_key(key), _indices(indices)))[1])


def _map_unstage_no_key_nowait(indices: Any, *, ctx: KernelContext, node: Node) -> Any:
    found = _map(ctx, node).get_nowait(None, _indices(indices))
    return found if found is WOULD_WAIT else (np.int64(found[0]), *found[1])


@kernel("MapUnstageNoKey", "OrderedMapUnstageNoKey", heavy=False, nowait=_map_unstage_no_key_nowait)
async def map_unstage_no_key(indices: Any, *, ctx: KernelContext, node: Node) -> Any:
    """Take components of the first entry, waiting for one: its key, then the components."""
    key, values = await _map(ctx, node).get(None, _indices(indices))
    return (np.int64(key), *values)


def _map_peek_nowait(key: Any, indices: Any, *, ctx: KernelContext, node: Node) -> Any:
    found = _map(ctx, node).peek_nowait(_key(key), _indices(indices))
    return found if found is WOULD_WAIT else _outputs(found[1])


@kernel("MapPeek", "OrderedMapPeek", heavy=False, nowait=_map_peek_nowait)
async def map_peek(key: Any, indices: Any, *, ctx: KernelContext, node: Node) -> Any:
    """Components of the entry `key`, which stay, waiting for it."""
    return _outputs((await _map(ctx, node).peek(_key(key), _indices(indices)))[1])


@kernel("MapSize", "OrderedMapSize", heavy=False)
def map_size(*, ctx: KernelContext, node: Node) -> Any:
    """How many complete entries there are (int32, rank 0)."""
    return np.int32(len(_map(ctx, node)))


@kernel("MapIncompleteSize", "OrderedMapIncompleteSize", heavy=False)
def map_incomplete_size(*, ctx: KernelContext, node: Node) -> Any:
    """How many entries lack a component (int32, rank 0)."""
    return np.int32(_map(ctx, node).incomplete_size)


@kernel("MapClear", "OrderedMapClear", heavy=False)
def map_clear(*, ctx: KernelContext, node: Node) -> None:
    """Drop all entries, complete or not."""
    _map(ctx, node).clear()
