"""Properties, graphs and positions of datasets and iterators."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from flowengine.core import dtypes
from flowengine.core.accounting import ask_for, bytes_of
from flowengine.core.arrays import Value, describe, scalar_element, to_array
from flowengine.core.checksums.hashing import fingerprint64
from flowengine.core.dtypes import DType
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.ir.graph import NodeGraph
from flowengine.ir.graphdef import graph_from_def
from flowengine.ir.names import ARGUMENT, RESULT
from flowengine.ir.proto import GraphDef, VariantTensorDataProto
from flowengine.ir.tensorproto import VariantData, decode_tensor, encode_tensor
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
from flowengine.kernels.state.tables import as_hash_table
from flowengine.ops.load import registry as op_registry
from flowengine.resources.container import ResourceManager
from flowengine.resources.data.dataset import (
    DatasetValue,
    Iteration,
    check_types,
    checked_dataset,
    shape_of,
    text,
)
from flowengine.resources.data.state_coding import decode_state, encode_state
from flowengine.resources.function_calls import FunctionCaller

# What a dataset or an iterator is, asked by nodes; tables out of datasets.


class CompressedElement:
    """An element of a dataset, compressed; never changed.

    types   of its components
    size    the bytes that `data` becomes
    """

    __slots__ = ("data", "size", "types")

    def __init__(self, data: bytes, size: int, types: Sequence[DType]) -> None:
        self.data = data
        self.size = size
        self.types = tuple(types)

    def held_values(self) -> tuple[bytes]:
        """Return the held values: see `accounting.Composite`."""
        return (self.data,)


def _compressing_cost(*inputs: Any) -> float:
    """Microseconds: 100 bytes each."""
    return sum(map(bytes_of, inputs[0])) / 100


@kernel("CompressElement", heavy=_compressing_cost)
def compress_element(components: tuple[Value, ...], *, input_types: Sequence[DType]) -> CompressedElement:
    """The components (any number of tensors) as one variant of rank 0, compressed.

    Raises InvalidArgumentError for a component that is no tensor of numbers or strings, and
    ResourceExhaustedError where the step may not take what stands beside them meanwhile.
    """
    # As a message, as its text, and compressed, which may be as long.
    ask_for(3 * sum(map(bytes_of, components)))
    proto = VariantTensorDataProto()
    for number, (value, dtype) in enumerate(zip(components, input_types, strict=True)):
        if dtype in (dtypes.variant, dtypes.resource):
            raise InvalidArgumentError(f"component {number} is of type {dtype.name}, which is not compressed")
        proto.tensors.append(encode_tensor(to_array(value), dtype))
    text = proto.SerializeToString()
    proto.Clear()
    return CompressedElement(zlib.compress(text, 1), len(text), input_types)


@kernel("UncompressElement", fresh=True, heavy=lambda compressed, **_: bytes_of(compressed) / 20)
def uncompress_element(
    compressed: Any, *, output_types: Sequence[DType], output_shapes: Sequence[TensorShape]
) -> Any:
    """The components again; InvalidArgumentError where they are not what the node declares.

    Raises ResourceExhaustedError, before it allocates them, if they exceed the memory left to the step.
    """
    value = compressed
    if isinstance(value, np.ndarray) and not value.ndim and value.dtype.hasobject:
        value = value.item()
    if not isinstance(value, CompressedElement):
        raise InvalidArgumentError(
            f"Tensor does not contain a compressed element, but {describe(compressed)}"
        )
    ask_for(3 * value.size)  # as text, as a message, and as tensors
    proto = VariantTensorDataProto.FromString(zlib.decompress(value.data))
    found = [scalar_element(decode_tensor(each)) for each in proto.tensors]
    check_types(value.types, output_types, output_shapes, [TensorShape(shape_of(each)) for each in found])
    return found[0] if len(found) == 1 else tuple(found)


@kernel("DatasetCardinality", "ExperimentalDatasetCardinality", heavy=False)
def dataset_cardinality(input_dataset: Any) -> Any:
    """How many elements a dataset has (int64, rank 0); -1: without end, -2: nobody knows."""
    return np.int64(checked_dataset(input_dataset).cardinality())


@kernel("DatasetFingerprint", heavy=False)
def dataset_fingerprint(input_dataset: Any) -> Any:
    """A number (uint64, rank 0) that datasets of one graph have in common."""
    return np.uint64(fingerprint64(graph_of(checked_dataset(input_dataset))))


@kernel("GetOptions", heavy=False)
def get_options(input_dataset: Any) -> bytes:
    """The options that a dataset was given last, serialized (string, rank 0); empty for none."""
    found = checked_dataset(input_dataset)
    while True:
        options = found.origin.attrs.get("serialized_options")
        if isinstance(options, bytes):
            return options
        sources = found.sources()
        if not sources:
            return b""
        found = sources[0]


@kernel("IteratorGetDevice", "ExperimentalIteratorGetDevice", heavy=False)
def iterator_get_device(resource: Any) -> bytes:
    """The device that an iterator is on (string, rank 0)."""
    return checked_iterator(resource).device.encode()


@kernel("InitializeTableFromDataset", heavy=False)
async def initialize_table_from_dataset(table_handle: Any, dataset: Any, *, ctx: KernelContext) -> None:
    """Fill a table with the elements of a dataset, each a key and its value (rank 0).

    InvalidArgumentError for elements that are no such pairs; what a table says of pairs that are not of its
    types, and of keys that come twice. A step that is cancelled, or that ends in an error, leaves the table
    without entries.
    """
    table = as_hash_table(table_handle)
    found = checked_dataset(dataset, "dataset")
    if len(found.types) != 2:
        raise InvalidArgumentError(
            f"a table is filled from a dataset of keys and values, not of {len(found.types)} components"
        )
    table.check_types(*found.types)
    iteration = Iteration(ctx.resources.services)
    source = found.iterator(iteration)
    pairs: list[tuple[Any, Any]] = []
    try:
        while (element := await source.next()) is not None:
            for what, value in zip(("key", "value"), element, strict=True):
                if shape_of(value):
                    raise InvalidArgumentError(
                        f"a {what} for a table must be a scalar, not of shape {list(shape_of(value))}"
                    )
            key, value = element
            pairs.append((_plain(key), _plain(value)))
    finally:
        source.close()
        iteration.tasks.cancel()
    table.initialize(pairs, len(pairs))


def _plain(value: Any) -> Any:
    """A component of rank 0 as a Python value."""
    return value if isinstance(value, bytes) else value.item()


# Datasets as graphs and back, and where iterators stand, as values that a checkpoint keeps.


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
    """Serialize an iterator's state (variant, rank 0), with the graph of its dataset if that has one.

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
    """Let an iterator continue from the position of another one in the same dataset.

    If the dataset uses resources, the iterator continues in its own dataset; raises FailedPreconditionError
    before it has one. If it is cancelled, it may leave the iterator at the beginning.
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
