"""Iterators as nodes: made, begun with a dataset, asked for elements, named by strings, deleted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import trio

from flowengine.core.arrays import WOULD_WAIT, Value, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    OutOfRangeError,
)
from flowengine.core.shapes import TensorShape
from flowengine.ir.attrs import FuncAttr
from flowengine.ir.graph import Node
from flowengine.kernels.context import KernelContext
from flowengine.kernels.data.iterator_handles import handle_text, made_once, parsed_handle
from flowengine.kernels.data.optional import Optional
from flowengine.kernels.registry import kernel
from flowengine.resources.data.batches import batch_of
from flowengine.resources.data.dataset import (
    INFINITE,
    DatasetValue,
    Iteration,
    check_types,
    checked_dataset,
    checked_number,
    scalar,
    shape_of,
)
from flowengine.resources.data.functional import BoundFunction, reduced
from flowengine.resources.data.iterator import IteratorResource
from flowengine.resources.data.one_shot import OneShot
from flowengine.resources.data.working_ahead import PARALLEL_TUNED
from flowengine.resources.elements import Element, ElementRun
from flowengine.resources.names import resource_name


def _new(ctx: KernelContext, node: Node, where: str, name: str) -> IteratorResource:
    attrs = node.attrs
    return IteratorResource(
        ctx.resources.services,
        attrs["output_types"],
        attrs["output_shapes"],
        name=name,
        container=where,
        device=ctx.device,
    )


@kernel("Iterator", "IteratorV2", heavy=False)
def iterator(*, ctx: KernelContext, node: Node, container: bytes, shared_name: bytes) -> IteratorResource:
    """The iterator (resource, rank 0) of this container and name.

    A node makes it once a session. Once it is destroyed, its uses raise an error.
    """
    where, name = resource_name(container, shared_name, node.name)
    found = made_once(ctx, node, where, name, IteratorResource, lambda: _new(ctx, node, where, name))
    check_types(found.types, node.attrs["output_types"], node.attrs["output_shapes"], found.shapes)
    return found


@kernel("AnonymousIterator", heavy=False)
def anonymous_iterator(*, ctx: KernelContext, node: Node) -> IteratorResource:
    """An iterator (resource, rank 0) that only its handle names."""
    name = ctx.resources.unique_name(node.name)
    return ctx.resources.put("", name, IteratorResource, _new(ctx, node, "", name))


@kernel("AnonymousIteratorV2", heavy=False)
def anonymous_iterator_v2(*, ctx: KernelContext, node: Node) -> Any:
    """An iterator (resource, rank 0), and what deletes it (variant, rank 0)."""
    made = anonymous_iterator(ctx=ctx, node=node)
    return made, made


@kernel("OneShotIterator", heavy=False)
async def one_shot_iterator(*, ctx: KernelContext, node: Node, dataset_factory: FuncAttr) -> IteratorResource:
    """The iterator (resource, rank 0) of the dataset that a function makes; it is made once a session."""
    caller = ctx.functions
    if caller is None:
        raise InvalidArgumentError(
            "the dataset of a one-shot iterator is made by a function, and there is none"
        )
    held = made_once(
        ctx,
        node,
        caller.owner,
        node.name,
        OneShot,
        lambda: OneShot(_new(ctx, node, caller.owner, node.name), caller.function(dataset_factory)),
    )
    return await held.iterator()


def checked_iterator(handle: Any) -> IteratorResource:
    """The iterator of a handle; InvalidArgumentError for anything else."""
    if isinstance(handle, np.ndarray) and handle.shape == () and handle.dtype.hasobject:
        handle = handle.item()
    if isinstance(handle, IteratorResource):
        return handle
    raise InvalidArgumentError(f"the handle of an iterator is wanted, not {handle!r:.80}")


def _make_nowait(dataset: Any, iterator: Any) -> Any:
    return checked_iterator(iterator).make_nowait(checked_dataset(dataset, "dataset"))


@kernel("MakeIterator", heavy=False, nowait=_make_nowait)
async def make_iterator(dataset: Any, iterator: Any) -> None:
    """Have an iterator begin with a dataset, once the tasks of the one before have ended."""
    await checked_iterator(iterator).make(checked_dataset(dataset, "dataset"))


def _outputs(element: Element) -> Any:
    return element[0] if len(element) == 1 else element


def _get_next_nowait(
    iterator: Any, *, output_types: Sequence[DType], output_shapes: Sequence[TensorShape]
) -> Any:
    found = checked_iterator(iterator)
    element = found.get_nowait()
    return element if element is WOULD_WAIT else _outputs(found.checked(element, output_types, output_shapes))


@kernel("IteratorGetNext", "IteratorGetNextSync", heavy=False, nowait=_get_next_nowait)
async def iterator_get_next(
    iterator: Any, *, output_types: Sequence[DType], output_shapes: Sequence[TensorShape]
) -> Any:
    """The next element.

    Raises OutOfRangeError after the last, FailedPreconditionError before there is a dataset, and
    InvalidArgumentError if the element is not of the node's types and shapes. If it is cancelled, the next
    call gets the element.
    """
    found = checked_iterator(iterator)
    return _outputs(found.checked(await found.get(), output_types, output_shapes))


@kernel("IteratorGetNextAsOptional", heavy=False)
async def iterator_get_next_as_optional(
    iterator: Any, *, output_types: Sequence[DType], output_shapes: Sequence[TensorShape]
) -> Optional:
    """The next element as an optional (variant, rank 0), which has no value after the last.

    Raises as `iterator_get_next`.
    """
    found = checked_iterator(iterator)
    try:
        element = await found.get()
    except OutOfRangeError:
        return Optional(None)
    return Optional(found.checked(element, output_types, output_shapes))


@kernel("IteratorToStringHandle", heavy=False)
def iterator_to_string_handle(resource_handle: Any) -> bytes:
    """Return the text that names the iterator (string, rank 0); NotFoundError if it was destroyed."""
    found = checked_iterator(resource_handle)
    if found.is_removed:
        raise found.missing()
    return handle_text(found.device, found.container, found.name, "Iterator")


@kernel("IteratorFromStringHandle", "IteratorFromStringHandleV2", heavy=False)
def iterator_from_string_handle(
    string_handle: Any,
    *,
    ctx: KernelContext,
    output_types: Sequence[DType],
    output_shapes: Sequence[TensorShape],
) -> IteratorResource:
    """The iterator (resource, rank 0) that a string names, whose elements must be what the node says."""
    proto = parsed_handle(string_handle)
    resources = ctx.resources
    found = resources.find(proto.container, proto.name, IteratorResource)
    if found is None:
        held = resources.find(proto.container, proto.name, OneShot)
        found = None if held is None else held.resource
    if found is None:
        raise NotFoundError(f"Resource {proto.container}/{proto.name}/Iterator does not exist.")
    if output_types:
        check_types(found.types, output_types, output_shapes, found.shapes)
    return found


@kernel("DeleteIterator", heavy=False)
async def delete_iterator(handle: Any, deleter: Any, *, ctx: KernelContext) -> None:
    """Remove an iterator; its tasks have ended when this returns.

    NotFoundError for one with a name that was removed before.
    """
    found = checked_iterator(handle)
    if not await ctx.resources.remove(found) and ctx.resources.is_shared(found):
        raise found.missing()


@kernel("DatasetToSingleElement", heavy=False)
async def dataset_to_single_element(dataset: Any, *, ctx: KernelContext) -> Any:
    """The only element of a dataset. InvalidArgumentError where it has none, or another one."""
    found = checked_dataset(dataset, "dataset")
    iteration = Iteration(ctx.resources.services)
    source = found.iterator(iteration)
    try:
        element = await source.next()
        if element is None:
            raise InvalidArgumentError("Dataset was empty.")
        if await source.next() is not None:
            raise InvalidArgumentError("Dataset had more than one element.")
        return _outputs(element)
    finally:
        source.close()
        iteration.tasks.cancel()


#: Elements that are passed at once on the way to one.
_PASSED: Final = 1024


@kernel("GetElementAtIndex", heavy=False)
async def get_element_at_index(dataset: Any, index: Any, *, ctx: KernelContext) -> Any:
    """The element of a dataset with a number (rank 0): asked for by it, or found behind those before it.

    Raises OutOfRangeError where there is none, FailedPreconditionError for a dataset without end.
    """
    found = checked_dataset(dataset, "dataset")
    number = scalar(index, "index")
    count = found.cardinality()
    if count == INFINITE:
        raise FailedPreconditionError("the dataset has no end: its elements cannot be counted")
    iteration = Iteration(ctx.resources.services)
    if count >= 0 and found.unnumbered() is None:
        return _outputs(await found.element_at(iteration, checked_number(number, count)))
    source = found.iterator(iteration)
    try:
        passed, element = 0, None
        while passed <= number and (count < 0 or number < count):
            taken = await source.take(min(number - passed + 1, _PASSED))
            if not taken:
                break
            passed += len(taken)
            element = taken[-1] if passed > number else None
        if element is None:
            end = count if count >= 0 else passed
            raise OutOfRangeError(f"Index out of range [0, {end}): {number}")
        return _outputs(element)
    finally:
        source.close()
        iteration.tasks.cancel()


@kernel("ReduceDataset", heavy=False)
async def reduce_dataset(
    input_dataset: Any,
    initial_state: tuple[Value, ...],
    other_arguments: tuple[Value, ...],
    *,
    ctx: KernelContext,
    f: FuncAttr,
    output_types: Sequence[DType],
    output_shapes: Sequence[TensorShape],
) -> Any:
    """Reduce a dataset: apply a function to a state and each element in turn."""
    if ctx.functions is None:
        raise InvalidArgumentError("a dataset is reduced by a function, and this graph has none")
    found: DatasetValue = checked_dataset(input_dataset)
    iteration = Iteration(ctx.resources.services)
    call = BoundFunction(ctx.functions.function(f), other_arguments)
    try:
        state = await reduced(found, iteration, call, initial_state)
    finally:
        iteration.tasks.cancel()
    for value, shape in zip(state, output_shapes, strict=True):
        if not shape.is_compatible_with(TensorShape(getattr(value, "shape", ()))):
            raise InvalidArgumentError(
                f"the function of a reduction gave shape {list(value.shape)}, the node declares {shape}"
            )
    return _outputs(state)


@kernel("MapDefun", heavy=False)
async def map_defun(
    arguments: tuple[Value, ...],
    captured_inputs: tuple[Value, ...],
    *,
    ctx: KernelContext,
    f: FuncAttr,
    output_types: Sequence[DType],
    output_shapes: Sequence[TensorShape],
) -> Any:
    """Apply a function to each row of the arguments, (rows, ...); all rows at the same time."""
    if ctx.functions is None:
        raise InvalidArgumentError("rows are mapped by a function, and this graph has none")
    columns = [to_array(each) for each in arguments]
    if any(not column.ndim or len(column) != len(columns[0]) for column in columns):
        raise InvalidArgumentError("All inputs must have the same dimension 0.")
    function = ctx.functions.function(f)
    results: list[Element] = [()] * len(columns[0])

    async def call(row: int) -> None:
        given = (*(column[row] for column in columns), *captured_inputs)
        results[row] = await function(given, ctx.sequences)

    first: list[OpError] = []

    async def call_next(rows: Iterator[int], scope: trio.CancelScope) -> None:
        for row in rows:
            try:
                await call(row)
            except OpError as error:
                first.append(error)
                scope.cancel()
                return

    rows = iter(range(len(results)))
    async with trio.open_nursery() as nursery:
        for _ in range(min(len(results), PARALLEL_TUNED)):
            nursery.start_soon(call_next, rows, nursery.cancel_scope)
    if first:
        raise first[0]
    if not results:
        empty = [
            np.empty((0, *(size or 0 for size in shape.as_list())), dtype.as_numpy_dtype)
            for dtype, shape in zip(output_types, output_shapes, strict=True)
        ]
        return _outputs(tuple(empty))
    for value, shape in zip(results[0], output_shapes, strict=True):
        if not shape.is_compatible_with(TensorShape(shape_of(value))):
            raise InvalidArgumentError(
                f"Output shape {list(shape_of(value))} is not compatible with the declared {shape}"
            )
    return _outputs(batch_of(ElementRun.of(results), output_types))
