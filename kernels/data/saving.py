"""Datasets as graphs and back, and where iterators stand, as values that a checkpoint keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError
from flowengine.ir.graph import NodeGraph
from flowengine.ir.graphdef import graph_from_def
from flowengine.ir.names import ARGUMENT, RESULT
from flowengine.ir.proto import GraphDef
from flowengine.ir.tensorproto import VariantData
from flowengine.ir.traits import Constant
from flowengine.kernels.context import KernelContext
from flowengine.kernels.data.dataset_graphs import (
    RESULT_NAME,
    NotInGraphError,
    graph_of,
    graph_without_resources,
)
from flowengine.kernels.data.iterators import checked_iterator
from flowengine.kernels.data.outside_state import FAIL, IGNORE, WARN, check_outside_state
from flowengine.kernels.data.written_handles import makes_its_own
from flowengine.kernels.load import registry as kernel_registry
from flowengine.kernels.registry import kernel
from flowengine.ops.load import registry as op_registry
from flowengine.resources.container import ResourceManager
from flowengine.resources.data.dataset import DatasetValue, checked_dataset, text
from flowengine.resources.data.state_coding import decode_state, encode_state
from flowengine.resources.function_calls import FunctionCaller


def dataset_of_graph(content: bytes, ctx: KernelContext, caller: FunctionCaller | None) -> DatasetValue:
    """The dataset that a GraphDef makes. InvalidArgumentError for a graph that makes none."""
    proto = GraphDef()
    try:
        proto.ParseFromString(content)
    except Exception as error:
        raise InvalidArgumentError("graph_def is no serialized GraphDef") from error
    if proto.HasField("library") and caller is not None:
        caller = caller.of_library(proto.library)
    graph = graph_from_def(proto, op_registry())
    wanted = [node for node in graph if node.op == RESULT or node.name == RESULT_NAME]
    if not wanted or not wanted[0].inputs:
        raise InvalidArgumentError(f"the graph has no node '{RESULT_NAME}' that says which dataset it is of")
    context = _context_of(ctx, caller, ctx.resources)
    kernels = kernel_registry("numpy") if ctx.kernels is None else ctx.kernels
    values: dict[tuple[str, int], Any] = {}
    for name in _in_order(graph, wanted[0].inputs[0].node):
        node = graph[name]
        given = [values[port] for port in node.inputs]
        constant = node.trait(Constant)
        if node.op == ARGUMENT:
            raise InvalidArgumentError("a dataset's graph has no arguments")
        if constant is not None:
            values[name, 0] = node.attrs[constant.value].value()
            continue
        found = kernels.find(node)
        if found.is_async:
            raise InvalidArgumentError(f"'{name}' ({node.op}) waits: it cannot be part of a dataset's graph")
        keywords = {}
        if found.takes_context:
            keywords["ctx"] = _context_of(ctx, caller, None) if makes_its_own(node) else context
        made = found.bind(node)(*_grouped(node, given), **keywords)
        outputs = made if len(node.output_types) > 1 else (made,)
        values.update({(name, slot): value for slot, value in enumerate(outputs)})
    return checked_dataset(values[wanted[0].inputs[0]], "what the graph makes")


def _context_of(
    ctx: KernelContext, caller: FunctionCaller | None, resources: ResourceManager | None
) -> KernelContext:
    """As `ctx`, with another's functions and resources; None for resources that nobody else finds."""
    if resources is None:
        resources = ResourceManager()
        resources.account = ctx.resources.account
    found = KernelContext(
        resources=resources,
        step_container=ctx.step_container,
        device=ctx.device,
        files=ctx.files,
        python_calls=ctx.python_calls,
        functions=caller,
        kernels=ctx.kernels,
    )
    found.memory = ctx.memory
    return found


def _grouped(node: Any, given: list[Any]) -> Iterator[Any]:
    """Inputs as a kernel takes them: those of a list as one tuple."""
    at = 0
    for argument in node.op_def.inputs:
        count = len(argument.types(node.attrs))
        yield tuple(given[at : at + count]) if argument.is_list else given[at]
        at += count


def _in_order(graph: NodeGraph, last: str) -> list[str]:
    """The nodes that one needs, each behind its inputs."""
    order: list[str] = []
    known: set[str] = set()
    stack = [(last, False)]
    while stack:
        name, is_ready = stack.pop()
        if is_ready:
            order.append(name)
        elif name not in known:
            known.add(name)
            stack.append((name, True))
            stack += [(port.node, False) for port in graph[name].inputs]
            stack += [(before, False) for before in graph[name].control_inputs]
    return order


@kernel("DatasetToGraph", heavy=False)
def dataset_to_graph(input_dataset: Any, *, allow_stateful: bool) -> bytes:
    """A serialized GraphDef (string, rank 0) that makes the dataset.

    FailedPreconditionError where its functions keep state outside of it, unless that is allowed, and where
    they use what only this process has.
    """
    made = checked_dataset(input_dataset)
    check_outside_state(made, WARN if allow_stateful else FAIL)
    return graph_of(made)


@kernel("DatasetToGraphV2", heavy=False)
def dataset_to_graph_v2(input_dataset: Any, *, external_state_policy: int) -> bytes:
    """As `dataset_to_graph`, where `external_state_policy` says what is done of state outside."""
    made = checked_dataset(input_dataset)
    # TensorFlow takes any other number for that of the default.
    check_outside_state(made, external_state_policy if external_state_policy in (IGNORE, FAIL) else WARN)
    return graph_of(made)


@kernel("DatasetFromGraph", heavy=False)
def dataset_from_graph(graph_def: Any, *, ctx: KernelContext) -> DatasetValue:
    """The dataset (variant, rank 0) that a serialized GraphDef makes."""
    return dataset_of_graph(text(graph_def, "graph_def"), ctx, ctx.functions)


@kernel("SerializeIterator", heavy=False)
async def serialize_iterator(resource_handle: Any, *, external_state_policy: int) -> VariantData:
    """Where an iterator stands (variant, rank 0), with the graph of its dataset if that has one.

    external_state_policy   what is done where functions of the pipeline keep state outside of it

    FailedPreconditionError before the iterator has a dataset. Cancelled, it leaves the iterator as it is.
    """
    found = checked_iterator(resource_handle)
    state = await found.state()
    made = found.dataset
    if made is None:  # it was deleted meanwhile
        raise found.missing()
    check_outside_state(made, external_state_policy)
    try:
        graph = graph_without_resources(made)
    except NotInGraphError:
        graph = None
    return encode_state({"graph": graph, "state": state}, graph_without_resources)


@kernel("DeserializeIterator", heavy=False)
async def deserialize_iterator(resource_handle: Any, serialized: Any, *, ctx: KernelContext) -> None:
    """Have an iterator go on where another stood, in the same dataset, begun or not.

    Where the dataset uses resources the iterator goes on in its own: FailedPreconditionError before it has
    one. Cancelled, it may leave the iterator at the beginning.
    """
    found = checked_iterator(resource_handle)
    caller = ctx.functions
    kept = decode_state(serialized, lambda graph: dataset_of_graph(graph, ctx, caller))
    made = found.dataset if kept["graph"] is None else dataset_of_graph(kept["graph"], ctx, caller)
    if made is None:
        raise FailedPreconditionError(
            "the iterator whose place was saved uses resources, so that its dataset was not saved with it: "
            "begin this iterator with the same dataset before it is restored"
        )
    await found.restore(made, kept["state"])
